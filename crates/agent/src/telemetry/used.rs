//! The requests of a run up to now, and the use that it has made of its tools.

use std::collections::BTreeMap;

use pincer_codemode::Telemetry;
use pincer_model::Content;
use pincer_store::{EntryKind, NewEntry};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::exposed::{Exposed, MIXED};
use super::weight::{Saved, Weight};
use super::{CalledTool, ToolTelemetry};
use crate::record::CallResult;
use crate::surface::Meaning;

/// The most tools whose calls are counted one by one: a program can call tools for ever.
const MOST_TOOLS: usize = 200;

/// The requests of a run and the use that it has made of its tools. It is stored with the run, in the same commits as the replies and
/// results that it counts: the next worker goes on counting, and counts nothing twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ToolUse {
    pub searches: u32,
    pub describes: u32,
    pub hints: u32,
    pub calls: BTreeMap<String, u32>,
    /// Of these, those that failed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    failed: BTreeMap<String, u32>,
    /// Calls of tools that are not counted one by one.
    others: Others,
    /// The requests that were answered.
    requests: u32,
    /// Of these, those that were answered with searches and descriptions alone.
    lookup_requests: u32,
    sent: Weight,
    sent_directly: Weight,
    /// The results of searches and descriptions that the model has read.
    lookups: Weight,
    /// The tokens of `sent` that the provider had in its cache.
    cached: u64,
    /// The tools and the instructions of the first request.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<Box<Exposed>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Others {
    calls: u32,
    failed: u32,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Searches for tools and descriptions of tools, and nothing else.
    Lookups,
    Other,
}

/// A call of the model that has its result.
pub(crate) struct SettledCall<'a> {
    pub meaning: Option<&'a Meaning>,
    pub result: &'a CallResult,
    /// The entries of the calls that were made in it.
    pub children: &'a [NewEntry],
    /// Whether a tool was called, and not something told in its place.
    pub is_made: bool,
}

/// The members of a nested call that are counted.
#[derive(Deserialize)]
struct Nested {
    tool: String,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

impl ToolUse {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Counts a request that was answered. `more` is the weight of instructions that it had besides.
    pub(crate) fn answered(&mut self, exposed: &Exposed, more: Weight, answer: Answer, cache_read: u64) {
        let first = self.first.get_or_insert_with(|| Box::new(exposed.clone()));
        if first.surface != exposed.surface {
            MIXED.clone_into(&mut first.surface);
        }
        let directly = match answer {
            // A model that sees all tools looks for none.
            Answer::Lookups => {
                self.lookup_requests += 1;
                Weight::default()
            }
            Answer::Other => exposed.sent_directly() + more,
        };
        self.count(exposed.sent() + more, directly, cache_read);
    }

    /// Counts requests without tools that were answered: direct exposure would have sent the same.
    pub(crate) fn answered_without_tools(&mut self, requests: &[(Weight, u64)]) {
        requests.iter().for_each(|(sent, cache_read)| self.count(*sent, *sent, *cache_read));
    }

    fn count(&mut self, sent: Weight, sent_directly: Weight, cache_read: u64) {
        self.requests += 1;
        self.sent = self.sent + sent;
        self.sent_directly = self.sent_directly + sent_directly;
        // Tools and instructions are the beginning of a request, and a cache holds beginnings.
        self.cached = self.cached.saturating_add(cache_read.min(sent.tokens));
    }

    /// Counts a call of the model, and the calls that were made in it.
    pub(crate) fn settled(&mut self, call: &SettledCall<'_>) {
        let has_failed = call.result.is_error;
        match call.meaning {
            Some(Meaning::Tool { id, .. }) if call.is_made => self.called(id, has_failed),
            Some(Meaning::Search | Meaning::Describe) => self.looked_up(call),
            Some(Meaning::Exec | Meaning::Wait | Meaning::SearchCode) => self.ended(call.result),
            _ => {}
        }
        for child in call.children.iter().filter(|child| child.kind == EntryKind::NestedCall) {
            if let Ok(Nested { tool, error }) = serde_json::from_str(&child.body) {
                self.called(&tool, error.is_some());
            }
        }
    }

    /// Counts a search or a description. What the model is told in place of one it reads all the same.
    fn looked_up(&mut self, call: &SettledCall<'_>) {
        let found = u32::from(!call.result.is_error);
        match call.meaning {
            Some(Meaning::Search) => self.searches += found,
            _ => self.describes += found,
        }
        for content in &call.result.content {
            if let Content::Text(text) = content {
                self.lookups = self.lookups + Weight::of(text);
            }
        }
    }

    fn called(&mut self, id: &str, has_failed: bool) {
        let failed = u32::from(has_failed);
        if self.calls.len() >= MOST_TOOLS && !self.calls.contains_key(id) {
            self.others.calls += 1;
            self.others.failed += failed;
            return;
        }
        *self.calls.entry(id.to_owned()).or_default() += 1;
        if has_failed {
            *self.failed.entry(id.to_owned()).or_default() += 1;
        }
    }

    /// Counts the searches and descriptions of a program that has ended. One that waits is counted when it ends.
    fn ended(&mut self, result: &CallResult) {
        let Some(details) = &result.details else { return };
        if details["status"] == "waiting" {
            return;
        }
        if let Ok(program) = Telemetry::deserialize(&details["telemetry"]) {
            self.searches += program.search_count;
            self.describes += program.describe_count;
        }
    }

    /// Returns the telemetry of a run. `now` is what its model sees now: it counts if no request was answered before.
    pub(crate) fn telemetry(&self, now: Option<&Exposed>) -> Option<ToolTelemetry> {
        let Exposed { surface, tools, prompt, direct, direct_prompt, catalog_size, sources, schemas_shown } =
            self.first.as_deref().or(now)?.clone();
        let source = |id: &str| id.split(':').next().unwrap_or_default().to_owned();
        let calls = self.calls.iter().map(|(id, count)| CalledTool {
            id: id.clone(),
            source: source(id),
            count: *count,
            failed: self.failed.get(id).copied().unwrap_or_default(),
        });
        Some(ToolTelemetry {
            surface,
            requests: self.requests,
            lookup_requests: self.lookup_requests,
            tools,
            prompt,
            direct,
            direct_prompt,
            sent: self.sent,
            direct_sent: self.sent_directly,
            saved: Saved::between(self.sent_directly, self.sent),
            cached_tokens: self.cached,
            catalog_size,
            sources,
            schemas_shown,
            search_count: self.searches,
            describe_count: self.describes,
            lookups: self.lookups,
            call_count: self.calls.values().sum::<u32>() + self.others.calls,
            failed_count: self.failed.values().sum::<u32>() + self.others.failed,
            hint_count: self.hints,
            calls: calls.collect(),
        })
    }
}
