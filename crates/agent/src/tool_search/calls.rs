//! The calls of `tool_search`, `tool_describe` and `tool_call`.

use std::sync::Arc;
use std::time::Instant;

use pincer_catalog::{CompactEntry, Entry};
use pincer_codemode::RunTools;
use pincer_json::Json;
use pincer_model::{Content, Reply, ToolCall};
use pincer_sessions::NestedCall;
use pincer_tool_search::{CallInput, Limits, SearchInput, Searched, TOOL_CALL, described, found, named, nested_id};
use pincer_tools::{Call, EventKind, Filter, Told};
use serde_json::{Value, json};

use crate::calls::CallEnd;
use crate::event::{Happening, shortened, shown};
use crate::program::{MOST_KEPT, kept};
use crate::record::CallResult;
use crate::surface::Meaning;
use crate::telemetry::Answer;
use crate::transcript::OpenCall;
use crate::turn::Turn;

impl Turn {
    /// Returns the tools that the run has now.
    pub(crate) fn tools_now(&self) -> Arc<RunTools> {
        self.agent.runtime.tools(&self.scope)
    }

    /// Returns the kind of answer that a reply is.
    pub(crate) fn answer(&self, reply: &Reply) -> Answer {
        let tools = self.tools_now();
        let means = |call: &ToolCall| self.surface.meaning(&call.name, &tools);
        let mut calls = reply.message.calls().peekable();
        let looks_up = |call: &ToolCall| matches!(means(call), Some(Meaning::Search | Meaning::Describe));
        match calls.peek().is_some() && calls.all(looks_up) {
            true => Answer::Lookups,
            false => Answer::Other,
        }
    }

    /// Searches for tools.
    pub(crate) fn search(&self, open: &OpenCall) -> CallEnd {
        let limits = self.scope.tool_search().map_or_else(Limits::default, |settings| settings.limits);
        let input = match SearchInput::parse(&arguments(open), limits) {
            Ok(input) => input,
            Err(error) => return CallEnd::unmade(error.to_string()),
        };
        let tools = self.tools_now();
        let missing: Vec<(&str, &str)> = tools.missing_servers().collect();
        let found = found(Searched { index: &tools.searched().1, missing: &missing }, &input);
        CallEnd::Unmade(CallResult::text(found.to_string()))
    }

    /// Describes a tool.
    pub(crate) fn describe(&self, open: &OpenCall) -> CallEnd {
        let tools = self.tools_now();
        match named(&arguments(open), &self.surface.lookup(&tools)) {
            Ok(entry) => CallEnd::Unmade(CallResult::text(described(&entry).to_string())),
            Err(error) => CallEnd::unmade(error.to_string()),
        }
    }

    /// Calls the tool that the arguments name, at the same door as every other.
    pub(crate) async fn call_found(&self, open: &OpenCall, seq: u32, reply: u32) -> CallEnd {
        let tools = self.tools_now();
        let CallInput { entry, args } = match CallInput::parse(&arguments(open), &self.surface.lookup(&tools)) {
            Ok(call) => call,
            Err(error) => return CallEnd::unmade(error.to_string()),
        };
        let input = match Json::of(&args) {
            Ok(input) => input,
            Err(error) => return CallEnd::unmade(format!("the input cannot be passed on: {error}")),
        };
        let id = nested_id(TOOL_CALL, &open.id, entry.id.name(), seq);
        let tell = |mut data: Value| {
            for (member, value) in [("name", json!(entry.id.to_string())), ("toolCallId", json!(id))] {
                data[member] = value;
            }
            data["parentToolCallId"] = json!(open.id);
            self.lane_parts().tell(Happening::tool(data));
        };
        tell(json!({ "phase": "start", "args": shown(&args) }));
        let (began, started_at) = (Instant::now(), self.lane.now());
        let mut events = self.agent.runtime.events().subscribe(Filter::of_call(&open.id.as_str().into()).with_values());
        let call = Call {
            id: id.as_str().into(),
            seq,
            tool: entry.id.to_string(),
            input: input.clone().into(),
            ..Call::default()
        };
        let scope = self.scope.clone().within(open.id.as_str());
        let end = self.at_the_door(&scope, call, &entry.id.to_string(), Some(&open.id)).await;
        let CallEnd::Settled(result, _) = end else { return end };
        let duration_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let told = text(&result);
        tell(json!({
            "phase": "result", "isError": result.is_error, "result": shortened(&told, MOST_KEPT), "durationMs": duration_ms,
        }));
        // Hooks may have changed the input.
        let mut given = kept(input.as_str());
        while let Some(told) = events.try_next() {
            if let Told::Event(event) = told
                && let EventKind::Start { input } = &event.what
                && event.call.as_str() == id
            {
                given = kept(&input.to_string());
            }
        }
        let output = if Json::parse(&told).is_ok() { kept(&told) } else { kept(&json!(told).to_string()) };
        let nested = NestedCall {
            program: open.id.clone(),
            seq,
            tool: entry.id.to_string(),
            line: None,
            input: given,
            output: (!result.is_error).then_some(output),
            error: result.is_error.then(|| shortened(&told, MOST_KEPT)),
            duration_ms: Some(duration_ms),
            started_at: Some(started_at),
            effect: effect_of(&result),
        };
        let child = self.child(reply, open, serde_json::to_string(&nested).unwrap_or_default());
        CallEnd::Settled(with_tool(result, &entry), vec![child])
    }
}

fn arguments(open: &OpenCall) -> Value {
    open.call.arguments.to().unwrap_or_default()
}

/// Returns what a call may have changed, as its result tells.
fn effect_of(result: &CallResult) -> Option<String> {
    let effect = result.details.as_ref()?.get("effect")?;
    effect.as_str().map(str::to_owned)
}

/// Returns the text of a result.
fn text(result: &CallResult) -> String {
    let texts = result.content.iter().map(|content| match content {
        Content::Text(text) => text.as_str(),
        Content::Image(_) => "[image]",
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Adds the tool to the details of a result, for people and programs that read the transcript.
fn with_tool(result: CallResult, entry: &Entry) -> CallResult {
    let mut details = result.details.unwrap_or_else(|| json!({}));
    let plain = CompactEntry::from(entry);
    details["tool"] =
        json!({ "id": plain.id, "source": plain.source, "sourceName": plain.source_name, "name": plain.name });
    CallResult { details: Some(details), ..result }
}
