//! JSON that is text or a tree, in the form that its sender has.

use std::borrow::Cow;

use serde_json::Value;

use crate::{Json, JsonError};

/// JSON as text or as a tree. Only a caller that needs the other form pays for it.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Checked text.
    Text(Json),
    /// A tree.
    Value(Value),
}

impl Payload {
    /// Makes a tree of it.
    pub fn into_value(self) -> Result<Value, JsonError> {
        match self {
            Self::Text(text) => text.tree(),
            Self::Value(value) => Ok(value),
        }
    }

    /// Lends it as a tree.
    pub fn as_value(&self) -> Result<Cow<'_, Value>, JsonError> {
        match self {
            Self::Text(text) => text.tree().map(Cow::Owned),
            Self::Value(value) => Ok(Cow::Borrowed(value)),
        }
    }

    /// Makes checked text of it.
    pub fn into_text(self) -> Result<Json, JsonError> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Value(value) => {
                let text = value.to_string();
                drop(value);
                Json::parse(text)
            }
        }
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::Value(Value::Null)
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl From<Json> for Payload {
    fn from(text: Json) -> Self {
        Self::Text(text)
    }
}
