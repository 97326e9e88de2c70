//! What the tools of a session took of the requests of its runs.

use std::collections::HashMap;

use console::style;
use pincer_agent::ToolTelemetry;
use pincer_store::{AgentRunId, Figures, RunFigures, SessionId};
use serde_json::{Value, json};

use crate::commands::savings::{Sum, compared, figures};
use crate::print::count;
use crate::refused::Refused;

use super::House;
use super::page::Page;

/// The runs that are read at once.
const PAGE: u32 = 1000;
/// The most tools that are named.
const MOST_CALLED: usize = 5;

/// The figures of the runs of a session.
pub(super) struct SessionFigures {
    sum: Sum,
    runs: Vec<RunFigures>,
}

impl SessionFigures {
    pub(super) async fn of(house: &House, session: &SessionId) -> Result<Self, Refused> {
        let (mut sum, mut runs): (Sum, Vec<RunFigures>) = Default::default();
        loop {
            let after = runs.last().map_or(-1, |last| last.number);
            let page = house.store.figures_of_session(session, after, PAGE).await?;
            let is_last = page.len() < PAGE as usize;
            page.iter().for_each(|run| sum.add(run));
            runs.extend(page);
            if is_last {
                return Ok(Self { sum, runs });
            }
        }
    }

    pub(super) fn document(&self) -> Value {
        let mut document = self.sum.document();
        let each = self.runs.iter().map(|run| json!({ "run": run.run, "at": run.at, "tools": figures(run) }));
        document["each"] = each.collect();
        document
    }

    /// Adds what all runs took, if a model has answered one.
    pub(super) fn show(&self, page: &mut Page) {
        let tools = &self.sum.tools;
        if tools.requests > 0 {
            let (requests, shown) = (requests(tools), shown(tools));
            page.line(0, &style("tools").dim(), &[&page.value(&tools.surface), &shown, &requests, &compared(tools)]);
            page.line(0, &style("used").dim(), &[&used(tools), &called(page, tools)]);
        }
        if self.sum.unknown > 0 {
            let runs = count(self.sum.unknown as usize, "run");
            page.line(0, &style("tools").dim(), &[&format!("{runs} from before Pincer kept these figures")]);
        }
    }

    /// Returns a line for the end of each run, if there are several.
    pub(super) fn of_runs(&self) -> HashMap<AgentRunId, String> {
        if self.runs.len() < 2 {
            return HashMap::new();
        }
        let line = |run: &RunFigures| {
            let tools = figures(run)?;
            Some((run.run.clone(), format!("{}, {}; {}", requests(&tools), compared(&tools), used(&tools))))
        };
        self.runs.iter().filter_map(line).collect()
    }
}

fn requests(tools: &ToolTelemetry) -> String {
    count(tools.requests as usize, "request")
}

/// `3 of 571 shown (5 openclaw, 566 mcp)`.
fn shown(tools: &ToolTelemetry) -> String {
    let sources = &tools.sources;
    let by =
        [(sources.openclaw, "openclaw"), (sources.plugin, "plugin"), (sources.mcp, "mcp"), (sources.client, "client")];
    let by: Vec<String> =
        by.iter().filter(|(size, _)| *size > 0).map(|(size, source)| format!("{size} {source}")).collect();
    let by = if by.is_empty() { String::new() } else { format!(" ({})", by.join(", ")) };
    format!("{} shown of {}{by}", tools.schemas_shown, tools.catalog_size)
}

fn used(tools: &ToolTelemetry) -> String {
    let failed = match tools.failed_count {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let searches = match tools.search_count {
        1 => "1 search".to_owned(),
        searches => format!("{searches} searches"),
    };
    let describes = count(tools.describe_count as usize, "description");
    format!("{searches}, {describes}, {}{failed}", count(tools.call_count as usize, "call"))
}

/// Returns the tools that were called most.
fn called(page: &Page, tools: &ToolTelemetry) -> String {
    let most = tools.most_called(MOST_CALLED);
    let left = tools.calls.len() - most.len();
    let mut named: Vec<String> = most.iter().map(|call| format!("{} {}", page.value(&call.id), call.count)).collect();
    if left > 0 {
        named.push(format!("and {} more", count(left, "tool")));
    }
    named.join(", ")
}
