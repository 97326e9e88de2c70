//! What a program's calls do, while they do it: a line for each on the terminal.

use std::collections::HashMap;
use std::io::{IsTerminal, stderr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use pincer_tools::{Event, EventKind};

use crate::print::{harmless, time};

/// Lines at a time; of more calls only the first are shown while they run.
const MOST_LINES: usize = 12;

/// The lines. Nothing is shown where nobody looks.
pub(crate) struct Progress {
    lines: Option<MultiProgress>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: HashMap<String, ProgressBar>,
    finished: usize,
    hidden: usize,
}

impl Progress {
    /// On a terminal, if it is wanted.
    pub fn new(wanted: bool) -> Self {
        let lines = (wanted && stderr().is_terminal()).then(MultiProgress::new);
        Self { lines, state: Mutex::default() }
    }

    /// Shows what has happened to a call.
    pub fn event(&self, event: &Event) {
        let Some(lines) = &self.lines else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let name = harmless(&event.tool);
        match &event.what {
            EventKind::Start { .. } if state.running.len() + state.finished.min(MOST_LINES) >= MOST_LINES => {
                state.hidden += 1;
            }
            EventKind::Start { .. } => {
                let bar = lines.add(ProgressBar::new_spinner().with_style(style("{spinner} {msg}  {elapsed}")));
                bar.set_message(format!("{name}  running"));
                bar.enable_steady_tick(Duration::from_millis(100));
                state.running.insert(event.call.clone(), bar);
            }
            EventKind::ApprovalRequested { .. } => {
                if let Some(bar) = state.running.get(&event.call) {
                    bar.set_message(format!("{name}  waits for an approval"));
                }
            }
            EventKind::ApprovalResolved { state: resolved, .. } => {
                if let Some(bar) = state.running.get(&event.call) {
                    bar.set_message(format!("{name}  {resolved}, running"));
                }
            }
            EventKind::Update { .. } => {}
            EventKind::End { error, duration_ms, .. } => {
                let Some(bar) = state.running.remove(&event.call) else { return };
                state.finished += 1;
                let took = time(Duration::from_millis(*duration_ms));
                let (mark, what) = match error {
                    None => ("✓", took),
                    Some(error) => ("✗", format!("{took}  {}", harmless(&error.message))),
                };
                bar.set_style(style("{msg}"));
                bar.finish_with_message(format!("{mark} {name}  {what}"));
            }
        }
    }

    /// Does something with the terminal to itself.
    pub fn pause(&self) {
        if let Some(lines) = &self.lines {
            let _ = lines.clear();
        }
    }

    /// Nothing more comes. Lines of calls that have ended stay.
    pub fn end(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for bar in state.running.values() {
            bar.finish_and_clear();
        }
        if let (Some(lines), true) = (&self.lines, state.hidden > 0) {
            let _ = lines.println(format!("  … and {} more calls", state.hidden));
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
