//! What a model is told of `exec` and `wait`, in as few words as will do.

use pincer_catalog::{Entry, Source, declare};
use pincer_tools::ServerState;

use crate::settings::Language;
use crate::settings::Settings;
use crate::tools::RunTools;

/// What the index of tools may take.
pub const INDEX_CHARS: usize = 6_000;
const HEADING_CHARS: usize = 150;
/// What it takes if not all tools fit: then most are found by searching anyway.
const PARTIAL_INDEX_CHARS: usize = 4_500;

pub(crate) const WAIT: &str = "Continue a program that exec (or wait) returned with status \"waiting\". Pass that result's \
top-level runId (cm_…), not an id that a tool returned. Returns like exec. A pending call in state \"approval\" needs a person: \
tell them, and call wait after they have answered.";

const CONTRACT: &str = "`code` is the body of an async function: `await` works, and `return` gives the result (any JSON \
value). There are no modules, files, network or Node APIs; everything is reached through tools.

- await tools.NAME(input), or await tools.call(id, input), gives the tool's JSON value. A failed call throws an Error with \
code, toolId and effect (\"none\", \"unknown\" or \"done\").
- await tools.search(\"words\", {limit}) gives [{id, name, description, …}]; await tools.describe(id) adds `parameters` (JSON \
Schema) and `returns`. ALL_TOOLS lists everything.
- Independent calls: await Promise.all([…]). Also there: setTimeout, console.log, text(x), json(x), TextEncoder, \
structuredClone.
- Look at a value of unknown shape before you use it. Long results come in pages: look for `next` or `truncated`. Return what \
you need, not whole files.";

const MCP: &str = "
- MCP servers: await API.list(\"mcp\"), then await API.read(\"mcp/SERVER.d.ts\") for the declarations; call \
MCP.server.tool({…}). unwrap(result) gives its data, or throws if it is an error.";

/// What a model is told of `exec`.
pub(crate) fn exec(tools: &RunTools, settings: &Settings) -> String {
    let languages = match settings.languages[..] {
        [Language::Javascript] => "JavaScript",
        [Language::Typescript] => "TypeScript (pass language: \"typescript\")",
        _ => "JavaScript (or, with language: \"typescript\", TypeScript)",
    };
    let mut text = format!("Run a {languages} program that calls tools.\n\n{CONTRACT}");
    if !tools.mcp().is_empty() {
        text.push_str(MCP);
        text.push_str(&servers(tools));
    }
    let (seconds, kilobytes) = (settings.timeout.as_millis() as f64 / 1000.0, settings.limits.output_bytes / 1024);
    text.push_str(&format!(
        "\n- Result: {{status: \"completed\", value, output}}, or \"failed\" with error, or \"waiting\" with runId when it takes \
         longer than {seconds} s or a person must approve something: then call wait. At most {kilobytes} KB come back."
    ));
    for namespace in tools.namespaces() {
        text.push_str(&format!("\n\n{}", namespace.global));
        for said in [&namespace.description, &namespace.prompt].into_iter().flatten() {
            text.push_str(&format!(": {}", said.trim()));
        }
    }
    text.push_str(&index(tools));
    text
}

/// What a client is told once.
pub(crate) fn instructions(tools: &RunTools) -> String {
    let mut text = String::from(
        "Everything is reached through two tools. exec runs a small JavaScript or TypeScript program that searches and calls \
         all other tools, in loops and in parallel, and returns a value; wait continues one that had to be suspended. Do as much \
         as you can in one program, and return only what you need.",
    );
    if !tools.mcp().is_empty() {
        text.push_str(&format!(" Programs reach MCP servers as MCP.server.tool({{…}}).{}", servers(tools)));
    }
    let globals: Vec<&str> = tools.namespaces().iter().map(|namespace| namespace.global.as_str()).collect();
    if !globals.is_empty() {
        text.push_str(&format!(" Also there: {}.", globals.join(", ")));
    }
    text
}

/// The MCP servers: what the config calls them, and nothing that they say themselves.
fn servers(tools: &RunTools) -> String {
    const MOST_CHARS: usize = 1_500;
    let named = tools.mcp().summary().map(|(name, count, state)| match state {
        ServerState::Available => format!("{name} ({count})"),
        ServerState::Starting => format!("{name} (starting)"),
        ServerState::Down(_) => format!("{name} (down)"),
    });
    let (mut text, mut left) = (String::new(), 0);
    for server in named {
        match text.len() + server.len() <= MOST_CHARS {
            true if text.is_empty() => text = server,
            true => text.extend([", ", &server]),
            false => left += 1,
        }
    }
    let more = if left > 0 { format!(", and {left} more") } else { String::new() };
    format!(" Servers, each with its number of tools: {text}{more}.")
}

/// The functions of `tools` with their inputs and results, as far as there is room. Only trusted tools: the words of others do
/// not belong in a prompt.
fn index(tools: &RunTools) -> String {
    let all = tools.catalog().iter().filter(|entry| entry.id.source() != Source::Mcp).count();
    if all == 0 {
        return String::new();
    }
    // What is built in first; the order of names otherwise.
    let functions = tools.functions().iter();
    let mut named: Vec<_> = functions.filter_map(|(name, id)| Some((name, tools.catalog().get(id)?))).collect();
    named.retain(|(_, entry)| entry.flags.trusted);
    named.sort_by_key(|(name, entry)| (entry.id.source(), *name));
    let lines: Vec<String> = named.into_iter().map(|(name, entry)| line(name, entry)).collect();
    let mut listed = fitting(&lines, INDEX_CHARS - HEADING_CHARS);
    if listed.len() < lines.len() {
        listed = fitting(&lines, PARTIAL_INDEX_CHARS);
    }
    let heading = match listed.len() {
        count if count == all => format!("All {all} tools"),
        0 => return format!("\n\n{all} tools: find them with tools.search."),
        count => format!("{count} of {all} tools; find the others with tools.search"),
    };
    format!("\n\n{heading} (tools.NAME(input) -> value; ? is an unknown shape):\n{}", listed.join("\n"))
}

fn line(name: &str, entry: &Entry) -> String {
    let input = match declare::hint(&entry.input_schema) {
        nothing if nothing == "{}" => String::new(),
        input => input,
    };
    let output = entry.output_schema.as_ref().map_or_else(|| "?".to_owned(), declare::hint);
    format!("{name}({input}) -> {output}")
}

/// The lines for which there is room, the first ones first.
fn fitting(lines: &[String], mut room: usize) -> Vec<&str> {
    let mut fitting = Vec::new();
    for line in lines {
        let size = line.chars().count() + 1;
        if size <= room {
            room -= size;
            fitting.push(line.as_str());
        }
    }
    fitting
}
