//! Rules about which calls a person is asked about, and the answers.

use pincer_catalog::Entry;
use pincer_json::canonical;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Matcher;

/// What a rule says of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleDecision {
    /// A person is asked.
    Ask,
    /// It may be made.
    Allow,
    /// It may not.
    Deny,
}

/// A rule. The first that matches counts; without any, a call may be made.
#[derive(Clone, Debug)]
pub struct ApprovalRule {
    /// Which tools it speaks of.
    pub matcher: Matcher,
    /// What it says.
    pub decision: RuleDecision,
}

/// An `allow` lets pass only what it plainly means; the others stop all that they could mean.
pub(crate) fn decide(rules: &[ApprovalRule], entry: &Entry) -> RuleDecision {
    let applies = |rule: &&ApprovalRule| match rule.decision {
        RuleDecision::Allow => rule.matcher.plainly_means(entry),
        RuleDecision::Ask | RuleDecision::Deny => rule.matcher.could_mean(entry),
    };
    rules.iter().find(applies).map_or(RuleDecision::Allow, |rule| rule.decision)
}

/// A person's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Yes, this once.
    AllowOnce,
    /// Yes, and from now on for this tool, or for commands like this one.
    AllowAlways,
    /// Yes, and for so many calls in this run, this one included, of what [`AllowAlways`](Self::AllowAlways) would cover.
    AllowNext(u32),
    /// No.
    Deny,
}

/// Tells one exact call from every other: an answer is for that one.
pub fn call_digest(tool: &str, input: &Value) -> [u8; 32] {
    // Equal inputs have equal texts, in whatever order their keys come.
    Sha256::new().chain_update(tool).chain_update([0]).chain_update(canonical(input)).finalize().into()
}
