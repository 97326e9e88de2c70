//! What is wrong with a config, for the person who must mend it.

use std::fmt;

use serde::Serialize;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where: `tools.allow[0]`, or line and column where the file is not JSON5 at all. Empty for the whole file.
    pub path: String,
    /// What is wrong there, and what would be right.
    pub message: String,
    /// What was perhaps meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
}

impl Problem {
    /// Something wrong at a place.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), nearest: None }
    }

    pub(crate) fn meant(mut self, nearest: Option<String>) -> Self {
        self.nearest = nearest;
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

/// Everything that is wrong with a config, one a line. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let lead = if index == 0 { "" } else { "\n" };
            write!(f, "{lead}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

/// A number that was brought into its range.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warning {
    /// Where.
    pub path: String,
    /// What was written.
    pub written: serde_json::Number,
    /// What is used.
    pub used: serde_json::Number,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = if self.written.as_f64() < self.used.as_f64() { "below the least" } else { "above the most" };
        write!(f, "{}: {} is {bound} that is allowed; {} is used", self.path, self.written, self.used)
    }
}
