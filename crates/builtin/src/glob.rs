//! Globs of strangers, compiled with care.

use globset::{GlobBuilder, GlobMatcher};

/// Longer ones are nobody's.
const MOST_BYTES: usize = 1000;
/// The compiler of globs goes as deep as braces nest.
const MOST_BRACES: usize = 8;

/// Whether `*` goes over a `/`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Separator {
    /// It does not.
    Literal,
    /// It does.
    Any,
}

/// Why a text is no glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GlobError {
    #[error("it has more than {MOST_BYTES} bytes")]
    Long,
    #[error("its braces nest more than {MOST_BRACES} deep")]
    Deep,
    #[error("{0}")]
    Syntax(String),
}

pub(crate) fn compile(text: &str, separator: Separator) -> Result<GlobMatcher, GlobError> {
    if text.len() > MOST_BYTES {
        return Err(GlobError::Long);
    }
    if text.matches('{').count() > MOST_BRACES {
        return Err(GlobError::Deep);
    }
    let glob = GlobBuilder::new(text).literal_separator(separator == Separator::Literal).build();
    let glob = glob.map_err(|error| GlobError::Syntax(error.kind().to_string()))?;
    Ok(glob.compile_matcher())
}
