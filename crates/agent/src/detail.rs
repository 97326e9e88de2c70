//! What the next worker of a run must know, beyond the transcript.

use std::collections::BTreeMap;

use pincer_codemode::Output;
use pincer_store::{ApprovalId, Millis, RunId};
use serde::{Deserialize, Serialize};

use crate::compaction::guard::Guard;
use crate::telemetry::ToolUse;

/// What the next worker of a run must know.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Detail {
    /// The questions that it waits for.
    pub approvals: Vec<ApprovalId>,
    /// The calls that its sender is to make.
    pub client_calls: Vec<String>,
    /// The programs that are suspended in it.
    pub programs: Vec<Parked>,
    /// The calls of its last reply, in their order, as their tools were when the reply was stored.
    pub calls: Vec<KnownCall>,
    /// Since when it waits.
    pub waiting_since: Option<Millis>,
    /// How long it has waited before.
    pub paused_ms: Millis,
    /// The texts that its messaging calls have sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<String>,
    /// The number of texts and thoughts of the model that its channel was told before its end.
    #[serde(skip_serializing_if = "is_zero")]
    pub told: usize,
    /// The revisions of its answer that hooks have asked for, by matter.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub revisions: BTreeMap<String, u32>,
    /// What it took up to now.
    pub spent: Spent,
    /// Its searches for tools, and the tools that it called.
    #[serde(skip_serializing_if = "ToolUse::is_none")]
    pub tools: ToolUse,
    /// The memory of the run about its compactions.
    #[serde(skip_serializing_if = "Guard::is_unused")]
    pub guard: Guard,
}

/// A call, as its tool was when its reply was stored. Another process may know the tool as another one, or not at all.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KnownCall {
    /// It is made after the calls before it.
    pub in_order: bool,
    /// It may be made again if it is not known whether it was made.
    pub may_repeat: bool,
    /// The tool, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub means: Option<String>,
}

/// Figures of a run that other workers have had before.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spent {
    pub model_calls: u32,
    pub tool_calls: u32,
    pub nested_calls: u32,
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// A program that is suspended for a person within a call.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Parked {
    /// The number of the call.
    pub seq: u32,
    pub program: RunId,
    /// What the program printed before.
    pub output: Vec<Output>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Detail {
    /// Returns how often a matter was revised; all together for an empty name.
    pub(crate) fn revised(&self, matter: &str) -> u32 {
        match matter {
            "" => self.revisions.values().sum(),
            matter => self.revisions.get(matter).copied().unwrap_or_default(),
        }
    }

    pub(crate) fn parse(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| "{}".into())
    }
}
