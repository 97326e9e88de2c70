//! The text of a client's config as a value.

use std::path::Path;

use pincer_config::edit;
use serde_json::Value;

use crate::{ClientError, Format, SyntaxError, toml};

/// Reads the text of a client's config. An empty one says nothing, which is no mistake.
pub(crate) fn parse(file: &Path, format: Format, text: &str) -> Result<Value, ClientError> {
    let read = match format {
        Format::Json => edit::value(text).map_err(SyntaxError::Json),
        Format::Toml => toml::value(text).map_err(SyntaxError::Toml),
    };
    read.map_err(|source| ClientError::Syntax { file: file.to_owned(), source })
}
