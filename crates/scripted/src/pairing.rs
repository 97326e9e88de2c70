//! Calls and results of a conversation, which must belong together.

use std::collections::BTreeSet;

use serde_json::Value;

/// A step of a conversation.
enum Step<'a> {
    Call(&'a str),
    Result(&'a str),
    /// The user says something.
    User,
}

/// Returns the first reason why a real provider would refuse the calls and results in a request, in any format.
pub(crate) fn mismatch(body: &Value) -> Option<String> {
    let (mut seen, mut open) = (BTreeSet::new(), BTreeSet::new());
    let unanswered = |open: &BTreeSet<&str>| open.first().map(|id| format!("the call {id:?} has no result"));
    for step in steps(body) {
        match step {
            Step::Call("") => return Some("a call has no id".into()),
            Step::Call(id) if !seen.insert(id) => return Some(format!("two calls have the id {id:?}")),
            Step::Call(id) => drop(open.insert(id)),
            Step::Result(id) if !open.remove(id) => return Some(format!("the result {id:?} has no call before it")),
            Step::Result(_) => {}
            Step::User => {
                if let Some(unanswered) = unanswered(&open) {
                    return Some(unanswered);
                }
            }
        }
    }
    unanswered(&open)
}

fn steps(body: &Value) -> Vec<Step<'_>> {
    let items = body["messages"].as_array().or_else(|| body["input"].as_array());
    let mut steps = Vec::new();
    for item in items.into_iter().flatten() {
        // Chat Completions.
        let calls = item["tool_calls"].as_array().into_iter().flatten();
        steps.extend(calls.map(|call| Step::Call(text(&call["id"]))));
        // Messages.
        for block in item["content"].as_array().into_iter().flatten() {
            match (text(&item["role"]), text(&block["type"])) {
                (_, "tool_use") => steps.push(Step::Call(text(&block["id"]))),
                (_, "tool_result") => steps.push(Step::Result(text(&block["tool_use_id"]))),
                ("user", _) => steps.push(Step::User),
                _ => {}
            }
        }
        match (text(&item["role"]), text(&item["type"])) {
            ("tool", _) => steps.push(Step::Result(text(&item["tool_call_id"]))),
            // Responses.
            (_, "function_call") => steps.push(Step::Call(text(&item["call_id"]))),
            (_, "function_call_output") => steps.push(Step::Result(text(&item["call_id"]))),
            ("user", _) if !item["content"].is_array() => steps.push(Step::User),
            _ => {}
        }
    }
    steps
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A conversation with these calls and results, in each format.
    fn conversations(calls: &[&str], results: &[&str]) -> [Value; 3] {
        let chat_calls: Vec<_> = calls.iter().map(|id| json!({ "id": id, "type": "function" })).collect();
        let mut chat = vec![json!({ "role": "user", "content": "a" })];
        chat.push(json!({ "role": "assistant", "tool_calls": chat_calls }));
        chat.extend(results.iter().map(|id| json!({ "role": "tool", "tool_call_id": id })));
        let mut input = vec![json!({ "type": "message", "role": "user", "content": [] })];
        input.extend(calls.iter().map(|id| json!({ "type": "function_call", "call_id": id })));
        input.extend(results.iter().map(|id| json!({ "type": "function_call_output", "call_id": id })));
        let uses: Vec<_> = calls.iter().map(|id| json!({ "type": "tool_use", "id": id })).collect();
        let told: Vec<_> = results.iter().map(|id| json!({ "type": "tool_result", "tool_use_id": id })).collect();
        let messages = json!([{ "role": "assistant", "content": uses }, { "role": "user", "content": told }]);
        [json!({ "messages": chat }), json!({ "input": input }), json!({ "messages": messages })]
    }

    #[test]
    fn calls_and_results_belong_together_in_every_format() {
        let check = |calls: &[&str], results: &[&str], expected: Option<&str>| {
            for body in conversations(calls, results) {
                assert_eq!(mismatch(&body).as_deref(), expected, "{body}");
            }
        };
        check(&[], &[], None);
        check(&["a", "b"], &["b", "a"], None);
        check(&["a", "b"], &["a"], Some("the call \"b\" has no result"));
        check(&["a"], &["a", "b"], Some("the result \"b\" has no call before it"));
        check(&["a", "a"], &["a"], Some("two calls have the id \"a\""));
        check(&[""], &[""], Some("a call has no id"));
        let asked = json!({ "messages": [{ "tool_calls": [{ "id": "a" }] }, { "role": "user", "content": "b" }] });
        assert_eq!(mismatch(&asked).as_deref(), Some("the call \"a\" has no result"));
    }
}
