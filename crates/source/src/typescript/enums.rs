//! Enums become objects. Each member is also a constant in a block of its own, so that initializers can name earlier members
//! without being rewritten.

use std::collections::HashSet;

use oxc_ast::ast::{Expression, TSEnumDeclaration, TSEnumMember, TSEnumMemberName, UnaryOperator};
use oxc_ast_visit::VisitJs;
use oxc_span::{GetSpan, Span};

use super::exports::enum_members;
use super::scope::Members;
use super::strip::Strip;
use crate::edits::Side;
use crate::words::is_reserved;

/// More copied names than this are somebody's attempt to make a large text of a small one.
const MOST_MERGED: usize = 10_000;

impl Strip<'_> {
    pub(super) fn enumeration(&mut self, declaration: &TSEnumDeclaration<'_>) {
        let name = self.source(declaration.id.span).to_owned();
        let object = self.names.fresh();
        let own = enum_members(declaration);
        let declare = self.scope.declare(&declaration.id.name);
        let mut open = format!("{declare}{{const {object}={name}||({name}={{}});");
        let members = self.scope.members(&declaration.id.name);
        for member in self.merged(declaration.span.start, &members, own.iter().map(String::as_str)) {
            open.push_str(&format!("const {member}={object}[{}];", quoted(&member)));
        }
        open.push('{');
        self.edits.insert(declaration.span.start, Side::Before, open);
        self.edits.erase(declaration.span.start, declaration.body.span.start + 1);
        let mut previous = None;
        for member in &declaration.body.members {
            previous = Some(self.enum_member(member, &object, previous));
        }
        self.edits.insert(declaration.span.end, Side::Behind, "}");
    }

    /// Writes one member out; the result says how its value is written.
    fn enum_member(&mut self, member: &TSEnumMember<'_>, object: &str, previous: Option<String>) -> String {
        let (key, key_text) = member_name(&member.id);
        let key_end = match &member.id {
            TSEnumMemberName::Identifier(_) | TSEnumMemberName::String(_) => member.id.span().end,
            TSEnumMemberName::ComputedString(_) | TSEnumMemberName::ComputedTemplateString(_) => {
                self.bracket_end(member.id.span().end)
            }
        };
        let start = member.span.start;
        let is_constant = is_variable(&key);
        let value = match is_constant {
            true if self.source(member.id.span()) == key => {
                self.edits.insert(start, Side::Before, "const ");
                key
            }
            true => {
                self.edits.insert(start, Side::Before, format!("const {key}"));
                self.edits.erase(start, key_end);
                key
            }
            false => {
                self.edits.insert(start, Side::Before, format!("{object}[{key_text}]"));
                self.edits.erase(start, key_end);
                format!("{object}[{key_text}]")
            }
        };
        let mut kind = ValueKind::Number;
        match &member.initializer {
            Some(initializer) => {
                kind = ValueKind::of(initializer);
                self.visit_expression(initializer);
            }
            None => {
                let number = previous.map_or_else(|| "0".to_owned(), |previous| format!("{previous}+1"));
                self.edits.insert(key_end, Side::Behind, format!("={number}"));
            }
        }
        let set = if is_constant { format!("{object}[{key_text}]={value}") } else { value.clone() };
        let written_out = match kind {
            ValueKind::Number => format!(";{object}[{set}]={key_text}"),
            ValueKind::Text => format!(";{set}"),
            ValueKind::Unknown => format!(";if(typeof({set})!=\"string\"){object}[{value}]={key_text}"),
        };
        self.edits.insert(member.span.end, Side::Behind, written_out);
        if let Some(comma) = self.tokens.sign(member.span.end, b",") {
            self.edits.erase_to(comma.start, comma.end, ';');
        }
        value
    }

    fn bracket_end(&self, behind: u32) -> u32 {
        self.tokens.sign(behind, b"]").map_or(behind, |bracket| bracket.end)
    }

    pub(super) fn source(&self, span: Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// The members of other declarations that this one is merged with. Copying them is kept within bounds.
    pub(super) fn merged<'o>(&mut self, at: u32, members: &Members, own: impl Iterator<Item = &'o str>) -> Vec<String> {
        if self.merged_names > MOST_MERGED {
            return Vec::new();
        }
        let own: HashSet<&str> = own.collect();
        let others = members.merged().filter(|member| !own.contains(member.as_str()));
        let others: Vec<String> = others.take(MOST_MERGED + 1).cloned().collect();
        self.merged_names += others.len();
        if self.merged_names > MOST_MERGED {
            self.refuse(at, "too many merged declarations");
        }
        others
    }
}

/// What is known of a member's value. Strings are not looked up by their value.
enum ValueKind {
    Number,
    Text,
    Unknown,
}

impl ValueKind {
    fn of(initializer: &Expression<'_>) -> ValueKind {
        match initializer.get_inner_expression() {
            Expression::NumericLiteral(_) => ValueKind::Number,
            Expression::UnaryExpression(unary) if unary.operator != UnaryOperator::Typeof => ValueKind::Number,
            Expression::StringLiteral(_) | Expression::TemplateLiteral(_) => ValueKind::Text,
            _ => ValueKind::Unknown,
        }
    }
}

/// The name of a member, and the name as a string of JavaScript.
pub(super) fn member_name(name: &TSEnumMemberName<'_>) -> (String, String) {
    let (text, lone_surrogates) = match name {
        TSEnumMemberName::Identifier(id) => (id.name.to_string(), false),
        TSEnumMemberName::String(text) | TSEnumMemberName::ComputedString(text) => {
            (text.value.to_string(), text.lone_surrogates)
        }
        TSEnumMemberName::ComputedTemplateString(text) => {
            let part = text.quasis.first();
            let value = part.and_then(|part| part.value.cooked.as_ref()).map_or_else(String::new, ToString::to_string);
            (value, part.is_some_and(|part| part.lone_surrogates))
        }
    };
    let written = if lone_surrogates { quoted_with(&text, Surrogates::Escaped) } else { quoted(&text) };
    (text, written)
}

/// Whether a name can be that of a variable, everywhere.
pub(super) fn is_variable(name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    name.starts_with(|c: char| is_part(c) && !c.is_numeric()) && name.chars().all(is_part) && !is_reserved(name)
}

/// A string of JavaScript on one line.
pub(super) fn quoted(text: &str) -> String {
    quoted_with(text, Surrogates::None)
}

/// How halves of surrogate pairs stand in a text.
#[derive(Clone, Copy, PartialEq)]
enum Surrogates {
    None,
    /// U+FFFD and four hexadecimal digits, as the parser writes them. U+FFFD itself is written so, too.
    Escaped,
}

fn quoted_with(text: &str, surrogates: Surrogates) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\u{fffd}' if surrogates == Surrogates::Escaped => out.push_str("\\u"),
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                out.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
