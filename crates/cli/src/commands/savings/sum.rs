//! The figures of several runs, summed.

use pincer_agent::ToolTelemetry;
use pincer_store::{Millis, RunFigures};
use serde_json::{Value, json};

use crate::print::short;

/// The figures of several runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sum {
    /// The runs whose figures are known.
    pub runs: u32,
    /// The runs from before there were figures.
    pub unknown: u32,
    /// When the last of them ended, or began to wait.
    pub last: Millis,
    pub tools: ToolTelemetry,
}

/// Reads the figures of a run, if they are known.
pub(crate) fn figures(run: &RunFigures) -> Option<ToolTelemetry> {
    serde_json::from_str(run.figures.as_deref()?).ok()
}

impl Sum {
    /// Adds a run.
    pub(crate) fn add(&mut self, run: &RunFigures) {
        self.last = self.last.max(run.at);
        match figures(run) {
            Some(tools) => {
                self.runs += 1;
                self.tools.add(&tools);
            }
            None => self.unknown += 1,
        }
    }

    /// Returns the part of the tokens that was saved, in per cent, if there were any.
    pub(crate) fn saved_percent(&self) -> Option<f64> {
        let (saved, direct) = (self.tools.saved.tokens, self.tools.direct_sent.tokens);
        (direct > 0).then(|| (1000.0 * saved as f64 / direct as f64).round() / 10.0)
    }

    pub(crate) fn document(&self) -> Value {
        json!({ "runs": self.runs, "unknown": self.unknown, "savedPercent": self.saved_percent(), "tools": self.tools })
    }
}

/// Returns tokens that were sent, and those of direct exposure, in words.
pub(crate) fn compared(tools: &ToolTelemetry) -> String {
    let tokens = |count: u64| short(i64::try_from(count).unwrap_or(i64::MAX));
    let (sent, direct, saved) = (tokens(tools.sent.tokens), tokens(tools.direct_sent.tokens), tools.saved.tokens);
    match saved {
        0 => format!("{sent} tokens of tools and instructions, as with direct exposure"),
        1.. => format!("{sent} tokens of tools and instructions; directly {direct}: {} saved", short(saved)),
        _ => format!("{sent} tokens of tools and instructions; directly {direct}: {} more", short(-saved)),
    }
}
