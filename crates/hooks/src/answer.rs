//! The one place where the answer of another program is read. An answer that Pincer does not understand is a failure of the hook: a gate
//! must not open because its words are those of another gate.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use crate::{HookError, HookName, Point};

/// The most characters of a key that are told.
const MOST_KEY: usize = 60;

/// The form in which a place keeps the content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentForm {
    /// Nothing but text.
    Text,
    /// Parts of several types: texts, pictures and others.
    Parts,
}

/// Reads the answer of a hook: an object with no other keys than the table has for it, or `null`.
pub(crate) fn read<P: Point>(answer: Value) -> Result<P::Answer, HookError> {
    match members(P::NAME, answer)? {
        None => Ok(P::Answer::default()),
        Some(members) => {
            serde_json::from_value(Value::Object(members)).map_err(|error| HookError::Answer(error.into()))
        }
    }
}

fn members(hook: HookName, answer: Value) -> Result<Option<Map<String, Value>>, HookError> {
    let kind = match answer {
        Value::Null => return Ok(None),
        Value::Object(members) => {
            let known = hook.spec().answer_keys;
            let Some(key) = members.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(Some(members)) };
            let key: String = key.chars().take(MOST_KEY).collect();
            let known = known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            return Err(unreadable(format!("it has the key {key:?}, and an answer to {hook} may have {known}")));
        }
        // serde would take a list for an object whose members come in order.
        Value::Array(_) => "a list",
        Value::String(_) => "a text",
        Value::Number(_) => "a number",
        Value::Bool(_) => "`true` or `false`",
    };
    Err(unreadable(format!("it is {kind} instead of an object or `null`")))
}

/// Reads a member of an answer that is an object. A list is none, although serde would take it for one.
pub fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Option<T>, D::Error> {
    let members = Option::<Map<String, Value>>::deserialize(deserializer)?;
    let read = |members| serde_json::from_value(Value::Object(members)).map_err(D::Error::custom);
    members.map(read).transpose()
}

/// Returns a message with the content that a hook has put in place of its own. Whether it is an error changes only if the answer says so;
/// everything else stays. Fails if the answer has no content that can be read.
pub fn in_place_of(before: &Value, answer: &Value, form: ContentForm) -> Result<Value, HookError> {
    let content = match answer.get("content") {
        Some(Value::String(text)) => json!([{ "type": "text", "text": text }]),
        Some(Value::Array(parts)) => {
            let is_readable = |part: &Value| is_text(part) || is_of_known_type(part, before);
            if let Some(at) = parts.iter().position(|part| !is_readable(part)) {
                return Err(unreadable(format!("`message.content[{at}]` is neither a text nor a picture")));
            }
            if form == ContentForm::Text && !parts.is_empty() && !parts.iter().any(is_text) {
                return Err(unreadable("`message.content` has no text, and the result is one"));
            }
            Value::Array(parts.clone())
        }
        _ => return Err(unreadable("`message` has no `content` that is a text or a list of parts")),
    };
    let is_error = match answer.get("isError") {
        None | Some(Value::Null) => before.get("isError"),
        Some(Value::Bool(_)) => answer.get("isError"),
        Some(_) => return Err(unreadable("`message.isError` is neither `true` nor `false`")),
    };
    let mut message = before.clone();
    if let (Some(members), Some(is_error)) = (message.as_object_mut(), is_error) {
        members.insert("isError".into(), is_error.clone());
    }
    message["content"] = content;
    Ok(message)
}

fn is_text(part: &Value) -> bool {
    part["type"] == "text" && part["text"].is_string()
}

/// Returns whether a part is a picture, or of a type that the message had before.
fn is_of_known_type(part: &Value, before: &Value) -> bool {
    let kind = &part["type"];
    let had = || before["content"].as_array().is_some_and(|parts| parts.iter().any(|part| part["type"] == *kind));
    kind == "image" || kind.is_string() && kind != "text" && had()
}

fn unreadable(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> HookError {
    HookError::Answer(reason.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::events::*;

    #[test]
    fn no_hook_takes_an_answer_that_is_no_object_or_has_a_key_of_another() {
        for hook in HookName::ALL.iter().filter(|hook| hook.spec().kind != Kind::Observe) {
            for answer in
                [json!([]), json!(["block"]), json!(1), json!("block"), json!(true), json!({ "blocked\u{1b}": true })]
            {
                let error = members(*hook, answer.clone()).expect_err("an answer that cannot be read").to_string();
                assert!(error.contains("cannot be read") && !error.contains('\u{1b}'), "{hook} {answer}: {error}");
            }
            assert!(members(*hook, Value::Null).is_ok_and(|members| members.is_none()), "{hook}");
            assert!(members(*hook, json!({})).is_ok_and(|members| members.is_some()), "{hook}");
        }
    }

    /// Fails if a key of the table is one that the type of the answer passes over.
    fn reads_its_keys<P: Point>() -> HookName {
        // These keep any value, and the place that uses them looks into it.
        let keeps_anything = |key: &str| key == "message" && P::NAME != HookName::BeforeAgentRun;
        let probes = [json!(true), json!(1), json!("x"), json!([]), json!({}), json!([1])];
        for key in P::NAME.spec().answer_keys.iter().filter(|key| !keeps_anything(key)) {
            let takes_all = probes.iter().all(|probe| read::<P>(json!({ *key: probe })).is_ok());
            assert!(!takes_all, "no answer to {} reads {key}", P::NAME);
        }
        P::NAME
    }

    #[test]
    fn every_key_of_the_table_is_read_by_the_answer_of_its_hook() {
        let read = [
            reads_its_keys::<BeforeAgentReply>(),
            reads_its_keys::<BeforeModelResolve>(),
            reads_its_keys::<BeforeAgentStart>(),
            reads_its_keys::<AgentBootstrap>(),
            reads_its_keys::<BeforePromptBuild>(),
            reads_its_keys::<BeforeAgentRun>(),
            // It belongs to the door, and its type is strict itself.
            HookName::BeforeToolCall,
            reads_its_keys::<ToolResultPersist>(),
            reads_its_keys::<BeforeMessageWrite>(),
            reads_its_keys::<BeforeAgentFinalize>(),
            reads_its_keys::<MessageSending>(),
            reads_its_keys::<BeforeInstall>(),
        ];
        let asked = HookName::ALL.iter().filter(|hook| hook.spec().kind != Kind::Observe);
        assert_eq!(asked.copied().collect::<Vec<_>>(), read);
    }

    #[test]
    fn the_documented_answers_can_be_read() {
        fn check<P: Point>(answers: &[Value]) {
            for answer in answers {
                read::<P>(answer.clone()).unwrap_or_else(|error| panic!("{} {answer}: {error}", P::NAME));
            }
        }
        let model = json!({ "providerOverride": "p", "modelOverride": "m" });
        let prompt = json!({
            "systemPrompt": "a", "prependContext": "b", "appendContext": "c", "prependSystemContext": "d",
            "appendSystemContext": "e", "toolsAllow": ["exec"],
        });
        let both: Map<String, Value> =
            [&model, &prompt].iter().filter_map(|part| part.as_object()).flat_map(Clone::clone).collect();
        check::<BeforeModelResolve>(&[model, json!({ "modelOverride": null })]);
        check::<BeforePromptBuild>(&[prompt]);
        check::<BeforeAgentStart>(&[both.into()]);
        let payload = json!({ "handled": true, "reply": { "text": "Hi." }, "reason": "r" });
        check::<BeforeAgentReply>(&[json!({ "handled": true, "reply": "Hi." }), payload]);
        check::<AgentBootstrap>(&[json!({ "files": [{ "name": "AGENTS.md", "content": "", "path": "/x" }] })]);
        check::<BeforeAgentRun>(&[
            json!({ "outcome": "pass" }),
            json!({ "outcome": "block", "reason": "r", "message": "m" }),
        ]);
        check::<BeforeAgentFinalize>(&[json!({
            "action": "revise", "reason": "r",
            "retry": { "instruction": "i", "idempotencyKey": "k", "maxAttempts": 2 },
        })]);
        check::<ToolResultPersist>(&[json!({ "message": { "content": "x" } })]);
        check::<BeforeMessageWrite>(&[json!({ "block": false, "message": { "content": [] } })]);
        check::<MessageSending>(&[json!({ "content": "x", "cancel": false, "cancelReason": "r", "metadata": {} })]);
        check::<BeforeInstall>(&[json!({ "findings": [{ "message": "m" }], "block": true, "blockReason": "r" })]);
        read::<BeforeAgentFinalize>(json!({ "action": "revise", "retry": ["go on"] }))
            .expect_err("a list is no object");
        read::<BeforeAgentFinalize>(json!({ "retry": { "instructions": "x" } })).expect_err("an unknown key");
    }

    #[test]
    fn content_is_replaced_and_an_error_stays_one_unless_the_answer_says_so() {
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        let before = json!({ "role": "toolResult", "toolCallId": "c", "content": text("a"), "isError": true });
        let check = |answer: Value, content: Value, is_error: bool| {
            let after = in_place_of(&before, &answer, ContentForm::Text).expect("a message");
            let wanted = json!({ "role": "toolResult", "toolCallId": "c", "content": content, "isError": is_error });
            assert_eq!(after, wanted, "{answer}");
        };
        check(json!({ "content": text("b") }), text("b"), true);
        check(json!({ "content": "b", "isError": null, "role": "user" }), text("b"), true);
        check(json!({ "content": "b", "isError": false }), text("b"), false);
        check(json!({ "content": [] }), json!([]), true);
    }

    #[test]
    fn a_message_without_content_that_can_be_read_is_refused() {
        let before = json!({ "content": [{ "type": "text", "text": "a" }, { "type": "audio", "data": "" }] });
        let picture = json!({ "content": [{ "type": "image", "mimeType": "image/png", "data": "" }] });
        for answer in [
            json!("x"),
            json!(["x"]),
            json!({}),
            json!({ "content": null }),
            json!({ "content": { "type": "text", "text": "x" } }),
            json!({ "content": ["x"] }),
            json!({ "content": [{ "type": "text" }] }),
            json!({ "content": [{ "text": "x" }] }),
            json!({ "content": [{ "type": "resource" }] }),
            json!({ "content": "x", "isError": "no" }),
        ] {
            in_place_of(&before, &answer, ContentForm::Parts).expect_err(&answer.to_string());
        }
        in_place_of(&before, &picture, ContentForm::Text).expect_err("a picture in place of a text");
        in_place_of(&before, &picture, ContentForm::Parts).expect("a picture");
        in_place_of(&before, &json!({ "content": [{ "type": "audio" }] }), ContentForm::Parts).expect("as before");
    }
}
