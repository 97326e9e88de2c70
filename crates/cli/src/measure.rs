//! What the benchmarks have in common.
#![allow(clippy::print_stderr, reason = "progress of a measurement, for a person at a terminal")]

use std::fs;
use std::io::{IsTerminal, stderr};
use std::time::Duration;

pub(crate) use pincer_process::{peak_bytes_of, resident_bytes, resident_bytes_of};
use serde::{Deserialize, Serialize};

use crate::cells::Outcome;
use crate::print::{chain, line, note};
use crate::{DONE, FAILED};

/// The middle and the far end of some samples.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub p50: f64,
    pub p95: f64,
}

/// Sets the peak of a process to what it has in memory now.
pub(crate) fn forget_peak_of(pid: u32) -> std::io::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "5")
}

/// Runs a benchmark, prints its report, and returns the exit code.
pub(crate) fn reported<R: Serialize>(
    json: bool,
    measuring: impl Future<Output = Outcome<R>>,
    show: impl FnOnce(&R),
) -> u8 {
    let measured = crate::tokio_runtime::small().map_err(Into::into).and_then(|runtime| runtime.block_on(measuring));
    match measured {
        Ok(report) if json => line(&serde_json::to_string(&report).unwrap_or_default()),
        Ok(report) => show(&report),
        Err(error) => {
            note(&format!("error: the benchmark did not run: {}", chain(error.as_ref())));
            return FAILED;
        }
    }
    DONE
}

pub(crate) fn summary(mut samples: Vec<Duration>, unit: impl Fn(Duration) -> f64) -> Summary {
    samples.sort_unstable();
    let at = |index: usize| samples.get(index.min(samples.len().saturating_sub(1))).copied().unwrap_or_default();
    Summary { p50: unit(at(samples.len() / 2)), p95: unit(at(samples.len() * 95 / 100)) }
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

pub(crate) fn progress(step: &str) {
    if stderr().is_terminal() {
        let text = if step.is_empty() { String::new() } else { format!("measuring: {step} …") };
        eprint!("\r\x1b[K{text}");
    }
}
