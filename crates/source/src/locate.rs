//! Finds in a program what the engine complains about without naming its position.

use oxc_allocator::Allocator;
use oxc_ast::AstKind;
use oxc_ast::ast::{
    Argument, ArrayExpressionElement, CallExpression, ChainElement, Class, ClassElement, Expression, FunctionBody,
    MemberExpression, ObjectPropertyKind, PropertyKey, RegExpLiteral,
};
use oxc_ast_visit::VisitJs;
use oxc_ast_visit::walk_js::{walk_class, walk_private_identifier};
use oxc_regular_expression::{LiteralParser, Options};
use oxc_span::GetSpan;

use crate::Language;
use crate::parse::Wrapped;
use crate::position::{Position, offset_of, position_at};
use crate::prepare::with_stack;
use crate::spine::walk_spine;

/// More calls around one position than this are not looked at.
const MOST_CALLS: usize = 100;

/// A regular expression with more brackets than this is not looked at: reading it recurses.
const MOST_BRACKETS: usize = 200;

/// Something that is called in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callee {
    /// As it is written, without line breaks.
    pub text: String,
    /// Its names, if it is nothing but names: `["tools", "read"]` for `tools.read` and `tools["read"]`.
    pub path: Vec<String>,
}

/// Finds the calls for which the engine names `position`, from the inside out.
///
/// The engine names the last position before a call, which may be within its arguments. So several calls can have the same
/// position.
pub fn callees_at(source: &str, position: Position) -> Vec<Callee> {
    read(source, |body, wrapped| {
        let at = wrapped.start() + offset_of(source, position)? as u32;
        let mut calls = Calls { at, text: wrapped.text(), seen: 0, found: Vec::new() };
        calls.visit_function_body(body);
        calls.found.sort_by_key(|(span, _)| *span);
        Some(calls.found.into_iter().map(|(_, callee)| callee).collect())
    })
    .unwrap_or_default()
}

/// Finds the first thing that parses but that no engine compiles: a private name that no class declares, or a regular
/// expression that is none.
pub fn uncompilable(source: &str) -> Option<Position> {
    read(source, |body, wrapped| {
        let mut faults = Faults { allocator: Allocator::default(), declared: Vec::new(), first: None };
        faults.visit_function_body(body);
        faults.first.map(|at| position_at(source, wrapped.offset(at)))
    })
}

/// Reads a program in the first language in which it is one.
fn read<T: Send>(source: &str, look: impl Fn(&FunctionBody<'_>, &Wrapped) -> Option<T> + Sync) -> Option<T> {
    [Language::JavaScript, Language::TypeScript].into_iter().find_map(|language| {
        with_stack(source, language, || {
            let wrapped = Wrapped::new(source);
            let allocator = Allocator::default();
            let parsed = wrapped.parse(&allocator, language);
            match parsed.error() {
                None => look(parsed.body()?, &wrapped),
                Some(_) => None,
            }
        })
        .ok()
        .flatten()
    })
}

struct Calls<'t> {
    at: u32,
    text: &'t str,
    seen: usize,
    /// With the length of the call.
    found: Vec<(u32, Callee)>,
}

impl Calls<'_> {
    fn call(&mut self, length: u32, callee: &Expression<'_>, last: impl FnOnce() -> Option<u32>) {
        self.seen += 1;
        if self.seen <= MOST_CALLS && last() == Some(self.at) {
            let span = callee.span();
            let text = self.text[span.start as usize..span.end as usize].split_whitespace().collect();
            self.found.push((length, Callee { text, path: path_of(callee).unwrap_or_default() }));
        }
    }
}

impl<'a> VisitJs<'a> for Calls<'_> {
    fn enter_node(&mut self, kind: AstKind<'a>) {
        let span = kind.span();
        if self.at < span.start || self.at >= span.end {
            return;
        }
        match kind {
            AstKind::CallExpression(call) => self.call(span.size(), &call.callee, || last_of_call(call)),
            AstKind::NewExpression(call) => {
                self.call(span.size(), &call.callee, || {
                    last_of_arguments(&call.arguments).or_else(|| last_of(&call.callee))
                });
            }
            AstKind::TaggedTemplateExpression(call) => self.call(span.size(), &call.tag, || {
                call.quasi.expressions.iter().rev().find_map(last_of).or_else(|| position_of_callee(&call.tag))
            }),
            _ => {}
        }
    }

    fn visit_expression(&mut self, expression: &Expression<'a>) {
        walk_spine(self, expression);
    }
}

/// The last position that the engine notes when it evaluates something, if it notes any.
fn last_of(expression: &Expression<'_>) -> Option<u32> {
    let mut at = expression;
    loop {
        at = match at {
            Expression::Identifier(name) => return Some(name.span.start),
            Expression::BinaryExpression(it) => return Some(it.right.span().start),
            Expression::CallExpression(it) => return last_of_call(it),
            Expression::NewExpression(it) => match last_of_arguments(&it.arguments) {
                Some(last) => return Some(last),
                None => &it.callee,
            },
            Expression::TaggedTemplateExpression(it) => match it.quasi.expressions.iter().rev().find_map(last_of) {
                Some(last) => return Some(last),
                None => &it.tag,
            },
            Expression::LogicalExpression(it) => return last_of(&it.right).or_else(|| last_of(&it.left)),
            Expression::AssignmentExpression(it) => return last_of(&it.right).or(Some(it.left.span().start)),
            Expression::ConditionalExpression(it) => {
                return last_of(&it.alternate).or_else(|| last_of(&it.consequent)).or_else(|| last_of(&it.test));
            }
            Expression::SequenceExpression(it) => return it.expressions.iter().rev().find_map(last_of),
            Expression::TemplateLiteral(it) => return it.expressions.iter().rev().find_map(last_of),
            Expression::ArrayExpression(it) => {
                return it.elements.iter().rev().find_map(|element| match element {
                    ArrayExpressionElement::SpreadElement(spread) => last_of(&spread.argument),
                    element => last_of(element.as_expression()?),
                });
            }
            Expression::ObjectExpression(it) => {
                return it.properties.iter().rev().find_map(|property| match property {
                    ObjectPropertyKind::SpreadProperty(spread) => last_of(&spread.argument),
                    // The engine notes no position for `{ name }`.
                    ObjectPropertyKind::ObjectProperty(property) if property.shorthand => None,
                    ObjectPropertyKind::ObjectProperty(property) => last_of(&property.value),
                });
            }
            Expression::ParenthesizedExpression(it) => &it.expression,
            Expression::AwaitExpression(it) => &it.argument,
            Expression::UnaryExpression(it) => &it.argument,
            Expression::TSAsExpression(it) => &it.expression,
            Expression::TSSatisfiesExpression(it) => &it.expression,
            Expression::TSNonNullExpression(it) => &it.expression,
            Expression::TSTypeAssertion(it) => &it.expression,
            Expression::ChainExpression(chain) => match &chain.expression {
                ChainElement::CallExpression(it) => return last_of_call(it),
                ChainElement::TSNonNullExpression(it) => &it.expression,
                element => match element.as_member_expression() {
                    Some(member) => match last_of_key(member) {
                        Some(last) => return Some(last),
                        None => member.object(),
                    },
                    None => return None,
                },
            },
            other => match other.as_member_expression() {
                Some(member) => match last_of_key(member) {
                    Some(last) => return Some(last),
                    None => member.object(),
                },
                None => return None,
            },
        };
    }
}

fn last_of_key(member: &MemberExpression<'_>) -> Option<u32> {
    match member {
        MemberExpression::ComputedMemberExpression(member) => last_of(&member.expression),
        _ => None,
    }
}

fn last_of_arguments(arguments: &[Argument<'_>]) -> Option<u32> {
    arguments.iter().rev().find_map(|argument| match argument {
        Argument::SpreadElement(spread) => last_of(&spread.argument),
        argument => last_of(argument.as_expression()?),
    })
}

fn last_of_call(call: &CallExpression<'_>) -> Option<u32> {
    last_of_arguments(&call.arguments).or_else(|| position_of_callee(&call.callee))
}

/// The position that the engine notes for a call itself: that of the last name of what is called.
fn position_of_callee(callee: &Expression<'_>) -> Option<u32> {
    let member = match callee {
        Expression::ChainExpression(chain) => chain.expression.as_member_expression(),
        callee => callee.as_member_expression(),
    };
    match member {
        Some(MemberExpression::StaticMemberExpression(member)) => Some(member.property.span.start),
        Some(MemberExpression::PrivateFieldExpression(member)) => Some(member.field.span.start),
        Some(MemberExpression::ComputedMemberExpression(member)) => {
            last_of(&member.expression).or_else(|| last_of(&member.object))
        }
        None => last_of(callee),
    }
}

fn path_of(callee: &Expression<'_>) -> Option<Vec<String>> {
    let mut path = Vec::new();
    let mut at = callee;
    loop {
        let member = match at {
            Expression::Identifier(name) => {
                path.push(name.name.to_string());
                path.reverse();
                return Some(path);
            }
            Expression::ParenthesizedExpression(it) => {
                at = &it.expression;
                continue;
            }
            Expression::TSNonNullExpression(it) => {
                at = &it.expression;
                continue;
            }
            Expression::ChainExpression(chain) => chain.expression.as_member_expression()?,
            other => other.as_member_expression()?,
        };
        path.push(member.static_property_name()?.to_string());
        at = member.object();
    }
}

struct Faults {
    allocator: Allocator,
    /// The private names of each class around.
    declared: Vec<Vec<String>>,
    first: Option<u32>,
}

impl<'a> VisitJs<'a> for Faults {
    fn visit_class(&mut self, class: &Class<'a>) {
        let names = class.body.body.iter().filter_map(|element| match element {
            ClassElement::MethodDefinition(it) => private_name(&it.key),
            ClassElement::PropertyDefinition(it) => private_name(&it.key),
            ClassElement::AccessorProperty(it) => private_name(&it.key),
            _ => None,
        });
        self.declared.push(names.collect());
        walk_class(self, class);
        self.declared.pop();
    }

    fn visit_private_identifier(&mut self, name: &oxc_ast::ast::PrivateIdentifier<'a>) {
        if !self.declared.iter().flatten().any(|declared| name.name == declared.as_str()) {
            self.first = self.first.or(Some(name.span.start));
        }
        walk_private_identifier(self, name);
    }

    fn visit_reg_exp_literal(&mut self, literal: &RegExpLiteral<'a>) {
        let pattern = literal.regex.pattern.text.as_str();
        if pattern.bytes().filter(|byte| b"([".contains(byte)).count() > MOST_BRACKETS {
            return;
        }
        let flags = literal.regex.flags.to_string();
        let parser = LiteralParser::new(&self.allocator, pattern, Some(&flags), Options::default());
        if parser.parse().is_err() {
            self.first = self.first.or(Some(literal.span.start));
        }
    }
}

fn private_name(key: &PropertyKey<'_>) -> Option<String> {
    match key {
        PropertyKey::PrivateIdentifier(name) => Some(name.name.to_string()),
        _ => None,
    }
}
