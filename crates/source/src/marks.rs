//! Gives the engine a position where it keeps none.
//!
//! The engine notes a position at a name, a call and an operator, and an error has the last position before it. A statement that
//! can fail before the first of these, such as `const { a } = …` or `this.a.b`, would have the line of the statement before it, or
//! none. A sum of two zeros leaves a position behind and nothing else, so one is put in front of such a statement.

use oxc_allocator::ArenaVec;
use oxc_ast::ast::{
    ArrayExpressionElement, ArrowFunctionExpression, AssignmentTarget, BindingPattern, ChainElement, Expression,
    ForStatementInit, ForStatementLeft, FunctionBody, ObjectPropertyKind, PropertyDefinition, Statement, SwitchCase,
    VariableDeclaration,
};
use oxc_ast_visit::VisitJs;
use oxc_ast_visit::walk_js::{
    walk_arrow_function_expression, walk_property_definition, walk_statement, walk_switch_case,
};
use oxc_span::GetSpan;

use crate::edits::{Edits, Side};
use crate::spine::walk_spine;
use crate::typescript::is_erased;

/// Marks what needs it in a program.
pub(crate) fn mark(body: &FunctionBody<'_>, edits: &mut Edits) {
    Marks { edits, position: Standing::Alone }.visit_function_body(body);
}

/// Where a statement stands.
#[derive(Clone, Copy, Default)]
enum Standing {
    /// Where one statement is expected, such as behind `else`.
    #[default]
    Alone,
    InList,
}

struct Marks<'e> {
    edits: &'e mut Edits,
    position: Standing,
}

impl Marks<'_> {
    /// Marks an expression that may be a list of expressions.
    fn expression(&mut self, expression: &Expression<'_>) {
        if needs_mark(expression) {
            self.edits.insert(expression.span().start, Side::Between, "0+0,");
        }
    }

    /// Marks an expression that may not, if that takes nothing behind it.
    fn operand(&mut self, expression: &Expression<'_>) {
        let mut bare = expression;
        loop {
            bare = match bare {
                Expression::TSAsExpression(it) => &it.expression,
                Expression::TSSatisfiesExpression(it) => &it.expression,
                _ => break,
            };
        }
        let binds = matches!(
            bare,
            Expression::CallExpression(_)
                | Expression::ChainExpression(_)
                | Expression::NewExpression(_)
                | Expression::TaggedTemplateExpression(_)
                | Expression::AwaitExpression(_)
                | Expression::TSNonNullExpression(_)
        );
        if (binds || bare.is_member_expression()) && needs_mark(expression) {
            self.edits.insert(expression.span().start, Side::Between, "1+1&&");
        }
    }

    /// Marks a statement that has no expression at its beginning.
    fn statement(&mut self, statement: &Statement<'_>, position: Standing) {
        let span = statement.span();
        match position {
            Standing::InList => self.edits.insert(span.start, Side::Between, ";0+0;"),
            Standing::Alone => {
                self.edits.insert(span.start, Side::Between, "{0+0;");
                self.edits.insert(span.end, Side::Behind, "}");
            }
        }
    }

    fn head(&mut self, statement: &Statement<'_>, position: Standing) {
        match statement {
            Statement::ExpressionStatement(it) => self.expression(&it.expression),
            Statement::ReturnStatement(it) => it.argument.iter().for_each(|argument| self.expression(argument)),
            Statement::ThrowStatement(it) => self.expression(&it.argument),
            Statement::IfStatement(it) => self.expression(&it.test),
            Statement::WhileStatement(it) => self.expression(&it.test),
            Statement::DoWhileStatement(it) => self.expression(&it.test),
            Statement::SwitchStatement(it) => self.expression(&it.discriminant),
            Statement::WithStatement(it) => self.expression(&it.object),
            Statement::ForStatement(it) => {
                match &it.init {
                    Some(ForStatementInit::VariableDeclaration(variables)) if declares_unplaced(variables) => {
                        self.statement(statement, position);
                    }
                    Some(init) => init.as_expression().into_iter().for_each(|init| self.expression(init)),
                    None => {}
                }
                it.test.iter().chain(&it.update).for_each(|part| self.expression(part));
            }
            Statement::ForInStatement(_) | Statement::ForOfStatement(_) if takes_apart(statement) => {
                self.statement(statement, position);
            }
            Statement::VariableDeclaration(it) if declares_unplaced(it) => self.statement(statement, position),
            Statement::ClassDeclaration(it) if it.heritage.as_ref().is_some_and(|it| needs_mark(&it.expression)) => {
                self.statement(statement, position);
            }
            _ => {}
        }
    }
}

impl<'a> VisitJs<'a> for Marks<'_> {
    fn visit_statements(&mut self, statements: &ArenaVec<'a, Statement<'a>>) {
        for statement in statements {
            self.position = Standing::InList;
            self.visit_statement(statement);
        }
    }

    fn visit_statement(&mut self, statement: &Statement<'a>) {
        let position = std::mem::take(&mut self.position);
        if is_erased(statement) {
            return;
        }
        match statement {
            // The mark goes before the label, which must stay with its loop.
            Statement::LabeledStatement(it) => {
                let mut body = &it.body;
                while let Statement::LabeledStatement(inner) = body {
                    body = &inner.body;
                }
                let declares = matches!(body, Statement::ForStatement(it)
                    if matches!(&it.init, Some(ForStatementInit::VariableDeclaration(variables)) if declares_unplaced(variables)));
                if takes_apart(body) || declares {
                    self.statement(statement, position);
                    return walk_statement(self, body);
                }
                return self.visit_statement(body);
            }
            Statement::ExportDeclaration(it) => {
                if let oxc_ast::ast::Declaration::VariableDeclaration(variables) = &it.declaration
                    && declares_unplaced(variables)
                {
                    self.statement(statement, position);
                }
            }
            _ => self.head(statement, position),
        }
        walk_statement(self, statement);
    }

    fn visit_switch_case(&mut self, case: &SwitchCase<'a>) {
        case.test.iter().for_each(|test| self.expression(test));
        walk_switch_case(self, case);
    }

    fn visit_arrow_function_expression(&mut self, arrow: &ArrowFunctionExpression<'a>) {
        if let Some(expression) = arrow.body.as_expression() {
            self.operand(expression);
        }
        walk_arrow_function_expression(self, arrow);
    }

    fn visit_property_definition(&mut self, field: &PropertyDefinition<'a>) {
        if !field.declare {
            field.value.iter().for_each(|value| self.operand(value));
        }
        walk_property_definition(self, field);
    }

    fn visit_expression(&mut self, expression: &Expression<'a>) {
        walk_spine(self, expression);
    }
}

/// Whether a loop over something can fail before the engine has noted a position of it.
fn takes_apart(statement: &Statement<'_>) -> bool {
    let (left, right) = match statement {
        Statement::ForInStatement(it) => (&it.left, &it.right),
        Statement::ForOfStatement(it) => (&it.left, &it.right),
        _ => return false,
    };
    let is_name = match left {
        ForStatementLeft::VariableDeclaration(it) => {
            it.declarations.iter().all(|variable| matches!(variable.id, BindingPattern::BindingIdentifier(_)))
        }
        ForStatementLeft::AssignmentTargetIdentifier(_) => true,
        _ => false,
    };
    !is_name || first(right) != First::Position
}

fn declares_unplaced(variables: &VariableDeclaration<'_>) -> bool {
    variables.declarations.iter().any(|variable| {
        !matches!(variable.id, BindingPattern::BindingIdentifier(_)) || variable.init.as_ref().is_some_and(needs_mark)
    })
}

fn needs_mark(expression: &Expression<'_>) -> bool {
    first(expression) == First::Failure
}

/// The first step of an evaluation.
#[derive(Clone, Copy, PartialEq)]
enum First {
    /// A position that the engine notes.
    Position,
    /// Something that can fail.
    Failure,
    /// Neither.
    Nothing,
}

impl First {
    fn then(self, next: impl FnOnce() -> First) -> First {
        if self == First::Nothing { next() } else { self }
    }

    fn or_failure(self) -> First {
        self.then(|| First::Failure)
    }
}

/// The use of the left side of a link once it is evaluated.
enum Link<'t, 'a> {
    Fails,
    Operator(&'t Expression<'a>),
    Logical(&'t Expression<'a>),
}

/// Chains have no bound to the left, so they are followed in a loop.
fn first(expression: &Expression<'_>) -> First {
    let mut links = Vec::new();
    let mut at = expression;
    let mut found = loop {
        at = match at {
            Expression::CallExpression(it) => {
                links.push(Link::Fails);
                &it.callee
            }
            Expression::TaggedTemplateExpression(it) => {
                links.push(Link::Fails);
                &it.tag
            }
            Expression::BinaryExpression(it) => {
                links.push(Link::Operator(&it.right));
                &it.left
            }
            Expression::LogicalExpression(it) => {
                links.push(Link::Logical(&it.right));
                &it.left
            }
            Expression::ParenthesizedExpression(it) => &it.expression,
            Expression::TSAsExpression(it) => &it.expression,
            Expression::TSSatisfiesExpression(it) => &it.expression,
            Expression::TSNonNullExpression(it) => &it.expression,
            Expression::TSInstantiationExpression(it) => &it.expression,
            Expression::TSTypeAssertion(it) => &it.expression,
            Expression::ChainExpression(chain) => match &chain.expression {
                ChainElement::CallExpression(it) => {
                    links.push(Link::Fails);
                    &it.callee
                }
                ChainElement::TSNonNullExpression(it) => &it.expression,
                element => match element.as_member_expression() {
                    Some(member) => {
                        links.push(Link::Fails);
                        member.object()
                    }
                    None => break First::Nothing,
                },
            },
            other => match other.as_member_expression() {
                Some(member) => {
                    links.push(Link::Fails);
                    member.object()
                }
                None => break first_of_leaf(other),
            },
        };
    };
    while found == First::Nothing {
        found = match links.pop() {
            None => break,
            Some(Link::Fails) => First::Failure,
            Some(Link::Operator(right)) => first(right).then(|| First::Position),
            Some(Link::Logical(right)) => first(right),
        };
    }
    found
}

fn first_of_all<'t, 'a: 't>(expressions: impl IntoIterator<Item = &'t Expression<'a>>) -> First {
    expressions.into_iter().fold(First::Nothing, |found, next| found.then(|| first(next)))
}

fn first_of_leaf(expression: &Expression<'_>) -> First {
    match expression {
        Expression::Identifier(_) => First::Position,
        Expression::NewExpression(it) => first(&it.callee).or_failure(),
        Expression::AwaitExpression(it) => first(&it.argument),
        Expression::UnaryExpression(it) => first(&it.argument),
        Expression::YieldExpression(it) => it.argument.as_ref().map_or(First::Nothing, first),
        Expression::PrivateInExpression(it) => first(&it.right).or_failure(),
        Expression::SequenceExpression(it) => first_of_all(&it.expressions),
        Expression::TemplateLiteral(it) => first_of_all(&it.expressions),
        Expression::ConditionalExpression(it) => first_of_all([&it.test, &it.consequent, &it.alternate]),
        Expression::ClassExpression(it) => it.heritage.as_ref().map_or(First::Nothing, |it| first(&it.expression)),
        Expression::ArrayExpression(it) => it.elements.iter().fold(First::Nothing, |found, element| {
            found.then(|| match element {
                ArrayExpressionElement::SpreadElement(spread) => first(&spread.argument).or_failure(),
                element => element.as_expression().map_or(First::Nothing, first),
            })
        }),
        Expression::ObjectExpression(it) => it.properties.iter().fold(First::Nothing, |found, property| {
            found.then(|| match property {
                ObjectPropertyKind::SpreadProperty(spread) => first(&spread.argument),
                ObjectPropertyKind::ObjectProperty(property) => {
                    let key = property.key.as_expression().filter(|_| property.computed);
                    first_of_all(key).then(|| first(&property.value))
                }
            })
        }),
        Expression::AssignmentExpression(it) => match &it.left {
            AssignmentTarget::AssignmentTargetIdentifier(_) => First::Position,
            target => match target.as_simple_assignment_target().and_then(|it| it.as_member_expression()) {
                Some(member) => first(member.object()).or_failure(),
                None => First::Failure,
            },
        },
        Expression::UpdateExpression(it) => match it.argument.as_member_expression() {
            Some(member) => first(member.object()).or_failure(),
            None => First::Position,
        },
        _ => First::Nothing,
    }
}
