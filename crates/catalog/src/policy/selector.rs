//! A name in `allow` or `deny`: of a tool, a glob, a group, a plugin, or all MCP tools.

use std::fmt;

use super::PolicyError;
use super::groups::{GROUPS, Group};
use crate::{Entry, Source};

/// Characters of regular expressions.
const EXPRESSION: &[char] = &['[', ']', '(', ')', '{', '}', '^', '$', '|', '\\', '+', '?'];
/// Stands for all MCP tools.
const BUNDLE_MCP: &str = "bundle-mcp";

/// A parsed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    written: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Group(Group),
    AllMcp,
    /// A name or a glob, in lower case.
    Pattern(String),
}

impl Selector {
    /// Parses a name. `at` is its place in the config, for messages.
    pub fn parse(at: &str, written: &str) -> Result<Self, PolicyError> {
        let name = written.trim().to_lowercase();
        let kind = match name.as_str() {
            "" => return Err(PolicyError::EmptyName { at: at.into() }),
            BUNDLE_MCP => Kind::AllMcp,
            "bash" => Kind::Pattern("exec".into()),
            "apply-patch" => Kind::Pattern("apply_patch".into()),
            "automations" => Kind::Pattern("cron".into()),
            _ => match name.strip_prefix("group:") {
                Some(group) => {
                    let found = GROUPS.iter().find(|(known, _)| *known == group);
                    let (_, group) = found.ok_or_else(|| PolicyError::UnknownGroup {
                        at: at.into(),
                        group: group.into(),
                        known: GROUPS.iter().map(|(known, _)| *known).collect(),
                    })?;
                    Kind::Group(*group)
                }
                None => Kind::Pattern(name),
            },
        };
        Ok(Self { written: written.trim().into(), kind })
    }

    /// Parses a name for a matcher. Other systems have regular expressions there: taken for a name, one would match nothing, and a gate
    /// would stay open without a word.
    pub fn parse_matcher(at: &str, written: &str) -> Result<Self, PolicyError> {
        match written.contains(EXPRESSION) {
            true => Err(PolicyError::Expression { at: at.into(), written: written.into() }),
            false => Self::parse(at, written),
        }
    }

    /// Whether it admits a tool: only what it plainly means.
    pub fn allows(&self, entry: &Entry) -> bool {
        match &self.kind {
            Kind::Group(group) => group.has(entry),
            Kind::AllMcp => entry.id.source() == Source::Mcp,
            Kind::Pattern(pattern) => {
                let implied = pattern == "write" && is_core(entry, "apply_patch");
                implied
                    || self.matches_full(pattern, entry)
                    || names_its_own(entry) && is_glob_match(pattern, &lower_name(entry))
            }
        }
    }

    /// Whether it takes a tool away: all that it could mean.
    pub fn denies(&self, entry: &Entry) -> bool {
        match &self.kind {
            Kind::Group(group) => group.has(entry),
            Kind::AllMcp => entry.id.source() == Source::Mcp,
            Kind::Pattern(pattern) => self.matches_full(pattern, entry) || is_glob_match(pattern, &lower_name(entry)),
        }
    }

    /// Spellings that say whose tool it is: the id, a plugin's id alone, and `server__tool`.
    fn matches_full(&self, pattern: &str, entry: &Entry) -> bool {
        let owner = entry.id.owner().to_lowercase();
        match entry.id.source() {
            Source::Plugin if pattern == owner => true,
            // A glob over bare names, such as `get_*`, must not reach into a server; `*` alone means everything.
            Source::Mcp if pattern.contains("__") => is_glob_match(pattern, &format!("{owner}__{}", lower_name(entry))),
            _ => {
                pattern.contains(':') && is_glob_match(pattern, &entry.id.to_string().to_lowercase()) || pattern == "*"
            }
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

fn is_core(entry: &Entry, name: &str) -> bool {
    entry.id.source() == Source::Openclaw && entry.id.name() == name
}

/// A bare name in an allow list is enough for these; an MCP server's tools must be named with the server.
fn names_its_own(entry: &Entry) -> bool {
    entry.id.source() != Source::Mcp
}

fn lower_name(entry: &Entry) -> String {
    entry.id.name().to_lowercase()
}

/// Whether `text` is what `pattern` describes, where `*` is any text. Linear in their lengths, times the stars.
pub fn is_glob_match(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, expected) in [
            ("read", "read", true),
            ("read", "reads", false),
            ("*", "", true),
            ("re*", "read", true),
            ("*ad", "read", true),
            ("r*a*", "read", true),
            ("r*x*", "read", false),
            ("a*a", "a", false),
            ("a*b*a", "aba", true),
            ("web_*", "web", false),
            ("mcp:github:*", "mcp:github:a:b", true),
        ] {
            assert_eq!(is_glob_match(pattern, text), expected, "{pattern} {text}");
        }
    }
}
