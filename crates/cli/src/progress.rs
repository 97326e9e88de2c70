//! What a program's calls do, while they do it: a line for each on the terminal.

use std::collections::HashMap;
use std::io::{IsTerminal, stderr};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use pincer_catalog::shortened;
use pincer_store::CallId;
use pincer_tools::{Event, EventKind};

use crate::print::{harmless, time};

/// Lines at a time; of more calls only the first are shown while they run.
const MOST_LINES: usize = 12;

/// Of an input, what tells calls apart.
const MOST_INPUT: usize = 60;

/// The lines. Nothing is shown where nobody looks.
pub(crate) struct Progress {
    lines: Option<MultiProgress>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Each with what it is called.
    running: HashMap<CallId, (ProgressBar, String)>,
    finished: usize,
    hidden: usize,
}

impl Progress {
    /// On a terminal, if it is wanted.
    pub(crate) fn new(wanted: bool) -> Self {
        let lines = (wanted && stderr().is_terminal()).then(MultiProgress::new);
        Self { lines, state: Mutex::default() }
    }

    /// Shows what has happened to a call.
    pub(crate) fn event(&self, event: &Event) {
        let Some(lines) = &self.lines else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let name = harmless(&event.tool);
        match &event.what {
            EventKind::Start { .. } if state.running.len() + state.finished.min(MOST_LINES) >= MOST_LINES => {
                state.hidden += 1;
            }
            EventKind::Start { input } => {
                let bar = lines.add(ProgressBar::new_spinner().with_style(style("{spinner} {msg}  {elapsed}")));
                let name = format!("{name} {}", shortened(&harmless(&input.to_string()), MOST_INPUT));
                bar.set_message(format!("{name}  running"));
                animate(&bar);
                state.running.insert(event.call.clone(), (bar, name));
            }
            EventKind::ApprovalRequested { .. } => {
                if let Some((bar, name)) = state.running.get(&event.call) {
                    bar.set_message(format!("{name}  waits for an approval"));
                }
            }
            EventKind::ApprovalResolved { state: resolved, .. } => {
                if let Some((bar, name)) = state.running.get(&event.call) {
                    let now = if *resolved == "allowed" { "running" } else { resolved };
                    bar.set_message(format!("{name}  {now}"));
                }
            }
            EventKind::Update { .. } => {}
            EventKind::End { error, duration_ms, .. } => {
                let Some((bar, name)) = state.running.remove(&event.call) else { return };
                state.finished += 1;
                let took = match duration_ms {
                    0 => "less than 1 ms".to_owned(),
                    ms => time(Duration::from_millis(*ms)),
                };
                let (mark, what) = match error {
                    None => ("✓", took),
                    Some(error) => ("✗", format!("{took}  {}", harmless(&error.message))),
                };
                bar.set_style(style("{msg}"));
                bar.finish_with_message(format!("{mark} {name}  {what}"));
            }
        }
    }

    /// Leaves the terminal to somebody else, until `resume`.
    pub(crate) fn pause(&self) {
        if let Some(lines) = &self.lines {
            let _ = lines.clear();
            lines.set_draw_target(ProgressDrawTarget::hidden());
        }
    }

    /// Goes on where it was.
    pub(crate) fn resume(&self) {
        if let Some(lines) = &self.lines {
            lines.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Nothing more comes. Lines of calls that have ended stay.
    pub(crate) fn end(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (bar, _) in state.running.values() {
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

/// A line that shows that something is waited for, on a terminal.
pub(crate) fn waiting(what: &'static str) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_style(style("{spinner} {msg}  {elapsed}")).with_message(what);
    animate(&bar);
    bar
}

/// Moves a spinner until its line is finished. indicatif's own way panics if there is no thread for it; here the spinner stands
/// still then.
fn animate(bar: &ProgressBar) {
    let bar = bar.downgrade();
    let _ = thread::Builder::new().spawn(move || {
        while let Some(bar) = bar.upgrade().filter(|bar| !bar.is_finished()) {
            bar.tick();
            drop(bar);
            thread::sleep(Duration::from_millis(100));
        }
    });
}
