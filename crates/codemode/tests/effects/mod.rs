//! Tools whose effects are lines in a file, and programs that say what they were told of each.
#![allow(dead_code, reason = "each test file uses its own part of this")]

pub(crate) mod process;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::{Catalog, Flags, Policy};
use pincer_codemode::{CodeMode, CodeModeStore, RunScope, RunTools, Settings};
use pincer_store::{Call, ClientCalls, Grants, Repeat, RunId};
use pincer_store_sqlite::FileLeases;
use pincer_tools::{ApprovalRule, Context, Door, FnTool, Matcher, RuleDecision, Tool, ToolCall, ToolError};
use serde_json::{Value, json};

use crate::common::{LIVE_CELLS, engine, entry};

/// The beginning of every program of these tests. A call has a label, which is made of a counter that lives in the program: the
/// same state of the program, continued twice, shows as the same label twice. The nonce is drawn once: a program that was begun
/// again shows as another nonce. `seen` is what the program was told of each call.
pub(crate) const PRELUDE: &str = r#"
const seen = {}; const nonce = Math.random().toString(36).slice(2); let next = 0;
const call = async (tool, ms, more) => {
  const label = `${program}-${next++}`;
  try {
    const input = { label, nonce, ms, now: Date.now(), random: Math.random(), ...more };
    const value = await tools[tool](input);
    seen[label] = 'ok';
    return value;
  } catch (error) {
    seen[label] = error.effect ?? String(error);
    return { label, effect: error.effect };
  }
};
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
"#;

/// An effect that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    /// `mark`, `ask`, `again` (may be repeated) or `look` (changes nothing).
    pub tool: String,
    pub run: RunId,
    pub label: String,
    pub nonce: String,
    pub process: u32,
    /// The proof that the process had.
    pub fence: i64,
}

/// A directory with a store, and a file of effects.
#[derive(Clone, Debug)]
pub(crate) struct Site(pub PathBuf);

impl Site {
    pub(crate) fn new(directory: &Path) -> Self {
        Self(directory.to_owned())
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.0.join("pincer.db")
    }

    pub(crate) fn leases(&self) -> FileLeases {
        FileLeases::new(self.0.join("owners"))
    }

    /// Writes one line, at once and by the system itself: it is there when the process is killed right after.
    pub(crate) fn note(&self, file: &str, line: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(self.0.join(file)).expect(file);
        file.write_all(format!("{line}\n").as_bytes()).expect("a line");
    }

    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        fs::read_to_string(self.0.join(file)).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    pub(crate) fn effects(&self) -> Vec<Effect> {
        let read = |line: &String| {
            let parts: Vec<&str> = line.split(' ').collect();
            let [tool, run, label, nonce, process, fence] = parts[..] else { panic!("{line}") };
            Effect {
                tool: tool.into(),
                run: run.into(),
                label: label.into(),
                nonce: nonce.into(),
                process: process.parse().expect("a process"),
                fence: fence.parse().expect("a fence"),
            }
        };
        self.lines("effects").iter().map(read).collect()
    }

    /// Waits before the effect and after it, for as long as the program says.
    fn tool(&self, name: &'static str) -> Arc<dyn Tool> {
        let place = self.clone();
        Arc::new(FnTool(move |call: ToolCall| {
            let place = place.clone();
            async move {
                let text = |key: &str| call.input[key].as_str().unwrap_or("-").to_owned();
                let pause = Duration::from_micros((call.input["ms"].as_f64().unwrap_or_default() * 500.0) as u64);
                let run = call.context.run.clone();
                let (id, fence) = match &run {
                    Some(run) => (run.id().as_str(), run.proof().await.0),
                    None => ("-", 0),
                };
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                let line = format!("{name} {id} {} {} {} {fence}", text("label"), text("nonce"), std::process::id());
                place.note("effects", &line);
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                if call.input["fails"] == true {
                    return Err(ToolError::unknown("as the program wants"));
                }
                Ok::<Value, ToolError>(json!({ "label": text("label") }))
            }
        }))
    }

    /// Code mode on a store: `mark` changes something, `ask` too and a person is asked first, `again` may be repeated, `look`
    /// changes nothing.
    pub(crate) fn mode<S>(&self, store: &Arc<S>, leases: FileLeases) -> (CodeMode, Arc<Door>)
    where
        S: CodeModeStore + Grants + ClientCalls + 'static,
    {
        let (looks, again) =
            (Flags { read_only: true, ..Flags::default() }, Flags { idempotent: true, ..Flags::default() });
        let tools =
            [("mark", Flags::default()), ("ask", Flags::default()), ("again", again), ("look", looks)].into_iter();
        let builder = tools.fold(Door::builder(), |door, (name, flags)| {
            door.tool(entry(&format!("openclaw:core:{name}"), flags), self.tool(name)).expect(name)
        });
        let matcher = Matcher::parse("rules", &["openclaw:core:ask"]).expect("a matcher");
        let builder = builder.rule(ApprovalRule { matcher, decision: RuleDecision::Ask });
        let door = Arc::new(builder.build(store.clone()));
        let runs: Arc<dyn CodeModeStore> = store.clone();
        (CodeMode::new(engine().clone(), LIVE_CELLS, Arc::clone(&door), runs, Arc::new(leases)), door)
    }
}

pub(crate) fn scope(door: &Arc<Door>, settings: Settings) -> RunScope {
    let context = Context { session: "main".into(), ..Context::default() };
    let catalog = Catalog::new(door.entries()).expect("different ids");
    let tools = Arc::new(RunTools::new(door, &catalog, &Policy::open(), &context));
    RunScope::new(tools, settings, context).by("me")
}

/// Effects that happened more than once and may not.
pub(crate) fn repeated(effects: &[Effect]) -> Vec<Effect> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut repeated = Vec::new();
    for effect in effects.iter().filter(|effect| matches!(effect.tool.as_str(), "mark" | "ask")) {
        let count = counts.entry(&effect.label).or_default();
        *count += 1;
        if *count == 2 {
            repeated.push(effect.clone());
        }
    }
    repeated
}

/// Returns where the answers to a program differ from the journal of its run. `value` is what it returned.
pub(crate) fn unlike_journal(value: &Value, calls: &[Call]) -> Vec<String> {
    let labelled = |call: &Call, label: &str| {
        serde_json::from_str::<Value>(&call.input).is_ok_and(|input| input["label"] == *label)
    };
    let succeeded = |call: &&Call| {
        let outcome = call.outcome.as_deref().and_then(|outcome| serde_json::from_str::<Value>(outcome).ok());
        outcome.is_some_and(|outcome| outcome.get("ok").is_some())
    };
    let mut wrong = Vec::new();
    for (label, told) in value["seen"].as_object().into_iter().flatten() {
        // A call that changes nothing may be there twice: of a life that a crash ended, and of the one that went on.
        let of: Vec<&Call> = calls.iter().filter(|call| labelled(call, label)).collect();
        let looks = of.iter().all(|call| call.repeat == Repeat::Pure);
        let succeeded = of.iter().copied().any(|call| succeeded(&call));
        if succeeded != (told == "ok") && !(looks && succeeded) {
            wrong.push(format!("{label} was told as {told}, and the journal says {of:?}"));
        }
    }
    wrong
}

/// Returns where the answers to a program differ from the effects. `value` is what it returned.
pub(crate) fn untrue(value: &Value, effects: &[Effect]) -> Vec<String> {
    let happened = |label: &str| effects.iter().any(|effect| effect.label == *label);
    let changes = |effect: &&Effect| effect.tool != "look";
    let changed = |label: &str| effects.iter().filter(changes).any(|effect| effect.label == *label);
    let seen = value["seen"].as_object().into_iter().flatten();
    let wrong = seen.filter(|(label, told)| match told.as_str() {
        Some("ok" | "done") => !happened(label),
        Some("none") => changed(label),
        Some("unknown") => false,
        _ => true,
    });
    wrong.map(|(label, told)| format!("{label} was told as {told}, happened: {}", happened(label))).collect()
}
