//! The policy of the operator: `security.installPolicy`.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use pincer_config::keys::{InstallDefault, InstallPolicy, InstallRule, InstallType};

use crate::digest::{Digest, NoDigest};
use crate::target::Kind;

/// The policy of the operator.
#[derive(Clone, Debug)]
pub struct Policy {
    allow: Vec<Rule>,
    block: Vec<Rule>,
    default: InstallDefault,
}

/// An error in a policy. With one, nothing is installed.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A pattern is none.
    #[error("security.installPolicy.{at}: it is not a glob")]
    Glob {
        /// Which.
        at: String,
        /// The cause.
        #[source]
        source: globset::Error,
    },
    /// A digest is none.
    #[error("security.installPolicy.{at}: {source}")]
    Digest {
        /// Which.
        at: String,
        /// The cause.
        #[source]
        source: NoDigest,
    },
    /// An entry names nothing, and so means everything.
    #[error("security.installPolicy.{at}: it names nothing: set `id`, `source`, `digest` or `type`")]
    Empty {
        /// Which.
        at: String,
    },
}

/// The policy is against it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// An entry of `block` names it.
    #[error("security.installPolicy.block[{index}] blocks the {kind} {id}")]
    Entry {
        /// Which entry.
        index: usize,
        /// The kind of the thing.
        kind: Kind,
        /// Its name.
        id: String,
    },
    /// Only what `allow` names may be installed.
    #[error("no entry of security.installPolicy.allow names the {kind} {id}, and `default` is \"deny\"")]
    Unlisted {
        /// The kind of the thing.
        kind: Kind,
        /// Its name.
        id: String,
    },
}

/// The ruling on something that the policy does not block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ruling {
    /// An entry names these very files by their digest: no person is asked.
    Vouched,
    /// The policy allows it: a person is asked about critical findings only.
    Allowed,
    /// A person decides.
    Ask,
}

/// The thing that the policy is asked about.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub kind: Kind,
    pub id: &'a str,
    pub source: &'a Path,
    pub digest: &'a Digest,
}

#[derive(Clone, Debug)]
struct Rule {
    kind: Option<Kind>,
    id: Option<GlobMatcher>,
    source: Option<GlobMatcher>,
    digest: Option<Digest>,
}

impl Policy {
    /// Reads the policy of a config.
    pub fn new(keys: &InstallPolicy) -> Result<Self, PolicyError> {
        Ok(Self { allow: rules("allow", &keys.allow)?, block: rules("block", &keys.block)?, default: keys.default })
    }

    pub(crate) fn rule_on(&self, subject: Subject) -> Result<Ruling, Blocked> {
        let (kind, id) = (subject.kind, subject.id.to_owned());
        if let Some(index) = self.block.iter().position(|rule| rule.names(subject)) {
            return Err(Blocked::Entry { index, kind, id });
        }
        let mut allowing = self.allow.iter().filter(|rule| rule.names(subject)).peekable();
        if allowing.peek().is_some() {
            let vouched = allowing.any(|rule| rule.digest.is_some());
            return Ok(if vouched { Ruling::Vouched } else { Ruling::Allowed });
        }
        match self.default {
            InstallDefault::Ask => Ok(Ruling::Ask),
            InstallDefault::Allow => Ok(Ruling::Allowed),
            InstallDefault::Deny => Err(Blocked::Unlisted { kind, id }),
        }
    }
}

fn rules(list: &str, keys: &[InstallRule]) -> Result<Vec<Rule>, PolicyError> {
    keys.iter().enumerate().map(|(index, keys)| Rule::new(&format!("{list}[{index}]"), keys)).collect()
}

impl Rule {
    fn new(at: &str, keys: &InstallRule) -> Result<Self, PolicyError> {
        let rule = Self {
            kind: keys.kind.map(|kind| match kind {
                InstallType::Plugin => Kind::Plugin,
                InstallType::Skill => Kind::Skill,
            }),
            id: keys.id.as_deref().map(|text| glob(&format!("{at}.id"), text)).transpose()?,
            source: keys.source.as_deref().map(|text| glob(&format!("{at}.source"), text)).transpose()?,
            digest: match keys.digest.as_deref().map(str::parse).transpose() {
                Ok(digest) => digest,
                Err(source) => return Err(PolicyError::Digest { at: format!("{at}.digest"), source }),
            },
        };
        match rule {
            Self { kind: None, id: None, source: None, digest: None } => Err(PolicyError::Empty { at: at.into() }),
            rule => Ok(rule),
        }
    }

    fn names(&self, subject: Subject) -> bool {
        self.kind.is_none_or(|kind| kind == subject.kind)
            && self.id.as_ref().is_none_or(|glob| glob.is_match(subject.id))
            && self.source.as_ref().is_none_or(|glob| glob.is_match(subject.source))
            && self.digest.as_ref().is_none_or(|digest| digest == subject.digest)
    }
}

/// `*` stays within a folder, `**` does not.
fn glob(at: &str, text: &str) -> Result<GlobMatcher, PolicyError> {
    let glob = GlobBuilder::new(text).literal_separator(true).build();
    Ok(glob.map_err(|source| PolicyError::Glob { at: at.into(), source })?.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &str, id: &str, source: &str) -> String {
        let keys: InstallPolicy = serde_json::from_str(policy).unwrap();
        let policy = match Policy::new(&keys) {
            Ok(policy) => policy,
            Err(error) => return error.to_string(),
        };
        let digest = format!("sha256:{}", "a".repeat(64)).parse().unwrap();
        let subject = Subject { kind: Kind::Plugin, id, source: Path::new(source), digest: &digest };
        match policy.rule_on(subject) {
            Ok(ruling) => format!("{ruling:?}"),
            Err(blocked) => blocked.to_string(),
        }
    }

    #[test]
    fn block_wins_and_a_digest_vouches() {
        let digest = format!("sha256:{}", "A".repeat(64));
        let vouching = format!(r#"{{"allow": [{{"id": "notes"}}, {{"digest": "{digest}"}}]}}"#);
        for (policy, expected) in [
            ("{}", "Ask"),
            (r#"{"default": "allow"}"#, "Allowed"),
            (
                r#"{"default": "deny"}"#,
                "no entry of security.installPolicy.allow names the plugin notes, and `default` is \"deny\"",
            ),
            (r#"{"default": "deny", "allow": [{"id": "no*"}]}"#, "Allowed"),
            (
                r#"{"default": "deny", "allow": [{"id": "no*", "type": "skill"}]}"#,
                "no entry of security.installPolicy.allow names the plugin notes, and `default` is \"deny\"",
            ),
            (r#"{"allow": [{"source": "/srv/*"}]}"#, "Ask"),
            (r#"{"allow": [{"source": "/srv/**"}]}"#, "Allowed"),
            (&vouching, "Vouched"),
            (
                r#"{"allow": [{"id": "notes"}], "block": [{"id": "x"}, {"type": "plugin"}]}"#,
                "security.installPolicy.block[1] blocks the plugin notes",
            ),
            (
                r#"{"block": [{}]}"#,
                "security.installPolicy.block[0]: it names nothing: set `id`, `source`, `digest` or `type`",
            ),
            (r#"{"block": [{"id": "["}]}"#, "security.installPolicy.block[0].id: it is not a glob"),
            (
                r#"{"allow": [{"digest": "md5:x"}]}"#,
                "security.installPolicy.allow[0].digest: `md5:x` is no digest: it must be `sha256:` and 64 hexadecimal digits",
            ),
        ] {
            assert_eq!(check(policy, "notes", "/srv/a/notes.tgz"), expected, "{policy}");
        }
    }
}
