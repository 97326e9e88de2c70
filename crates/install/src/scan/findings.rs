//! Findings: facts that a person should know before the decision.

use std::collections::HashMap;
use std::fmt;

use pincer_tools::one_line;
use serde::{Deserialize, Serialize};

/// The most characters of a message, and of the text that it quotes.
const MOST_MESSAGE: usize = 300;
pub(super) const MOST_QUOTED: usize = 140;
/// The most findings of one kind in one file that are listed.
const MOST_ALIKE: usize = 5;
/// The most findings that are listed.
const MOST: usize = 200;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Look at it.
    Warning,
    /// Harmless software seldom has it.
    Critical,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}

/// Something that a person should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// The rule that found it; `hook` if a hook did.
    pub rule: String,
    /// The finding in words, on one line and escaped.
    pub message: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Finding {
    /// Makes a finding. Everything that does not show is escaped.
    pub fn new(severity: Severity, rule: &str, message: &str) -> Self {
        Self { severity, rule: one_line(rule, 60), message: one_line(message, MOST_MESSAGE), file: None, line: None }
    }

    /// Names the place.
    #[must_use]
    pub fn at(self, file: &str, line: Option<u32>) -> Self {
        Self { file: Some(one_line(file, MOST_MESSAGE)), line, ..self }
    }
}

/// Findings as they are collected. Many alike in one file are counted after the first few.
#[derive(Default)]
pub(super) struct Findings {
    listed: Vec<Finding>,
    alike: HashMap<(String, Option<String>), usize>,
}

impl Findings {
    pub(super) fn add(&mut self, finding: Finding) {
        let count = self.alike.entry((finding.rule.clone(), finding.file.clone())).or_default();
        *count += 1;
        if *count <= MOST_ALIKE {
            self.listed.push(finding);
        }
    }

    /// Returns the findings, the worst first, and how many were left out.
    pub(super) fn sorted(mut self) -> (Vec<Finding>, usize) {
        let all: usize = self.alike.values().sum();
        self.listed.sort_by(|one, other| {
            let place = |finding: &Finding| (finding.file.clone(), finding.line, finding.rule.clone());
            other.severity.cmp(&one.severity).then_with(|| place(one).cmp(&place(other)))
        });
        self.listed.truncate(MOST);
        let left_out = all - self.listed.len();
        (self.listed, left_out)
    }
}
