//! The trail of calls that belong to no program: who called what, with which input, and what came of it. Calls of programs are in
//! the journal.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use pincer_store::CallId;
use pincer_tools::{Event, EventKind, EventSink};
use serde_json::{Value, json};

use crate::notice::{Notice, Observer};

/// A trail that is larger begins anew; the one before is kept.
const MOST_BYTES: u64 = 50 << 20;

/// Writes a line for each call that has ended.
pub(crate) struct Audit {
    file: PathBuf,
    open: Mutex<Open>,
    observer: Observer,
}

#[derive(Default)]
struct Open {
    file: Option<File>,
    /// Inputs of calls that have not ended, redacted.
    inputs: std::collections::HashMap<CallId, Value>,
    complained: bool,
}

impl Audit {
    /// Begins a trail in the folder for logs of the state directory.
    pub(crate) fn new(state: &Path, observer: Observer) -> Self {
        Self { file: state.join("logs").join("calls.jsonl"), open: Mutex::default(), observer }
    }

    fn write(&self, open: &mut Open, line: &Value) {
        let written = self.opened(open).and_then(|()| match &mut open.file {
            Some(file) => file.write_all(format!("{line}\n").as_bytes()),
            None => Ok(()),
        });
        if let Err(source) = written {
            open.file = None;
            // Once is enough.
            if !std::mem::replace(&mut open.complained, true) {
                self.observer.tell(Notice::AuditTrail { file: self.file.clone(), source });
            }
        }
    }

    fn opened(&self, open: &mut Open) -> std::io::Result<()> {
        let large = |file: &File| file.metadata().is_ok_and(|about| about.len() > MOST_BYTES);
        if open.file.as_ref().is_some_and(|file| !large(file)) {
            return Ok(());
        }
        if let Some(folder) = self.file.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        if std::fs::metadata(&self.file).is_ok_and(|about| about.len() > MOST_BYTES) {
            std::fs::rename(&self.file, self.file.with_extension("jsonl.1"))?;
        }
        open.file = Some(OpenOptions::new().create(true).append(true).mode(0o600).open(&self.file)?);
        Ok(())
    }
}

impl EventSink for Audit {
    fn event(&self, event: &Event) {
        if event.run.is_none() {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            match &event.what {
                EventKind::Start { input } => drop(open.inputs.insert(event.call.clone(), input.clone())),
                EventKind::End { error, effect, duration_ms, .. } => {
                    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
                    let line = json!({
                        "at": at, "call": event.call, "user": event.sender, "session": event.session, "tool": event.tool,
                        "input": open.inputs.remove(&event.call), "ms": duration_ms, "effect": effect,
                        "error": error.as_ref().map(|error| json!({ "code": error.code, "message": error.message })),
                    });
                    self.write(&mut open, &line);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use pincer_tools::Effect;

    use super::*;

    #[test]
    fn each_call_that_ends_leaves_a_line() {
        let state = tempfile::tempdir().unwrap();
        let audit = Audit::new(state.path(), Observer::default());
        let event = |run: Option<&str>, what| Event {
            call: "call_1".into(),
            parent: None,
            tool: "mcp:files:read".into(),
            session: "main".into(),
            sender: Some("token:alice".into()),
            agent_run: None,
            line: None,
            seq: None,
            run: run.map(Into::into),
            what,
        };
        let ends = || EventKind::End { output: None, error: None, effect: Effect::Done, duration_ms: 3 };
        audit.event(&event(None, EventKind::Start { input: json!({ "path": "a" }) }));
        audit.event(&event(None, ends()));
        audit.event(&event(Some("cm_1"), ends()));
        let file = state.path().join("logs/calls.jsonl");
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [line] = &lines[..] else { panic!("{text}") };
        assert_eq!(
            (&line["user"], &line["tool"], &line["input"]["path"], &line["effect"]),
            (&json!("token:alice"), &json!("mcp:files:read"), &json!("a"), &json!("done"))
        );
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
