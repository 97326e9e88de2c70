//! Why a text is no program, in words for the model that wrote it.

use crate::position::{Position, excerpt, position_at};

/// Why a text cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// JavaScript that does not parse.
    #[error("{0}")]
    Syntax(Diagnostic),
    /// TypeScript that does not parse, or that cannot be turned into JavaScript.
    #[error("{0}")]
    TypeScript(Diagnostic),
    /// The program asks for a module.
    #[error(
        "{what} cannot be used: programs have no modules; tools are reached through `tools` (line {}, column {}){excerpt}",
        at.line, at.column
    )]
    ModuleAccess {
        /// What was used, as it is written in JavaScript.
        what: &'static str,
        /// Where.
        at: Position,
        /// The line, as [`excerpt`] shows it.
        excerpt: String,
    },
    /// The text is a shell command.
    #[error("this is a shell command, not a program: {command}")]
    Shell {
        /// Its first line, shortened.
        command: String,
    },
}

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// One line, without the position.
    pub message: String,
    /// Where it is wrong, if that is known.
    pub position: Option<Position>,
    /// The line, as [`excerpt`] shows it; empty without a position.
    pub excerpt: String,
}

impl Diagnostic {
    /// A diagnostic for the byte `offset` of `source`.
    pub(crate) fn at(source: &str, offset: usize, message: impl Into<String>) -> Diagnostic {
        let position = position_at(source, offset);
        Diagnostic { message: message.into(), position: Some(position), excerpt: excerpt(source, position) }
    }
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        match self.position {
            Some(position) => write!(f, " (line {}, column {}){}", position.line, position.column, self.excerpt),
            None => Ok(()),
        }
    }
}
