//! Walking down long chains without a stack frame for each link.

use oxc_ast::AstKind;
use oxc_ast::ast::{Argument, ChainElement, Expression, MemberExpression, TSNonNullExpression, TemplateLiteral};
use oxc_ast_visit::VisitJs;
use oxc_ast_visit::walk_js::walk_expression;

/// What hangs on a link besides the next one.
enum Rest<'t, 'a> {
    Expression(&'t Expression<'a>),
    Arguments(&'t [Argument<'a>]),
    Template(&'t TemplateLiteral<'a>),
}

/// Visits an expression. The parser builds `a + a + a …`, `a.b.c …` and `f()()() …` in a loop, so nothing bounds how deep they
/// are to the left; everything else is bounded before the parse. Links are entered, but not left.
pub(crate) fn walk_spine<'a, V: VisitJs<'a>>(visitor: &mut V, first: &Expression<'a>) {
    let mut rest = Vec::new();
    let mut at = first;
    loop {
        at = match at {
            Expression::BinaryExpression(link) => {
                visitor.enter_node(AstKind::BinaryExpression(visitor.alloc(link)));
                rest.push(Rest::Expression(&link.right));
                &link.left
            }
            Expression::LogicalExpression(link) => {
                visitor.enter_node(AstKind::LogicalExpression(visitor.alloc(link)));
                rest.push(Rest::Expression(&link.right));
                &link.left
            }
            Expression::TaggedTemplateExpression(link) => {
                visitor.enter_node(AstKind::TaggedTemplateExpression(visitor.alloc(link)));
                rest.push(Rest::Template(&link.quasi));
                &link.tag
            }
            Expression::TSAsExpression(link) => {
                visitor.enter_node(AstKind::TSAsExpression(visitor.alloc(link)));
                &link.expression
            }
            Expression::TSSatisfiesExpression(link) => {
                visitor.enter_node(AstKind::TSSatisfiesExpression(visitor.alloc(link)));
                &link.expression
            }
            Expression::TSInstantiationExpression(link) => {
                visitor.enter_node(AstKind::TSInstantiationExpression(visitor.alloc(link)));
                &link.expression
            }
            Expression::TSNonNullExpression(link) => non_null(visitor, link),
            Expression::CallExpression(link) => {
                visitor.enter_node(AstKind::CallExpression(visitor.alloc(link)));
                rest.push(Rest::Arguments(&link.arguments));
                &link.callee
            }
            Expression::ChainExpression(chain) => match &chain.expression {
                ChainElement::CallExpression(link) => {
                    visitor.enter_node(AstKind::CallExpression(visitor.alloc(link)));
                    rest.push(Rest::Arguments(&link.arguments));
                    &link.callee
                }
                ChainElement::TSNonNullExpression(link) => non_null(visitor, link),
                element => match element.as_member_expression() {
                    Some(link) => member(link, &mut rest),
                    None => break,
                },
            },
            other => match other.as_member_expression() {
                Some(link) => member(link, &mut rest),
                None => {
                    walk_expression(visitor, other);
                    break;
                }
            },
        };
    }
    while let Some(rest) = rest.pop() {
        match rest {
            Rest::Expression(expression) => visitor.visit_expression(expression),
            Rest::Template(template) => visitor.visit_template_literal(template),
            Rest::Arguments(arguments) => {
                for argument in arguments {
                    visitor.visit_argument(argument);
                }
            }
        }
    }
}

fn non_null<'t, 'a, V: VisitJs<'a>>(visitor: &mut V, link: &'t TSNonNullExpression<'a>) -> &'t Expression<'a> {
    visitor.enter_node(AstKind::TSNonNullExpression(visitor.alloc(link)));
    &link.expression
}

fn member<'t, 'a>(link: &'t MemberExpression<'a>, rest: &mut Vec<Rest<'t, 'a>>) -> &'t Expression<'a> {
    match link {
        MemberExpression::ComputedMemberExpression(link) => {
            rest.push(Rest::Expression(&link.expression));
            &link.object
        }
        MemberExpression::StaticMemberExpression(link) => &link.object,
        MemberExpression::PrivateFieldExpression(link) => &link.object,
    }
}
