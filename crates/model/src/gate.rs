//! The last gate: the bytes that are about to be sent are read again, and the tools in them are those that the run may show.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{ErrorKind, ModelError};
use crate::message::Api;
use crate::request::Surface;

/// Members of a body that bring no tools. Any other keeps it from being sent: providers invent ways to offer tools of their own.
const HARMLESS: [&str; 68] = [
    "background",
    "cache_control",
    "cache_prompt",
    "chat_template_kwargs",
    "context_management",
    "enable_thinking",
    "frequency_penalty",
    "grammar",
    "guided_json",
    "include",
    "input",
    "instructions",
    "json_schema",
    "keep_alive",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "min_p",
    "min_tokens",
    "mirostat",
    "model",
    "models",
    "n",
    "n_predict",
    "num_ctx",
    "options",
    "output_config",
    "parallel_tool_calls",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "provider",
    "reasoning",
    "reasoning_effort",
    "repeat_penalty",
    "repetition_penalty",
    "response_format",
    "route",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "stop_sequences",
    "store",
    "stream",
    "stream_options",
    "system",
    "temperature",
    "text",
    "think",
    "thinking",
    "thinking_budget",
    "tool_choice",
    "tools",
    "top_k",
    "top_logprobs",
    "top_p",
    "transforms",
    "truncation",
    "typical_p",
    "usage",
    "user",
    "verbosity",
];

/// A body that has passed the gate. Nothing else can be sent.
#[derive(Clone, Debug)]
pub(crate) struct Sealed(String);

impl Sealed {
    /// Reads a body again and compares its tools with `surface`.
    pub(crate) fn new(api: Api, body: String, surface: &Surface) -> Result<Self, ModelError> {
        let differs = |what: String| {
            let message = format!(
                "the request was not sent: {what}; the run may show {} to the model and nothing else",
                listed(surface.0.iter().map(String::as_str))
            );
            ModelError::new(ErrorKind::Surface, message)
        };
        let members = members(&body).map_err(|error| differs(format!("its body cannot be read again ({error})")))?;
        if let Some(other) = members.keys().find(|key| !HARMLESS.contains(&key.as_str())) {
            return Err(differs(format!("its body has `{other}`, which could bring other tools")));
        }
        let tools: Vec<&RawValue> = match members.get("tools") {
            Some(tools) => serde_json::from_str(tools.get())
                .map_err(|error| differs(format!("its list of tools cannot be read ({error})")))?,
            None => Vec::new(),
        };
        let mut found = BTreeSet::new();
        for tool in tools {
            let name = name(api, tool)
                .map_err(|error| differs(format!("an entry of its list of tools cannot be read ({error})")))?
                .ok_or_else(|| differs("an entry of its list of tools has no name".to_owned()))?;
            if !found.insert(name.clone()) {
                return Err(differs(format!("its list of tools has `{name}` twice")));
            }
        }
        if let Some(name) = found.difference(&surface.0).next() {
            return Err(differs(format!("its list of tools has `{name}`")));
        }
        if let Some(name) = surface.0.difference(&found).next() {
            return Err(differs(format!("`{name}` is missing from its list of tools")));
        }
        Ok(Self(body))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "no tool".to_owned() } else { names.join(", ") }
}

/// The name under which a model sees a tool. One that the provider hosts has only a kind.
fn name(api: Api, tool: &RawValue) -> Result<Option<String>, serde_json::Error> {
    let entry = members(tool.get())?;
    let text = |members: &Members, key: &str| -> Option<String> { serde_json::from_str(members.get(key)?.get()).ok() };
    let kind = text(&entry, "type");
    Ok(match (api, kind.as_deref()) {
        (Api::ChatCompletions, Some("function")) => match entry.get("function") {
            Some(function) => text(&members(function.get())?, "name"),
            None => None,
        },
        (Api::Responses, Some("function")) => text(&entry, "name"),
        (Api::Messages, None | Some("custom")) => text(&entry, "name"),
        // A hosted tool, or one of a kind to come: never what the surface means by the same name.
        (_, Some(kind)) => Some(format!("{kind}:{}", text(&entry, "name").unwrap_or_default())),
        (_, None) => None,
    })
}

/// The members of an object, by their keys in small letters.
type Members = BTreeMap<String, Box<RawValue>>;

/// Reads the members of an object. One that is there twice is an error: two readers could see two different ones. Some servers take
/// `Tools` for `tools`, and even letters that only look alike.
fn members(text: &str) -> Result<Members, serde_json::Error> {
    struct Reading;
    impl<'de> Visitor<'de> for Reading {
        type Value = Members;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = BTreeMap::new();
            while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                if !key.is_ascii() {
                    return Err(serde::de::Error::custom(format!("the key `{key}` is not plain ASCII")));
                }
                if members.insert(key.to_ascii_lowercase(), value).is_some() {
                    return Err(serde::de::Error::custom(format!("`{key}` is there twice")));
                }
            }
            Ok(members)
        }
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let members = reader.deserialize_map(Reading)?;
    reader.end()?;
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(api: Api, body: &str) -> Result<(), String> {
        let surface = ["exec", "wait"].into_iter().collect();
        Sealed::new(api, body.to_owned(), &surface).map(drop).map_err(|error| {
            assert_eq!(error.kind, ErrorKind::Surface);
            assert!(!error.retry.is_right());
            error.message
        })
    }

    #[test]
    fn a_body_with_other_tools_than_the_run_may_show_is_not_sent() {
        let right = [
            (
                Api::ChatCompletions,
                r#"{"type":"function","function":{"name":"exec"}},{"type":"function","function":{"name":"wait"}}"#,
            ),
            (Api::Responses, r#"{"type":"function","name":"wait"},{"type":"function","name":"exec"}"#),
            (Api::Messages, r#"{"name":"exec"},{"type":"custom","name":"wait"}"#),
        ];
        for (api, tools) in right {
            told(api, &format!(r#"{{"tools":[{tools}],"messages":[{{"name":"rm"}}]}}"#)).expect("only the list counts");
            let planted = match api {
                Api::ChatCompletions => r#"{"type":"function","function":{"name":"rm"}}"#,
                Api::Responses => r#"{"type":"function","name":"rm"}"#,
                Api::Messages => r#"{"name":"rm"}"#,
            };
            let error = told(api, &format!(r#"{{"tools":[{tools},{planted}]}}"#)).expect_err("a planted tool");
            assert!(error.contains("its list of tools has `rm`"), "{error}");
            for (body, expected) in [
                (r#"{"tools":[]}"#.to_owned(), "`exec` is missing"),
                ("{}".to_owned(), "`exec` is missing"),
                (format!(r#"{{"tools":[{tools}],"tools":[{tools}]}}"#), "`tools` is there twice"),
                (format!(r#"{{"tools":[{tools}],"to\u006fls":[{tools}]}}"#), "`tools` is there twice"),
                (format!(r#"{{"tools":[{tools},{{"type":"web_search"}}]}}"#), "`web_search:`"),
                (format!(r#"{{"tools":[{tools},{{"type":"bash_20250124","name":"exec"}}]}}"#), "`bash_20250124:exec`"),
                (format!(r#"{{"tools":[{tools},{{}}]}}"#), "has no name"),
                (format!(r#"{{"tools":[{tools}],"Tools":[]}}"#), "`Tools` is there twice"),
                (format!(r#"{{"tools":[{tools}],"tool\u017f":[]}}"#), "is not plain ASCII"),
                (format!(r#"{{"tools":[{tools}],"MCP_Servers":[]}}"#), "`mcp_servers`"),
                (format!(r#"{{"tools":[{tools}],"prompt":{{}}}}"#), "`prompt`"),
                (format!(r#"{{"tools":[{tools}],"compound_custom":{{}}}}"#), "`compound_custom`"),
                (
                    format!(
                        r#"{{"tools":[{}]}}"#,
                        tools.replacen("\"name\":\"exec\"", "\"name\":\"rm\",\"name\":\"exec\"", 1)
                    ),
                    "`name` is there twice",
                ),
                (
                    format!(
                        r#"{{"tools":[{}]}}"#,
                        tools.replacen("\"name\":\"exec\"", "\"name\":\"exec\",\"Name\":\"rm\"", 1)
                    ),
                    "`Name` is there twice",
                ),
                (format!(r#"{{"tools":[{tools}],"mcp_servers":[]}}"#), "`mcp_servers`"),
                (format!(r#"{{"tools":[{tools}],"functions":[]}}"#), "`functions`"),
                (format!(r#"{{"tools":[{tools}]}} {{}}"#), "cannot be read again"),
                ("[]".to_owned(), "cannot be read again"),
            ] {
                let error = told(api, &body).expect_err(&body);
                assert!(error.contains(expected), "{body}: {error}");
            }
        }
    }

    #[test]
    fn a_run_without_tools_may_send_no_list() {
        Sealed::new(Api::Messages, "{}".into(), &Surface::default()).expect("nothing to show");
    }
}
