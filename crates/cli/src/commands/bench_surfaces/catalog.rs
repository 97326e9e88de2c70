//! The tools that surfaces are built of: those of a file, and generated ones of the same size.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use pincer_catalog::{Entry, Source, ToolId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::cells::Outcome;

/// The end of the names of files with tools.
const SUFFIX: &str = ".tools.jsonl";

const SERVICES: [&str; 20] = [
    "tracker",
    "mail",
    "calendar",
    "storage",
    "billing",
    "registry",
    "cluster",
    "warehouse",
    "wiki",
    "chat",
    "deploy",
    "metrics",
    "alerts",
    "identity",
    "search",
    "forms",
    "payroll",
    "maps",
    "media",
    "contracts",
];
const VERBS: [&str; 16] = [
    "list",
    "get",
    "create",
    "update",
    "delete",
    "search",
    "export",
    "import",
    "archive",
    "restore",
    "approve",
    "assign",
    "compare",
    "schedule",
    "validate",
    "summarize",
];
const THINGS: [&str; 24] = [
    "project",
    "invoice",
    "message",
    "folder",
    "event",
    "ticket",
    "report",
    "member",
    "account",
    "branch",
    "release",
    "dashboard",
    "template",
    "policy",
    "device",
    "shipment",
    "contact",
    "comment",
    "budget",
    "snapshot",
    "pipeline",
    "certificate",
    "survey",
    "license",
];
/// Parameters: name, kind and description.
const PARAMETERS: [(&str, &str, &str); 12] = [
    (
        "workspace_id",
        "string",
        "The identifier of the workspace, as the list of workspaces returns it. Required unless a default is set.",
    ),
    ("query", "string", "Words that must be contained in the title or in the body. Quotes keep words together."),
    (
        "page_size",
        "integer",
        "The number of entries of a page, between 1 and 100. The service returns 30 if this is absent.",
    ),
    ("cursor", "string", "The place to continue from, as the page before has returned it. Absent for the first page."),
    ("created_after", "string", "Only entries that were created after this time, in ISO 8601 with an offset from UTC."),
    ("sort_by", "string", "The field that entries are sorted by. Fields that are not indexed make the request slower."),
    (
        "include_archived",
        "boolean",
        "Whether entries that were archived are part of the result. They are left out if this is absent.",
    ),
    ("labels", "array", "Labels that entries must have, all of them. Upper and lower case are the same."),
    ("owner", "string", "The user whose entries these are, by name or by email address. `me` is the user of the key."),
    (
        "dry_run",
        "boolean",
        "Whether the request is only checked: nothing is changed, and what would be changed is returned.",
    ),
    (
        "retry_max_delay",
        "number",
        "The longest pause between two attempts, in seconds, whatever the strategy of retries is.",
    ),
    ("note", "string", "A note for the trail of changes. People who look at the entry later will see it."),
];

/// Where the tools of a catalog come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Origin {
    Real,
    Generated,
    /// All that there are, and generated ones.
    Mixed,
}

/// A catalog of a size.
pub(super) struct Catalog {
    pub entries: Vec<Entry>,
    pub origin: Origin,
}

/// A line of a file with tools. Other members are passed over.
#[derive(Deserialize)]
struct Line {
    server: String,
    name: String,
    description: String,
    schema: Value,
}

impl Catalog {
    /// Returns so many tools: of the data as far as it goes, spread over it.
    pub(super) fn new(count: usize, data: Option<&Path>) -> Outcome<Self> {
        let (mut lines, origin) = match data {
            Some(path) => picked(count, path)?,
            None => (Vec::new(), Origin::Generated),
        };
        lines.extend((lines.len()..count).map(generated));
        let mut ids = HashSet::new();
        let mut entries = Vec::new();
        for Line { server, name, description, schema } in lines {
            let owner = if server.is_empty() { "-".to_owned() } else { server.replace(':', "-") };
            let mut id = ToolId::new(Source::Mcp, owner.clone(), name.clone())?;
            for number in 2.. {
                if ids.insert(id.clone()) {
                    break;
                }
                id = ToolId::new(Source::Mcp, format!("{owner}-{number}"), name.clone())?;
            }
            let mut entry = Entry::new(id, description);
            entry.input_schema = schema;
            entries.push(entry);
        }
        Ok(Self { entries, origin })
    }

    /// Returns what a model may search for: some words of the descriptions, a name, and words of two tools at once.
    pub(super) fn queries(&self) -> Vec<String> {
        const MOST: usize = 200;
        let step = self.entries.len().div_ceil(MOST).max(1);
        let words = |entry: &Entry, count: usize| -> Vec<String> {
            let long = entry.description.split_whitespace().filter(|word| word.len() > 3);
            long.take(count).map(str::to_owned).collect()
        };
        let query = |(at, entry): (usize, &Entry)| match at % 3 {
            0 => words(entry, 6).join(" "),
            1 => entry.id.name().replace(['_', '-', '.'], " "),
            _ => [words(entry, 3), self.entries.first().map_or_else(Vec::new, |first| words(first, 2))]
                .concat()
                .join(" "),
        };
        self.entries.iter().step_by(step).enumerate().map(query).collect()
    }
}

/// Reads so many tools of a file, or of all files of a folder. What is not taken takes no memory: that is measured.
fn picked(count: usize, path: &Path) -> Outcome<(Vec<Line>, Origin)> {
    let mut total = 0;
    each(path, |_, _, _| {
        total += 1;
        Ok(())
    })?;
    if total == 0 {
        return Err(format!("{} has no tools: give a file or a folder with NAME{SUFFIX}", path.display()).into());
    }
    let taken = total.min(count);
    let (mut at, mut lines) = (0, Vec::with_capacity(count));
    each(path, |file, number, line| {
        // The tools of one server stand together.
        if lines.len() < taken && at * taken >= lines.len() * total {
            let read =
                serde_json::from_str(line).map_err(|error| format!("{} line {number}: {error}", file.display()))?;
            lines.push(read);
        }
        at += 1;
        Ok(())
    })?;
    Ok((lines, if total < count { Origin::Mixed } else { Origin::Real }))
}

/// Passes each line with a tool on, with its file and number.
fn each(path: &Path, mut take: impl FnMut(&Path, usize, &str) -> Outcome<()>) -> Outcome<()> {
    for file in files(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))? {
        let refused = |error: std::io::Error| format!("{} cannot be read: {error}", file.display());
        let lines = BufReader::new(fs::File::open(&file).map_err(refused)?).lines();
        for (number, line) in (1..).zip(lines) {
            let line = line.map_err(refused)?;
            if !line.trim().is_empty() {
                take(&file, number, &line)?;
            }
        }
    }
    Ok(())
}

fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
    let mut files: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    files.retain(|file| file.to_str().is_some_and(|name| name.ends_with(SUFFIX)));
    files.sort();
    Ok(files)
}

/// Returns a tool like those of MCP servers: about 1.8 kilobytes, most of it parameters and their descriptions.
fn generated(number: usize) -> Line {
    let (verb, rest) = (VERBS[number % VERBS.len()], number / VERBS.len());
    let (thing, rest) = (THINGS[rest % THINGS.len()], rest / THINGS.len());
    let service = SERVICES[(rest + number) % SERVICES.len()];
    let parameters = 8 + number % 5;
    let mut properties = Map::new();
    for at in 0..parameters {
        let (name, kind, description) = PARAMETERS[(number + at) % PARAMETERS.len()];
        let mut schema = json!({ "type": kind, "description": format!("{description} ({thing})") });
        if kind == "array" {
            schema["items"] = json!({ "type": "string" });
        }
        properties.insert(name.to_owned(), schema);
    }
    let required: Vec<String> = properties.keys().take(2).cloned().collect();
    let description = format!(
        "{}{} {thing}s of the {service} service, number {number}.\nUse this to {verb} one {thing} or several of them by their workspace, \
         owner and labels. The result has the id, the title, the owner and the time of the last change of each {thing}. If there are \
         none, the list is empty.",
        verb[..1].to_uppercase(),
        &verb[1..],
    );
    let schema =
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    Line { server: service.to_owned(), name: format!("{verb}_{thing}_{number}"), description, schema }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(entry: &Entry) -> usize {
        let tool =
            json!({ "name": entry.id.name(), "description": entry.description, "parameters": entry.input_schema });
        tool.to_string().len()
    }

    #[test]
    fn generated_tools_are_as_large_as_real_ones_and_all_differ() {
        let catalog = Catalog::new(5000, None).expect("a catalog");
        assert_eq!((catalog.entries.len(), catalog.origin), (5000, Origin::Generated));
        let mean = catalog.entries.iter().map(size).sum::<usize>() / 5000;
        assert!((1500..2200).contains(&mean), "{mean} bytes");
        let ids: HashSet<String> = catalog.entries.iter().map(|entry| entry.id.to_string()).collect();
        assert_eq!(ids.len(), 5000);
        let queries = catalog.queries();
        assert!(queries.len() == 200 && queries.iter().all(|query| !query.trim().is_empty()), "{queries:?}");
    }

    #[test]
    fn tools_of_a_file_are_spread_over_it_and_filled_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let tool = |n: usize| json!({ "id": n, "server": "a:b", "name": format!("t{}", n / 2), "description": "x", "schema": { "type": "object" } });
        let text: Vec<String> = (0..10).map(|n| tool(n).to_string()).collect();
        let file = directory.path().join("x.tools.jsonl");
        fs::write(&file, text.join("\n\n")).expect("written");
        for path in [file.as_path(), directory.path()] {
            let of = |count| Catalog::new(count, Some(path)).expect("a catalog");
            let few: Vec<String> = of(5).entries.iter().map(|entry| entry.id.to_string()).collect();
            assert_eq!(few, [0, 1, 2, 3, 4].map(|n| format!("mcp:a-b:t{n}")));
            // Two tools of one name are told apart.
            let all = of(10);
            assert_eq!((all.origin, all.entries[1].id.to_string().as_str()), (Origin::Real, "mcp:a-b-2:t0"));
            assert_eq!((of(12).origin, of(12).entries.len()), (Origin::Mixed, 12));
        }
        for (path, why) in [("none", "cannot be read"), ("", "line 1")] {
            fs::write(&file, "{}").expect("written");
            let error = Catalog::new(1, Some(&directory.path().join(path))).err().expect(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
