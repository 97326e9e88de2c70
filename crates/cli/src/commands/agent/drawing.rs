//! Draws what happens in a run: the answer on standard output as it comes, calls on standard error, nested ones under the line of the
//! program that made them.

use std::collections::{HashMap, HashSet};
use std::io::{self, IsTerminal, Write};

use pincer_agent::{AgentEvent, Stream};
use pincer_catalog::shortened;
use serde_json::Value;

use crate::print::{harmless, note};

/// Of an input, what tells calls apart.
const MOST_INPUT: usize = 80;
/// Of a program's line.
const MOST_LINE: usize = 100;
/// Of a result, if all of it is wanted.
const MOST_RESULT: usize = 4000;

/// Draws one run.
pub(crate) struct Drawing {
    is_wanted: bool,
    /// Something of the answer is on standard output.
    has_shown: bool,
    /// The answer's last line has not ended.
    is_in_line: bool,
    /// The lines of programs, by the call that runs them.
    programs: HashMap<String, Vec<String>>,
    /// The line of a program whose calls were drawn last.
    last_line: Option<(String, u64)>,
    /// The calls that were drawn.
    drawn: HashSet<String>,
    results: Results,
    is_traced: bool,
}

/// How much is drawn of results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Results {
    Errors,
    InALine,
    InFull,
}

impl Drawing {
    pub(crate) fn new(is_wanted: bool) -> Self {
        Self {
            is_wanted,
            has_shown: false,
            is_in_line: false,
            programs: HashMap::new(),
            last_line: None,
            drawn: HashSet::new(),
            results: Results::Errors,
            is_traced: false,
        }
    }

    /// Returns whether the run is to tell how its answer was made.
    pub(crate) fn is_traced(&self) -> bool {
        self.is_traced
    }

    /// Returns whether the answer is on standard output already.
    pub(crate) fn has_shown(&self) -> bool {
        self.has_shown
    }

    /// Leaves the terminal to something else.
    pub(crate) fn rest(&mut self) {
        if std::mem::take(&mut self.is_in_line) {
            put("\n");
        }
    }

    pub(crate) fn event(&mut self, event: &AgentEvent) {
        if !self.is_wanted {
            return;
        }
        match event.stream {
            Stream::Assistant => self.text(event),
            Stream::Tool => self.call(event),
            Stream::Lifecycle => self.lifecycle(event),
            Stream::Compaction => self.compaction(event),
            Stream::Thinking | Stream::Approval | Stream::CommandOutput | Stream::Block => {}
        }
    }

    fn text(&mut self, event: &AgentEvent) {
        let delta = event.text("delta");
        // A reply that is void, or told again as a whole, has been drawn in part. The next text begins on a new line, as every reply does.
        let is_replaced = event.data.get("replace").and_then(Value::as_bool) == Some(true);
        if is_replaced && delta.is_empty() {
            let is_cut = self.is_in_line;
            self.rest();
            match event.text("reason") {
                "broken-off" if is_cut => note("(the reply broke off, and the model is asked again)"),
                "revised" => note("(a hook has the model revise its answer: the reply so far does not count)"),
                _ => {}
            }
        } else if is_replaced || delta == event.text("text") {
            self.rest();
        }
        if delta.is_empty() {
            return;
        }
        put(delta);
        (self.has_shown, self.is_in_line) = (true, !delta.ends_with('\n'));
    }

    fn compaction(&mut self, event: &AgentEvent) {
        self.rest();
        let is_done = event.data.get("completed").and_then(Value::as_bool) == Some(true);
        match (event.phase(), event.text("reason")) {
            ("start", _) => note(match event.text("trigger") {
                "manual" => "(as you asked, the older part of the conversation gives way to a summary)",
                "overflow" => "(the conversation was too long for the model: its older part gives way to a summary)",
                _ => "(the conversation is long: its older part gives way to a summary)",
            }),
            ("end", "") => {}
            ("end", reason) if is_done => note(&format!("(no model wrote the summary: {reason})")),
            ("end", reason) => note(&format!("(the conversation stays as it is: {reason})")),
            _ => {}
        }
    }

    fn lifecycle(&mut self, event: &AgentEvent) {
        match event.phase() {
            "start" => {
                self.results = match event.text("verbose") {
                    "full" => Results::InFull,
                    "on" => Results::InALine,
                    _ => Results::Errors,
                };
                self.is_traced = event.data.get("trace").and_then(Value::as_bool) == Some(true);
            }
            "end" | "error" => self.rest(),
            "taken-over" => {
                self.rest();
                note("(the process that worked on this is gone: it goes on here)");
            }
            _ => {}
        }
    }

    fn call(&mut self, event: &AgentEvent) {
        let (id, name) = (event.text("toolCallId"), event.text("name"));
        match (event.phase(), event.data.get("parentToolCallId").and_then(Value::as_str)) {
            // A run that goes on after a wait begins its open calls again.
            ("start", None) if !self.drawn.insert(id.to_owned()) => {}
            ("start", None) => {
                self.rest();
                let code = event.data.get("args").and_then(|args| args.get("code")).and_then(Value::as_str);
                match code.filter(|_| name == "exec") {
                    Some(code) => {
                        let lines: Vec<String> = code.lines().map(str::to_owned).collect();
                        note(&format!("▸ exec, {} lines", lines.len()));
                        self.programs.insert(id.to_owned(), lines);
                    }
                    None => note(&format!("▸ {name} {}", input(event))),
                }
            }
            ("result", None) => {
                let is_error = event.data.get("isError").and_then(Value::as_bool) == Some(true);
                let told = event.data.get("result").map(first_text).unwrap_or_default();
                self.result(if is_error { "✗" } else { "✓" }, name, &told, is_error);
            }
            ("start", Some(parent)) => self.at_line(parent, event.data.get("line").and_then(Value::as_u64)),
            ("result", Some(parent)) => {
                self.at_line(parent, event.data.get("line").and_then(Value::as_u64));
                let took = event.data.get("durationMs").and_then(Value::as_u64).unwrap_or(0);
                let is_error = event.data.get("isError").and_then(Value::as_bool) == Some(true);
                let mark = if is_error { "✗" } else { "✓" };
                let told = match event.data.get("result").and_then(Value::as_str).filter(|_| is_error) {
                    Some(error) => format!("  {}", shortened(error, MOST_INPUT)),
                    None => String::new(),
                };
                note(&format!("      {mark} {name}  {took} ms{told}"));
            }
            _ => {}
        }
    }

    /// Draws the result of a call, as much of it as is wanted.
    fn result(&mut self, mark: &str, name: &str, told: &str, is_error: bool) {
        match self.results {
            Results::Errors if !is_error => {}
            Results::Errors | Results::InALine => {
                self.rest();
                note(&format!("{mark} {name}: {}", shortened(&told.replace('\n', " "), MOST_INPUT)));
            }
            Results::InFull => {
                self.rest();
                note(&format!("{mark} {name}:"));
                shortened(told, MOST_RESULT).lines().for_each(|line| note(&format!("    {line}")));
            }
        }
    }

    /// Draws the line of a program that makes calls, once.
    fn at_line(&mut self, parent: &str, line: Option<u64>) {
        let Some(line) = line else { return };
        let at = (parent.to_owned(), line);
        if self.last_line.as_ref() == Some(&at) {
            return;
        }
        self.rest();
        let index = usize::try_from(line).unwrap_or(usize::MAX).saturating_sub(1);
        let text = self.programs.get(parent).and_then(|lines| lines.get(index)).map_or("", |line| line.trim());
        note(&format!("  {line:>3} | {}", shortened(text, MOST_LINE)));
        self.last_line = Some(at);
    }
}

fn input(event: &AgentEvent) -> String {
    let args = event.data.get("args").map(ToString::to_string).unwrap_or_default();
    shortened(&args, MOST_INPUT)
}

fn first_text(result: &Value) -> String {
    let text = result["content"][0]["text"].as_str();
    text.map_or_else(|| result.to_string(), str::to_owned)
}

/// Writes to standard output as it comes.
fn put(text: &str) {
    let stdout = io::stdout();
    let text = if stdout.is_terminal() { harmless(text) } else { text.to_owned() };
    let mut stdout = stdout.lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}
