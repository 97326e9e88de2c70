//! The body of a request: built once, as text, and looked at again before it is sent.

use pincer_json::Json;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{ErrorKind, ModelError};

/// The members of a body, in their order.
#[derive(Default)]
pub(crate) struct Body(Vec<(String, Json)>);

impl Body {
    /// Sets a member.
    pub(crate) fn set(&mut self, key: &str, value: &impl Serialize) -> Result<(), ModelError> {
        let json = Json::of(value).map_err(|error| {
            ModelError::new(ErrorKind::BadRequest, format!("the request cannot be written: `{key}` is {error}"))
        })?;
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) => *known = json,
            None => self.0.push((key.to_owned(), json)),
        }
        Ok(())
    }

    /// Sets a member if there is something to set.
    pub(crate) fn set_some(&mut self, key: &str, value: Option<impl Serialize>) -> Result<(), ModelError> {
        value.map_or(Ok(()), |value| self.set(key, &value))
    }

    /// Sets members that the settings of a model add or replace. `null` takes one away.
    pub(crate) fn set_params(&mut self, params: &Map<String, Value>) -> Result<(), ModelError> {
        for (key, value) in params {
            match value {
                Value::Null => self.0.retain(|(known, _)| known != key),
                value => self.set(key, value)?,
            }
        }
        Ok(())
    }

    /// Returns the text of the body.
    pub(crate) fn text(&self) -> String {
        let mut text =
            String::with_capacity(self.0.iter().map(|(key, json)| key.len() + json.as_str().len() + 6).sum());
        text.push('{');
        for (index, (key, json)) in self.0.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(&Value::from(key.as_str()).to_string());
            text.push(':');
            text.push_str(json.as_str());
        }
        text.push('}');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_keep_their_order_and_params_replace_or_remove_them() {
        let mut body = Body::default();
        body.set("model", &"m").expect("set");
        body.set("raw", &Json::parse(r#"{"a" : 1.0, "b":"\u00e9"}"#).expect("JSON")).expect("set");
        body.set("gone", &1).expect("set");
        body.set_some("none", None::<u8>).expect("set");
        let params = json!({ "model": "other", "gone": null, "new \"key\"": [1] });
        body.set_params(params.as_object().expect("an object")).expect("set");
        let text = body.text();
        assert_eq!(
            text, r#"{"model":"other","raw":{"a" : 1.0, "b":"\u00e9"},"new \"key\"":[1]}"#,
            "raw text is kept as it is"
        );
    }
}
