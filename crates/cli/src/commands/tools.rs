//! `pincer tools`: the catalog, as a run would have it.

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::names::unambiguous;
use pincer_catalog::{Catalog, CompactEntry, Entry, Index, Policy, declare, shortened};
use pincer_runtime::{EngineStart, RuntimeOptions};
use serde_json::{Value, json};

use crate::commands::call::{self, Asked};
use crate::opened::{for_tools, request, told};
use crate::print::{chain, line, note};
use crate::usage::LocationArguments;
use crate::usage_tools::{ToolsArguments, ToolsCommand};
use crate::{DONE, FAILED};

/// All tools there are, and what policy leaves of them.
struct View {
    all: Arc<Catalog>,
    policy: Policy,
    left: Catalog,
}

pub(crate) fn run(locations: &LocationArguments, arguments: &ToolsArguments) -> u8 {
    if let ToolsCommand::Call { tool, input, session } = &arguments.command {
        return call::run(locations, &arguments.scope, Asked { tool, input, session }, arguments.json);
    }
    let viewed = match crate::tokio_runtime::small() {
        Ok(tokio) => tokio.block_on(view(locations, arguments)),
        Err(error) => {
            note(&format!("error: {}", chain(&error)));
            return FAILED;
        }
    };
    let view = match viewed {
        Ok(view) => view,
        Err(code) => return code,
    };
    match act(&view, &arguments.command) {
        Ok((document, _)) if arguments.json => line(&document.to_string()),
        Ok((_, text)) => line(&text),
        Err(error) => {
            note(&format!("error: {error}"));
            return FAILED;
        }
    }
    DONE
}

/// Looks at the tools. A failure is told, and is this exit code.
async fn view(locations: &LocationArguments, arguments: &ToolsArguments) -> Result<View, u8> {
    let runtime = for_tools(locations, |options| RuntimeOptions { engine: EngineStart::WhenNeeded, ..options })?;
    let about = arguments.command.tool();
    if let Some(moved) = runtime.moved_workspace().filter(|_| about.is_some()) {
        note(&format!("note: {moved}"));
    }
    // Nothing runs in it, so it is no session's.
    let scope = runtime.scope(&request("", &arguments.scope)).map_err(|error| told(&error))?;
    runtime.know_servers(about).await;
    let view =
        View { all: runtime.catalog(), policy: scope.policy().clone(), left: runtime.tools(&scope).catalog().clone() };
    runtime.shutdown(Duration::ZERO).await;
    Ok(view)
}

/// What to print, for programs and for people.
fn act(view: &View, command: &ToolsCommand) -> Result<(Value, String), String> {
    match command {
        ToolsCommand::List => Ok(listed(view.left.iter().map(AsRef::as_ref), "policy leaves no tools")),
        ToolsCommand::Search { query, limit } => {
            let found = Index::new(&view.left).search(query, *limit as usize);
            Ok(listed(found.iter().map(AsRef::as_ref), "nothing fits: try other words, or `pincer tools list`"))
        }
        ToolsCommand::Describe { tool } => {
            let entry = view.left.find(tool).map_err(|error| error.to_string())?;
            Ok((
                described(entry),
                format!("// {}\n{}", entry.id, declare::object("tools", [(entry.id.name(), entry.as_ref())])),
            ))
        }
        ToolsCommand::Explain { tool } => {
            // This is for the person who wrote the policy: here a denied tool has a name.
            let entry = view.all.find(tool).map_err(|error| error.to_string())?;
            Ok(explained(entry, &view.policy))
        }
        // Done before anything is printed.
        ToolsCommand::Call { .. } => Ok((Value::Null, String::new())),
        ToolsCommand::Declarations => {
            let text = declarations(&view.left);
            Ok((json!({ "declarations": text }), text))
        }
    }
}

fn listed<'e>(entries: impl Iterator<Item = &'e Entry>, nothing: &str) -> (Value, String) {
    let entries: Vec<CompactEntry> = entries.map(CompactEntry::from).collect();
    let width = entries.iter().map(|entry| entry.id.chars().count()).max().unwrap_or_default();
    let row = |entry: &CompactEntry| format!("{:width$}  {}", entry.id, first_line(&entry.description));
    let text = match entries.is_empty() {
        true => nothing.to_owned(),
        false => entries.iter().map(row).collect::<Vec<_>>().join("\n"),
    };
    (json!(entries), text)
}

/// The first sentence or so: enough to recognise a tool.
fn first_line(description: &str) -> String {
    const MOST: usize = 100;
    let line = description.lines().next().unwrap_or_default();
    let line = line.split_once(". ").map_or(line, |(sentence, _)| sentence);
    shortened(line, MOST)
}

fn described(entry: &Entry) -> Value {
    let mut document = json!(CompactEntry::from(entry));
    document["inputSchema"] = entry.input_schema.clone();
    document["flags"] = json!(entry.flags);
    if let Some(output) = &entry.output_schema {
        document["outputSchema"] = output.clone();
    }
    document
}

/// The functions of `tools` that a program has; a tool whose name others have too is called by its id.
fn declarations(catalog: &Catalog) -> String {
    let ids: Vec<String> = catalog.iter().map(|entry| entry.id.to_string()).collect();
    let names = unambiguous(catalog.iter().map(|entry| entry.id.name()).zip(ids.iter().map(String::as_str)), &[]);
    let methods = names.iter().filter_map(|(name, id)| Some((name.as_str(), catalog.get(id)?.as_ref())));
    let mut text = declare::object("tools", methods);
    for id in ids.iter().filter(|id| !names.values().any(|named| named == id)) {
        text.push_str(&format!("// Only by its id: tools.call({}, input)\n", json!(id)));
    }
    text
}

fn explained(entry: &Entry, policy: &Policy) -> (Value, String) {
    let explanation = policy.explain(entry);
    let verdict = if explanation.included { "in" } else { "out" };
    let mut text = format!("{} is {verdict}", entry.id);
    for step in &explanation.steps {
        let mark = if step.passes { "passes" } else { "stops at" };
        text.push_str(&format!("\n  {mark} {}: {}", step.at, step.reason));
    }
    (json!({ "id": entry.id, "included": explanation.included, "steps": explanation.steps }), text)
}
