//! What the tools of a run took of its requests, what direct exposure would have taken, and how its model used them.

mod exposed;
mod used;
mod weight;

use pincer_codemode::Sources;
use serde::{Deserialize, Serialize};

use exposed::MIXED;
pub(crate) use exposed::{DirectWeights, Exposed, style_name};
pub(crate) use used::{Answer, SettledCall, ToolUse};
pub use weight::{Saved, Weight};

/// The most tools that an event names.
const MOST_IN_EVENT: usize = 20;

/// The share of the tools and the instructions of runs in their requests, and the use that their models made of the tools.
///
/// Tokens are estimated: four letters of English are one. A request counts when its reply is there. Direct exposure is the same request
/// with all tools of the catalog in it, and with the instructions that it would have had then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolTelemetry {
    /// How the model reached its tools: `none`, `direct`, `codeMode`, or the mode of Tool Search (`code`, `tools`, `directory`);
    /// `mixed` if it was not always the same.
    pub surface: String,
    /// The requests that were answered. Tools and instructions were in each of them.
    pub requests: u32,
    /// The tools in the first request of a run, as JSON: name, description and input schema.
    pub tools: Weight,
    /// The instructions in the first request of a run.
    pub prompt: Weight,
    /// The tools in the first request of a run with direct exposure.
    pub direct: Weight,
    /// The instructions in the first request of a run with direct exposure.
    pub direct_prompt: Weight,
    /// Of these, those that were answered with searches and descriptions alone: with direct exposure there would have been none.
    pub lookup_requests: u32,
    /// Tools and instructions of all requests.
    pub sent: Weight,
    /// Tools and instructions of the same requests with direct exposure, without `lookup_requests`.
    pub direct_sent: Weight,
    /// `direct_sent` without `sent`: below zero if the surface cost more than direct exposure.
    pub saved: Saved,
    /// The tokens of `sent` that the provider had in its cache.
    pub cached_tokens: u64,
    /// The tools that the model could reach; the most that one run had.
    pub catalog_size: usize,
    /// The same, by source.
    pub sources: Sources,
    /// The schemas that the model saw at the beginning; the most that one run had.
    pub schemas_shown: usize,
    /// Searches for tools.
    pub search_count: u32,
    /// Descriptions of tools.
    pub describe_count: u32,
    /// The results of searches and descriptions that the model has read. They are part of the conversation, and not of `sent`.
    pub lookups: Weight,
    /// Calls of tools, those of programs included, without the tools that search, describe and run programs.
    pub call_count: u32,
    /// Of these, those that failed or were denied.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed_count: u32,
    /// How often the model was told of tools that it had not used.
    pub hint_count: u32,
    /// The tools that were called, with their numbers of calls.
    pub calls: Vec<CalledTool>,
}

/// A tool that was called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CalledTool {
    /// Its id.
    pub id: String,
    /// Where it comes from: `openclaw`, `plugin`, `mcp` or `client`.
    pub source: String,
    /// Its calls.
    pub count: u32,
    /// Of these, those that failed or were denied.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl ToolTelemetry {
    /// Adds what another run took.
    pub fn add(&mut self, other: &Self) {
        match () {
            () if self.surface.is_empty() => self.surface.clone_from(&other.surface),
            () if self.surface != other.surface => MIXED.clone_into(&mut self.surface),
            () => {}
        }
        self.requests = self.requests.saturating_add(other.requests);
        self.lookup_requests = self.lookup_requests.saturating_add(other.lookup_requests);
        self.lookups = self.lookups + other.lookups;
        self.tools = self.tools + other.tools;
        self.prompt = self.prompt + other.prompt;
        self.direct = self.direct + other.direct;
        self.direct_prompt = self.direct_prompt + other.direct_prompt;
        self.sent = self.sent + other.sent;
        self.direct_sent = self.direct_sent + other.direct_sent;
        self.saved = Saved::between(self.direct_sent, self.sent);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.catalog_size = self.catalog_size.max(other.catalog_size);
        self.sources = Sources {
            openclaw: self.sources.openclaw.max(other.sources.openclaw),
            plugin: self.sources.plugin.max(other.sources.plugin),
            mcp: self.sources.mcp.max(other.sources.mcp),
            client: self.sources.client.max(other.sources.client),
        };
        self.schemas_shown = self.schemas_shown.max(other.schemas_shown);
        let add = |sum: &mut u32, more: u32| *sum = sum.saturating_add(more);
        add(&mut self.search_count, other.search_count);
        add(&mut self.describe_count, other.describe_count);
        add(&mut self.call_count, other.call_count);
        add(&mut self.failed_count, other.failed_count);
        add(&mut self.hint_count, other.hint_count);
        for call in &other.calls {
            match self.calls.iter_mut().find(|known| known.id == call.id) {
                Some(known) => {
                    add(&mut known.count, call.count);
                    add(&mut known.failed, call.failed);
                }
                None => self.calls.push(call.clone()),
            }
        }
    }

    /// Returns the tools that were called most, at most so many.
    pub fn most_called(&self, most: usize) -> Vec<CalledTool> {
        let mut calls = self.calls.clone();
        calls.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.id.cmp(&other.id)));
        calls.truncate(most);
        calls
    }

    /// Returns it as events carry it: with the tools that were called most.
    pub(crate) fn in_event(&self) -> Self {
        Self { calls: self.most_called(MOST_IN_EVENT), ..self.clone() }
    }
}

#[cfg(test)]
mod tests;
