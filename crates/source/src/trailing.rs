//! The value of the last expression becomes the value of the program.

use oxc_ast::ast::{FunctionBody, Statement};
use oxc_span::{GetSpan, Span};

use crate::edits::{Edits, Side};
use crate::typescript::is_erased;

/// The expression at the end of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trailing {
    statement: Span,
    expression: Span,
    /// The end of what stands before it.
    previous: Option<u32>,
}

impl Trailing {
    /// The last statement, if it is an expression. What is erased does not count, nor do empty statements.
    pub(crate) fn of(body: &FunctionBody<'_>) -> Option<Trailing> {
        let is_last =
            |statement: &Statement<'_>| !matches!(statement, Statement::EmptyStatement(_)) && !is_erased(statement);
        let index = body.statements.iter().rposition(is_last);
        let directive_end = body.directives.last().map(|directive| directive.span.end);
        let Some(index) = index else {
            let (directive, before) = body.directives.split_last()?;
            return Some(Trailing {
                statement: directive.span,
                expression: directive.expression.span,
                previous: before.last().map(|directive| directive.span.end),
            });
        };
        let Statement::ExpressionStatement(statement) = &body.statements[index] else { return None };
        let before = index.checked_sub(1).map(|index| body.statements[index].span().end);
        Some(Trailing {
            statement: statement.span,
            expression: statement.expression.span(),
            previous: before.or(directive_end),
        })
    }

    /// Whether `statement` is the one that the expression stands in.
    pub(crate) fn is_in(&self, statement: Span) -> bool {
        self.statement == statement
    }

    /// Returns a list with the value: an async function would wait for a promise that it returns itself. The keyword goes behind the previous statement: so the columns of an expression that stands on
    /// lines of its own stay as they are, and a comment between the two stays a comment.
    pub(crate) fn edit(&self, edits: &mut Edits) {
        match self.previous {
            Some(end) => edits.insert(end, Side::Between, ";return[("),
            None => edits.insert(self.statement.start, Side::Between, "return[("),
        }
        edits.insert(self.expression.end, Side::Behind, ")]");
    }
}
