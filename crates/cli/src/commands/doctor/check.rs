//! A check, and how it ended.

use serde_json::{Value, json};

/// One thing that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// Its name, of one word; what belongs to one of several has that behind a colon: `mcp:github`.
    pub name: String,
    pub verdict: Verdict,
    /// The finding, in a sentence.
    pub message: String,
}

/// How a check ended. What is not right has its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    /// Pincer works, but perhaps not as it should.
    Warn(String),
    /// Something does not work.
    Fail(String),
}

impl Verdict {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn(_) => "warn",
            Self::Fail(_) => "fail",
        }
    }

    pub(super) fn remedy(&self) -> Option<&str> {
        match self {
            Self::Ok => None,
            Self::Warn(remedy) | Self::Fail(remedy) => Some(remedy),
        }
    }
}

impl Check {
    pub(super) fn ok(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { name: name.into(), verdict: Verdict::Ok, message: message.into() }
    }

    pub(super) fn warn(name: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name: name.into(), verdict: Verdict::Warn(remedy.into()), message: message.into() }
    }

    pub(super) fn fail(name: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name: name.into(), verdict: Verdict::Fail(remedy.into()), message: message.into() }
    }

    pub(super) fn document(&self) -> Value {
        let mut document = json!({ "name": self.name, "status": self.verdict.word(), "message": self.message });
        if let Some(remedy) = self.verdict.remedy() {
            document["remedy"] = remedy.into();
        }
        document
    }
}
