//! The text of a client's config as a value.

use std::path::Path;

use pincer_config::{EditError, edit};
use serde_json::Value;

use crate::{ClientError, Format, toml};

/// What a text says. An empty one says nothing, which is no mistake.
pub(crate) fn parse(file: &Path, format: Format, text: &str) -> Result<Value, ClientError> {
    let read = match format {
        Format::Json => edit::value(text).map_err(|error| match error {
            EditError::Wrong(problems) => problems.to_string(),
            other => other.to_string(),
        }),
        Format::Toml => toml::value(text),
    };
    read.map_err(|problem| ClientError::Syntax { file: file.to_owned(), problem })
}
