//! Globs that models and configs give, compiled with limits.

use globset::{GlobBuilder, GlobMatcher};

/// The most bytes of a glob.
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

/// The reason why a text is no glob.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It is too long.
    #[error("it has more than {MOST_BYTES} bytes")]
    Long,
    /// Its braces nest too deep.
    #[error("its braces nest more than {MOST_BRACES} deep")]
    Deep,
    /// Its syntax is wrong.
    #[error("{0}")]
    Syntax(globset::ErrorKind),
}

/// Makes a matcher of a glob.
pub(crate) fn compile(text: &str, separator: Separator) -> Result<GlobMatcher, GlobError> {
    if text.len() > MOST_BYTES {
        return Err(GlobError::Long);
    }
    if text.matches('{').count() > MOST_BRACES {
        return Err(GlobError::Deep);
    }
    let glob = GlobBuilder::new(text).literal_separator(separator == Separator::Literal).build();
    let glob = glob.map_err(|error| GlobError::Syntax(error.kind().clone()))?;
    Ok(glob.compile_matcher())
}
