//! What a run took, for each result, and what all of them took together. Never what they were given: no inputs, no secrets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pincer_catalog::{Catalog, Source};
use serde::{Deserialize, Serialize};

use crate::settings::Durability;

/// What a run took so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Telemetry {
    /// The tools the model sees.
    pub visible_tools: Vec<String>,
    /// Tools in the hidden catalog.
    pub catalog_size: usize,
    /// The same, by source.
    pub sources: Sources,
    /// Calls of `exec` in this run.
    pub exec_count: u32,
    /// Calls of `wait` in this run.
    pub wait_count: u32,
    /// Nested searches.
    pub search_count: u32,
    /// Nested describes.
    pub describe_count: u32,
    /// Nested calls.
    pub call_count: u32,
    /// Ids of the tools that were called, each once, in the order of their first call.
    pub nested_tool_ids: Vec<String>,
    /// How often the program was suspended.
    pub park_count: u32,
    /// How often the running program was stored before a call that may change something.
    #[serde(default)]
    pub checkpoint_count: u32,
    /// The durability of the program now. `parked` although the config says more: it has grown beyond `maxSnapshotBytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// Size of the last stored snapshot.
    pub snapshot_bytes: usize,
    /// Limits that were hit.
    pub cap_failures: CapFailures,
    /// Where the time went.
    pub ms: Milliseconds,
}

/// Tool ids that telemetry lists at most: a program can call tools for ever.
const MOST_IDS: usize = 100;

impl Telemetry {
    pub(crate) fn called(&mut self, tool: &str) {
        self.call_count += 1;
        if self.nested_tool_ids.len() < MOST_IDS && !self.nested_tool_ids.iter().any(|id| id == tool) {
            self.nested_tool_ids.push(tool.to_owned());
        }
    }
}

/// Catalog entries by source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {
    /// Built in.
    pub openclaw: usize,
    /// From plugins.
    pub plugin: usize,
    /// From MCP servers.
    pub mcp: usize,
    /// From the client of this run.
    pub client: usize,
}

impl From<&Catalog> for Sources {
    fn from(catalog: &Catalog) -> Self {
        Self {
            openclaw: catalog.count(Source::Openclaw),
            plugin: catalog.count(Source::Plugin),
            mcp: catalog.count(Source::Mcp),
            client: catalog.count(Source::Client),
        }
    }
}

/// How often which limit was hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapFailures {
    /// Deadlines.
    pub timeout: u32,
    /// Memory caps.
    pub memory: u32,
    /// Output caps.
    pub output: u32,
    /// Snapshot caps.
    pub snapshot: u32,
}

/// Milliseconds spent, to the microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Milliseconds {
    /// Running the program.
    pub guest: f64,
    /// Waiting for what it asked for.
    pub nested: f64,
    /// Stored.
    pub parked: f64,
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    (time.as_micros() as f64) / 1000.0
}

/// What all runs of a process took together.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    execs: AtomicU64,
    waits: AtomicU64,
    searches: AtomicU64,
    describes: AtomicU64,
    calls: AtomicU64,
    parks: AtomicU64,
    restores: AtomicU64,
    expired: AtomicU64,
    aborted: AtomicU64,
    timeout_caps: AtomicU64,
    memory_caps: AtomicU64,
    output_caps: AtomicU64,
    snapshot_caps: AtomicU64,
}

/// What all runs of a process took together, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counters {
    /// Calls of `exec`.
    pub execs: u64,
    /// Calls of `wait`.
    pub waits: u64,
    /// Nested searches.
    pub searches: u64,
    /// Nested describes.
    pub describes: u64,
    /// Nested calls.
    pub calls: u64,
    /// Programs suspended.
    pub parks: u64,
    /// Programs continued.
    pub restores: u64,
    /// Programs that waited for too long.
    pub expired: u64,
    /// Programs cancelled.
    pub aborted: u64,
    /// Limits that were hit.
    pub cap_failures: CapFailures,
}

/// Something that is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    Exec,
    Wait,
    Search,
    Describe,
    Call,
    Park,
    Restore,
    Expired,
    Aborted,
}

impl Counting {
    pub(crate) fn add(&self, what: Counted, count: usize) {
        let counter = match what {
            Counted::Exec => &self.execs,
            Counted::Wait => &self.waits,
            Counted::Search => &self.searches,
            Counted::Describe => &self.describes,
            Counted::Call => &self.calls,
            Counted::Park => &self.parks,
            Counted::Restore => &self.restores,
            Counted::Expired => &self.expired,
            Counted::Aborted => &self.aborted,
        };
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_caps(&self, caps: CapFailures) {
        let CapFailures { timeout, memory, output, snapshot } = caps;
        for (counter, count) in [
            (&self.timeout_caps, timeout),
            (&self.memory_caps, memory),
            (&self.output_caps, output),
            (&self.snapshot_caps, snapshot),
        ] {
            counter.fetch_add(count.into(), Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Counters {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let cap = |counter: &AtomicU64| u32::try_from(of(counter)).unwrap_or(u32::MAX);
        Counters {
            execs: of(&self.execs),
            waits: of(&self.waits),
            searches: of(&self.searches),
            describes: of(&self.describes),
            calls: of(&self.calls),
            parks: of(&self.parks),
            restores: of(&self.restores),
            expired: of(&self.expired),
            aborted: of(&self.aborted),
            cap_failures: CapFailures {
                timeout: cap(&self.timeout_caps),
                memory: cap(&self.memory_caps),
                output: cap(&self.output_caps),
                snapshot: cap(&self.snapshot_caps),
            },
        }
    }
}
