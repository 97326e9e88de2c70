//! `pincer tools`: the catalog, as a run would have it.

use std::sync::Arc;

use pincer_catalog::names::unambiguous;
use pincer_catalog::{Catalog, CompactEntry, Entry, Index, Policy, Source, ToolId, declare, shortened};
use pincer_config::keys::McpSampling;
use pincer_mcp::{Health, Servers};
use serde_json::{Value, json};

use crate::assembly::Assembly;
use crate::codemode::config_scope;
use crate::print::{chain, line, note};
use crate::tokio_runtime::StartError;
use crate::usage::{PlaceArguments, ToolsArguments, ToolsCommand};
use crate::{DONE, FAILED, WRONG_USAGE, commands, settings, state};

/// All tools there are, and what policy leaves of them.
struct View {
    all: Catalog,
    policy: Policy,
    left: Catalog,
}

pub(crate) fn run(places: &PlaceArguments, arguments: &ToolsArguments) -> u8 {
    let (assembly, view) = match view(places, arguments) {
        Ok(view) => view,
        Err(code) => return code,
    };
    if let ToolsCommand::Call { tool, input, session } = &arguments.command {
        let agent = arguments.scope.agent.clone();
        let call = commands::call::Asked { tool, input, session, agent, sandboxed: arguments.scope.sandboxed };
        return commands::call::run(assembly, &view.left, &call, arguments.json);
    }
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

fn view(places: &PlaceArguments, arguments: &ToolsArguments) -> Result<(Assembly, View), u8> {
    let loaded = settings::ready(places)?;
    let told = |code: u8| {
        move |error: &dyn std::error::Error| {
            note(&format!("error: {}", chain(error)));
            code
        }
    };
    let store = state::open(places.state_dir.as_deref()).map_err(|error| told(FAILED)(&error))?;
    let assembly = Assembly::new(
        &loaded,
        state::directory(places.state_dir.as_deref()).as_deref(),
        Arc::new(store),
        McpSampling::Refuse,
    )
    .map_err(|error| told(WRONG_USAGE)(&error))?;
    if let Some(moved) = crate::workspace::moved(&loaded).filter(|_| arguments.command.tool().is_some()) {
        note(&format!("note: {moved}"));
    }
    let policy =
        loaded.parsed.config.policy(&config_scope(&arguments.scope)).map_err(|error| told(WRONG_USAGE)(&error))?;
    know(&assembly.mcp, arguments.command.tool()).map_err(|error| told(FAILED)(&error))?;
    let entries = assembly.door.entries().into_iter().chain(assembly.mcp.entries());
    let all = Catalog::new(entries).map_err(|error| told(WRONG_USAGE)(&error))?;
    let left = policy.apply(&all);
    Ok((assembly, View { all, policy, left }))
}

/// Asks the MCP servers of which nobody knows what they have, and says which are down. If all is about one tool, only whoever has
/// it is asked.
fn know(servers: &Servers, about: Option<&str>) -> Result<(), StartError> {
    let id = about.and_then(|tool| tool.parse::<ToolId>().ok());
    let only = id.filter(|id| id.source() == Source::Mcp).and_then(|id| servers.get(id.owner()));
    let concerned = || servers.iter().filter(|server| only.is_none_or(|only| Arc::ptr_eq(only, server)));
    if concerned().all(|server| server.seen().listing.is_some()) {
        return Ok(());
    }
    let runtime = crate::tokio_runtime::small()?;
    runtime.block_on(async {
        match only {
            Some(only) => servers.ready_with(only).await,
            None => servers.ready().await,
        }
        for server in concerned().filter(|server| server.is_starting()) {
            note(&format!("warning: the MCP server {} is still starting: its tools are left out", server.name()));
        }
        servers.end().await;
    });
    for server in concerned() {
        if let Health::Down(why) = server.seen().health {
            note(&format!("warning: the MCP server {} is down: it {why}", server.name()));
        }
    }
    Ok(())
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
