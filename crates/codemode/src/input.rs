//! What a model passes to `exec` and `wait`. None of it is believed.

use pincer_store::RunId;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::settings::Language;

/// Why an input is none, for the one who wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// It is not what `exec` or `wait` takes.
    #[error("{0}")]
    Wrong(&'static str),
    /// It is in a language that there is not, or that is turned off.
    #[error("{0}")]
    Language(String),
}

/// The input of `exec`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecInput {
    /// The program.
    pub code: String,
    /// What it is written in.
    pub language: Language,
    /// A word of the caller's for this request, unique for its user and session: sent again, it is the same run.
    pub key: Option<String>,
}

impl ExecInput {
    /// A program in JavaScript.
    pub fn javascript(code: impl Into<String>) -> Self {
        Self { code: code.into(), language: Language::Javascript, key: None }
    }

    /// A program in TypeScript.
    pub fn typescript(code: impl Into<String>) -> Self {
        Self { code: code.into(), language: Language::Typescript, key: None }
    }

    /// With a key.
    pub fn with_key(self, key: Option<String>) -> Self {
        Self { key, ..self }
    }

    /// Tells the program from every other.
    pub(crate) fn digest(&self) -> [u8; 32] {
        Sha256::new().chain_update(self.kind()).chain_update([0]).chain_update(&self.code).finalize().into()
    }

    /// Reads what a model has passed: `code`, or `command` for it, and perhaps `language`.
    pub fn parse(input: &Value) -> Result<Self, InputError> {
        let fields = input.as_object().ok_or(InputError::Wrong("the input of exec must be an object with `code`"))?;
        let code = match (text(fields, "code")?, text(fields, "command")?) {
            (Some(code), Some(command)) if code != command => {
                return Err(InputError::Wrong("code and command must match when both are provided."));
            }
            (Some(code), _) | (None, Some(code)) if !code.trim().is_empty() => code.to_owned(),
            _ => return Err(InputError::Wrong("code or command must be a non-empty string.")),
        };
        let language = match fields.get("language") {
            None | Some(Value::Null) => Language::Javascript,
            Some(Value::String(name)) if name == "javascript" => Language::Javascript,
            Some(Value::String(name)) if name == "typescript" => Language::Typescript,
            Some(other) => {
                let message = format!("language must be javascript or typescript, not {other}.");
                return Err(InputError::Language(message));
            }
        };
        Ok(Self { code, language, key: None })
    }

    /// What hooks see: both names of the program, so that a policy that looks at either sees it.
    pub(crate) fn params(&self) -> Value {
        json!({ "code": self.code, "command": self.code, "language": self.kind() })
    }

    /// What the language is called in inputs and events.
    pub(crate) fn kind(&self) -> &'static str {
        match self.language {
            Language::Javascript => "javascript",
            Language::Typescript => "typescript",
        }
    }

    /// The input after the hooks. One that changed one of the two names has changed the program; two changes must agree.
    pub(crate) fn rewritten(&self, params: &Value) -> Result<Self, InputError> {
        let wrong = || InputError::Wrong("a hook changed the program to something that is none, so it does not run");
        let mut fields = params.as_object().ok_or_else(wrong)?.clone();
        for name in ["code", "command"] {
            match fields.get(name) {
                Some(Value::String(text)) if *text == self.code => drop(fields.remove(name)),
                Some(Value::String(_)) => {}
                _ => return Err(wrong()),
            }
        }
        if !fields.contains_key("code") && !fields.contains_key("command") {
            fields.insert("code".into(), self.code.clone().into());
        }
        Ok(Self::parse(&Value::Object(fields))?.with_key(self.key.clone()))
    }
}

fn text<'f>(fields: &'f Map<String, Value>, name: &str) -> Result<Option<&'f str>, InputError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(InputError::Wrong("code and command must be strings.")),
    }
}

/// The input of `wait`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitInput {
    /// The run to continue.
    pub run_id: RunId,
}

impl WaitInput {
    /// Reads what a model has passed: `runId`, or `run_id`.
    pub fn parse(input: &Value) -> Result<Self, InputError> {
        let id = ["runId", "run_id"].into_iter().find_map(|name| input.get(name)).and_then(Value::as_str);
        match id.map(str::trim) {
            Some(id) if !id.is_empty() => Ok(Self { run_id: id.into() }),
            _ => Err(InputError::Wrong("runId must be a non-empty string.")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn exec_takes_code_or_command_and_not_two_different_ones() {
        let code = |input: Value| ExecInput::parse(&input).map(|input| input.code).map_err(|error| error.to_string());
        assert_eq!(code(json!({ "code": "1" })).unwrap(), "1");
        assert_eq!(code(json!({ "command": "2", "code": null })).unwrap(), "2");
        assert_eq!(code(json!({ "command": "2", "code": "2" })).unwrap(), "2");
        for (input, says) in [
            (json!({ "code": "1", "command": "2" }), "must match"),
            (json!({}), "non-empty"),
            (json!({ "code": " \n" }), "non-empty"),
            (json!({ "code": 5 }), "strings"),
            (json!({ "code": "1", "command": [] }), "strings"),
            (json!("1"), "an object"),
            (json!({ "code": "1", "language": "bash" }), "not \"bash\""),
            (json!({ "code": "1", "language": 5 }), "not 5"),
        ] {
            assert!(code(input.clone()).unwrap_err().contains(says), "{input}");
        }
    }

    /// Bugs 5 and 6 of the reference: hooks see both names, and one that spoils either stops the program.
    #[test]
    fn a_hook_may_rewrite_either_name_and_cannot_half_spoil_the_program() {
        let input = ExecInput::javascript("old");
        let rewritten = |params: Value| input.rewritten(&params).map(|input| input.code);
        assert_eq!(rewritten(input.params()).unwrap(), "old");
        assert_eq!(rewritten(json!({ "code": "new", "command": "old" })).unwrap(), "new");
        assert_eq!(rewritten(json!({ "code": "old", "command": "new" })).unwrap(), "new");
        assert_eq!(rewritten(json!({ "code": "new", "command": "new" })).unwrap(), "new");
        for spoilt in [
            json!({ "code": "new", "command": "other" }),
            json!({ "code": 5, "command": "old" }),
            json!({ "code": "old", "command": null }),
            json!({ "code": "old" }),
            json!({ "code": "", "command": "old" }),
            json!([]),
        ] {
            assert!(rewritten(spoilt.clone()).is_err(), "{spoilt}");
        }
    }

    #[test]
    fn wait_takes_a_run_id_in_either_spelling() {
        let id = |input: Value| WaitInput::parse(&input).map(|input| input.run_id);
        assert_eq!(id(json!({ "runId": "cm_1" })).unwrap(), "cm_1");
        assert_eq!(id(json!({ "run_id": " cm_1 " })).unwrap(), "cm_1");
        for wrong in [json!({}), json!({ "runId": "" }), json!({ "runId": 1 }), json!(null)] {
            assert!(id(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
