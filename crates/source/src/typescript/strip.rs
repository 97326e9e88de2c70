//! The walk over the tree that finds what is to be erased.

use oxc_allocator::ArenaVec;
use oxc_ast::AstKind;
use oxc_ast::ast::{BinaryOperator, Class, ClassElement, Declaration, Expression, FunctionBody, Statement};
use oxc_ast_visit::VisitJs;
use oxc_ast_visit::walk_js::{walk_class, walk_declaration, walk_function_body, walk_statement};
use oxc_span::{GetSpan, Span};

use super::scope::{ListKind, Names, Scope};
use super::tokens::Tokens;
use super::{Refusal, is_erased};
use crate::edits::{Edits, Side};
use crate::spine::walk_spine;
use crate::trailing::Trailing;

pub(super) struct Strip<'t> {
    pub(super) text: &'t str,
    pub(super) tokens: Tokens<'t>,
    pub(super) edits: Edits,
    pub(super) names: Names<'t>,
    /// What the next list of statements is the body of.
    pub(super) next_list: ListKind,
    /// What enums and namespaces of the current list need to know of each other.
    pub(super) scope: Scope,
    /// How many names of merged declarations were copied.
    pub(super) merged_names: usize,
    pub(super) is_strict: bool,
    trailing: Option<Trailing>,
    refusal: Option<Refusal>,
}

impl<'t> Strip<'t> {
    pub(super) fn new(tokens: Tokens<'t>, text: &'t str, trailing: Option<Trailing>) -> Self {
        Strip {
            text,
            tokens,
            edits: Edits::default(),
            names: Names::new(text),
            next_list: ListKind::Block,
            scope: Scope::default(),
            merged_names: 0,
            is_strict: false,
            trailing,
            refusal: None,
        }
    }

    pub(super) fn run(mut self, body: &FunctionBody<'_>) -> Result<Edits, Refusal> {
        self.visit_function_body(body);
        match self.refusal {
            Some(refusal) => Err(refusal),
            None => Ok(self.edits),
        }
    }

    pub(super) fn refuse(&mut self, at: u32, message: impl Into<String>) {
        self.refusal.get_or_insert(Refusal { at, message: message.into() });
    }

    pub(super) fn erase(&mut self, span: Span) {
        self.edits.erase(span.start, span.end);
    }

    /// Erases a `?` or `!` that is the next token.
    pub(super) fn erase_mark(&mut self, behind: u32) {
        if let Some(mark) = self.tokens.sign(behind, b"?!") {
            self.erase(mark);
        }
    }

    /// Ends a statement or a field whose end was erased by the changes since `first`.
    pub(super) fn end(&mut self, first: usize, span: Span) {
        if !matches!(self.text.as_bytes().get(span.end as usize - 1), Some(b';' | b'}')) {
            self.edits.end_statement(first, span.end);
        }
    }

    /// A declaration, exported or not.
    fn declaration(&mut self, declaration: &Declaration<'_>) {
        match declaration {
            Declaration::TSEnumDeclaration(declaration) => self.enumeration(declaration),
            Declaration::TSNamespaceDeclaration(namespace) => self.namespace(namespace),
            Declaration::TSImportEqualsDeclaration(import) => {
                self.refuse(import.span.start, "`import … = …` is not supported: write `const … = …` instead");
            }
            declaration => {
                let first = self.edits.count();
                walk_declaration(self, declaration);
                self.end(first, declaration.span());
            }
        }
    }
}

impl<'a> VisitJs<'a> for Strip<'_> {
    fn visit_function_body(&mut self, body: &FunctionBody<'a>) {
        let outer = self.is_strict;
        self.is_strict |= body.directives.iter().any(|directive| directive.directive == "use strict");
        self.next_list = ListKind::Function;
        walk_function_body(self, body);
        self.is_strict = outer;
    }

    fn visit_class(&mut self, class: &Class<'a>) {
        let outer = std::mem::replace(&mut self.is_strict, true);
        walk_class(self, class);
        self.is_strict = outer;
    }

    fn visit_statements(&mut self, statements: &ArenaVec<'a, Statement<'a>>) {
        let kind = std::mem::take(&mut self.next_list);
        let outer = std::mem::replace(&mut self.scope, Scope::of(statements, kind));
        for statement in statements {
            self.visit_statement(statement);
        }
        self.scope = outer;
    }

    fn visit_statement(&mut self, statement: &Statement<'a>) {
        let span = statement.span();
        if is_erased(statement) {
            self.edits.erase_to(span.start, span.end, ';');
            return;
        }
        if let Statement::ExportDeclaration(export) = statement {
            self.edits.erase(span.start, export.declaration.span().start);
            return self.declaration(&export.declaration);
        }
        if let Some(declaration) = statement.as_declaration() {
            return self.declaration(declaration);
        }
        let first = self.edits.count();
        walk_statement(self, statement);
        if self.trailing.is_none_or(|trailing| !trailing.is_in(span)) {
            self.end(first, span);
        }
    }

    fn visit_expression(&mut self, expression: &Expression<'a>) {
        walk_spine(self, expression);
    }

    fn visit_class_element(&mut self, element: &ClassElement<'a>) {
        self.class_element(element);
    }

    fn enter_node(&mut self, kind: AstKind<'a>) {
        match kind {
            AstKind::Function(function) => self.function(function),
            AstKind::ArrowFunctionExpression(arrow) => self.arrow(arrow),
            AstKind::FormalParameter(parameter) => self.parameter(parameter),
            AstKind::FormalParameterRest(rest) => self.erase_annotation(rest.type_annotation.as_deref()),
            AstKind::CatchParameter(parameter) => self.erase_annotation(parameter.type_annotation.as_deref()),
            AstKind::VariableDeclarator(variable) => {
                if variable.definite {
                    self.erase_mark(variable.id.span().end);
                }
                self.erase_annotation(variable.type_annotation.as_deref());
            }
            AstKind::Class(class) => self.class(class),
            AstKind::CallExpression(call) => self.erase_arguments(call.type_arguments.as_deref()),
            AstKind::NewExpression(call) => self.erase_arguments(call.type_arguments.as_deref()),
            AstKind::TaggedTemplateExpression(call) => self.erase_arguments(call.type_arguments.as_deref()),
            AstKind::TSInstantiationExpression(call) => self.erase_arguments(Some(&call.type_arguments)),
            AstKind::TSAsExpression(cast) => self.erase_cast(cast.expression.span(), cast.span),
            AstKind::TSSatisfiesExpression(cast) => self.erase_cast(cast.expression.span(), cast.span),
            AstKind::TSNonNullExpression(cast) => self.edits.erase(cast.span.end - 1, cast.span.end),
            AstKind::TSTypeAssertion(cast) => {
                // The parenthesis keeps `return <\nT>x` on one line, and an object from becoming a block.
                self.edits.erase_to(cast.span.start, cast.expression.span().start, '(');
                self.edits.insert(cast.span.end, Side::Behind, ")");
            }
            AstKind::BinaryExpression(operation) => {
                // `a + b as T ** c` takes all of `a + b` to the power.
                let cast =
                    matches!(operation.left, Expression::TSAsExpression(_) | Expression::TSSatisfiesExpression(_));
                if cast && operation.operator == BinaryOperator::Exponential {
                    self.edits.insert(operation.left.span().start, Side::Before, "(");
                    self.edits.insert(operation.left.span().end, Side::Behind, ")");
                }
            }
            _ => {}
        }
    }
}
