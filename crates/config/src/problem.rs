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

/// A part of a config that can be used, but not as it is written.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Warning {
    /// A number that was brought into its range.
    Number {
        /// Where.
        path: String,
        /// The value that was written.
        written: serde_json::Number,
        /// The value that is used.
        used: serde_json::Number,
    },
    /// A setting of a channel that is not there.
    Channel {
        /// Where.
        path: String,
        /// The channel that was probably meant.
        #[serde(skip_serializing_if = "Option::is_none")]
        near: Option<String>,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number { path, written, used } => {
                let bound = if written.as_f64() < used.as_f64() { "below the least" } else { "above the most" };
                write!(f, "{path}: {written} is {bound} that is allowed; {used} is used")
            }
            Self::Channel { path, near } => {
                write!(f, "{path}: `channels` has no channel of this name, so this means nothing")?;
                near.as_ref().map_or(Ok(()), |near| write!(f, "; did you mean `{near}`?"))
            }
        }
    }
}
