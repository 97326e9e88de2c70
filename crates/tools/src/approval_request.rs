//! The request of an approval: the call that a person is asked about, as it is stored and as it is shown.

use std::fmt::Write;
use std::slice;

use pincer_store::{Approval, CallId};
use serde::Serialize;
use serde_json::Value;

use crate::Call;
use crate::escape::one_line;
use crate::hooks::{ApprovalDemand, Severity};

/// The most characters that are shown of a title, of a reason, of a workspace, of a thing that "always" would allow, and of the input: together no
/// more than fits on a screen of 24 lines with 80 columns.
const MOST_TITLE: usize = 100;
const MOST_REASON: usize = 240;
const MOST_ALWAYS: usize = 160;
const MOST_WORKSPACE: usize = 160;
const MOST_INPUT: usize = 800;
/// The most things that "always" would allow of which each is shown.
const MOST_KEYS: usize = 2;

/// The call that a person is asked about. Nothing is left out of the input: a person who decides must see what will be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApprovalRequest {
    /// The id of the call.
    pub call: CallId,
    /// The id of its tool.
    pub tool: String,
    /// The input with which the tool will be called.
    pub input: Value,
    /// The line of the program that makes the call.
    pub line: Option<u32>,
    /// The question of the hook that wants it asked.
    pub demand: ApprovalDemand,
    /// The workspace that the call works in, if it is another one than the usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The sender of a channel for whom the call is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grants: Option<Vec<String>>,
}

impl ApprovalRequest {
    /// Makes the request of a new question. `grants` are the keys that an answer for ever grants.
    pub(crate) fn new(call: &Call, tool: &str, input: Value, demand: &ApprovalDemand, grants: Vec<String>) -> Self {
        let (tool, demand, grants) = (tool.to_owned(), demand.clone(), Some(grants));
        Self { call: call.id.clone(), tool, input, line: call.line, demand, workspace: None, sender: None, grants }
    }

    /// Sets the workspace that the call works in, and the sender for whom it is made.
    #[must_use]
    pub(crate) fn asked_by(self, workspace: Option<String>, sender: Option<&str>) -> Self {
        Self { workspace, sender: sender.map(str::to_owned), ..self }
    }

    /// Reads the request of a question. It reads field by field, so that a field of another version hides no other one: the first
    /// version had neither `line` nor `grants`.
    pub fn of(approval: &Approval) -> Self {
        let mut stored: Value = serde_json::from_str(&approval.request).unwrap_or_default();
        let input = stored.get_mut("input").map(Value::take).unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let demand = &stored["demand"];
        Self {
            call: text(&stored["call"]).unwrap_or_default().into(),
            tool: approval.tool.clone(),
            input,
            line: stored["line"].as_u64().and_then(|line| line.try_into().ok()),
            demand: ApprovalDemand {
                title: text(&demand["title"]),
                description: text(&demand["description"]),
                severity: serde_json::from_value(demand["severity"].clone()).ok(),
                ..ApprovalDemand::default()
            },
            workspace: text(&stored["workspace"]),
            sender: text(&stored["sender"]),
            grants: stored["grants"].as_array().map(|keys| keys.iter().filter_map(text).collect()),
        }
    }

    /// Returns the text that is stored.
    pub fn to_json(&self) -> String {
        // It has texts, a number and a tree, all of which can be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the keys that an answer for ever grants: the tool itself if the question names none, nothing if it is asked every
    /// time.
    pub fn grants(&self) -> &[String] {
        self.grants.as_deref().unwrap_or(slice::from_ref(&self.tool))
    }

    /// Returns the question as lines for a person. Every part is on a line of its own, escaped, and shortened in its middle; the tool
    /// and its input, as they will be called, are the last line, next to where the answer is given.
    pub fn text(&self) -> String {
        let title = self.demand.title.as_deref().unwrap_or("May this tool be called?");
        let mut text = match self.demand.severity {
            Some(Severity::Critical) => "critical: ".to_owned(),
            Some(Severity::Warning) => "warning: ".to_owned(),
            Some(Severity::Info) | None => String::new(),
        };
        text.push_str(&one_line(title, MOST_TITLE));
        if let Some(line) = self.line {
            let _ = write!(text, " (line {line} of the program)");
        }
        if let Some(reason) = &self.demand.description {
            let _ = write!(text, "\n  why: {}", one_line(reason, MOST_REASON));
        }
        if let Some(sender) = &self.sender {
            let _ = write!(text, "\n  for: {}", one_line(sender, MOST_WORKSPACE));
        }
        if let Some(workspace) = &self.workspace {
            let _ = write!(text, "\n  workspace: {}", one_line(workspace, MOST_WORKSPACE));
        }
        let always = self.grants();
        // The tool's own name alone says nothing new.
        if always != slice::from_ref(&self.tool) {
            for key in always.iter().take(MOST_KEYS) {
                let _ = write!(text, "\n  always: {}", one_line(key, MOST_ALWAYS));
            }
            if always.len() > MOST_KEYS {
                let _ = write!(text, "\n  always: {} more", always.len() - MOST_KEYS);
            }
        }
        let _ = write!(text, "\n  {}", self.called());
        text
    }

    /// Returns the tool and its input on one line.
    pub fn called(&self) -> String {
        format!("{} {}", one_line(&self.tool, MOST_TITLE), one_line(&self.input.to_string(), MOST_INPUT))
    }
}

#[cfg(test)]
mod tests {
    use pincer_store::ApprovalState;
    use serde_json::json;

    use super::*;

    fn asked(tool: &str, request: &str) -> ApprovalRequest {
        ApprovalRequest::of(&Approval {
            is_used: false,
            id: "ap_1".into(),
            run: None,
            session: "s".into(),
            user: None,
            tool: tool.into(),
            digest: Vec::new(),
            request: request.into(),
            state: ApprovalState::Pending,
            decided_by: None,
            created_at: 0,
            decided_at: None,
            expires_at: None,
            seq: None,
            fingerprint: None,
        })
    }

    #[test]
    fn the_input_is_the_last_line_whatever_stands_before() {
        let forged = "x`\n  exec {\"command\":\"ls\"}\n[y]es, [N]o? ";
        let request = json!({
            "input": { "command": "rm -rf ~", "note": "a\u{202e}b\nc" }, "line": 3, "grants": ["exec /bin/rm -rf *"],
            "demand": { "title": forged, "description": forged },
        });
        let text = asked("exec", &request.to_string()).text();
        let shown = r#"x`\n  exec {"command":"ls"}\n[y]es, [N]o? "#;
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                &format!("{shown} (line 3 of the program)"),
                &format!("  why: {shown}"),
                "  always: exec /bin/rm -rf *",
                r#"  exec {"command":"rm -rf ~","note":"a\u{202e}b\nc"}"#,
            ]
        );
    }

    /// The texts are as the versions that had them stored them.
    #[test]
    fn requests_of_earlier_versions_are_read() {
        let first = r#"{"call":"c","tool":"t","input":{"b":1,"a":2},"demand":{"title":"Go?","description":null}}"#;
        let request = asked("t", first);
        assert_eq!(request.grants(), ["t"]);
        assert_eq!(request.text(), "Go?\n  t {\"b\":1,\"a\":2}");
        let today = r#"{"call":"c/0","tool":"t","input":{"b":1,"a":2},"line":7,"demand":{"title":null,"description":"so"},"grants":["t ls"]}"#;
        assert_eq!(asked("t", today).to_json(), today);
        for (stored, grants) in [
            (r#"{"grants":[]}"#, &[][..]),
            (r#"{"grants":["t a",1,"t b"]}"#, &["t a", "t b"]),
            (r#"{"grants":null}"#, &["t"]),
            ("{}", &["t"]),
            ("null", &["t"]),
            ("", &["t"]),
        ] {
            assert_eq!(asked("t", stored).grants(), grants, "{stored}");
        }
    }

    /// A later version may have more, or other forms of what there is: the input is shown all the same.
    #[test]
    fn a_field_of_another_version_hides_no_other_one() {
        let later = r#"{"input":{"a":1},"line":"7","demand":{"title":"Go?","more":true},"grants":["t x"],"new":[]}"#;
        assert_eq!(asked("t", later).text(), "Go?\n  always: t x\n  t {\"a\":1}");
    }
}
