//! `pincer bench search`: how well the catalog's search finds what people ask for, on data in a folder.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pincer_catalog::{Catalog, Entry, Index, Source, ToolId};
use serde::{Deserialize, Serialize};

use crate::cells::Outcome;
use crate::print::{chain, line, note};
use crate::usage_bench::SearchArguments;
use crate::{DONE, FAILED, WRONG_USAGE};

/// A line of `<set>.tools.jsonl`.
#[derive(Deserialize)]
struct Tool {
    id: String,
    server: String,
    name: String,
    description: String,
    schema: serde_json::Value,
}

/// A line of `<set>.queries.jsonl`. Each inner list is one needed tool with its alternatives.
#[derive(Deserialize)]
struct Query {
    query: String,
    relevant: Vec<Vec<String>>,
}

/// What may be searched: names and descriptions, or parameters too, as for trusted tools.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Nd,
    Ndp,
}

/// One set in one mode.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    set: String,
    mode: Mode,
    n: usize,
    r8: f64,
    ndcg10: f64,
    build_ms: f64,
    ms_per_query: f64,
}

pub(crate) fn run(arguments: &SearchArguments) -> u8 {
    let sets = match sets(&arguments.data) {
        Ok(sets) if sets.is_empty() => {
            note(&format!(
                "error: {} has no pair of NAME.tools.jsonl and NAME.queries.jsonl",
                arguments.data.display()
            ));
            return WRONG_USAGE;
        }
        Ok(sets) => sets,
        Err(error) => {
            note(&format!("error: {} cannot be read: {error}", arguments.data.display()));
            return WRONG_USAGE;
        }
    };
    if !arguments.json {
        line(&format!(
            "{:<24}{:>5}{:>8}{:>8}{:>9}{:>11}{:>12}",
            "set", "mode", "n", "r@8", "nDCG@10", "build", "per query"
        ));
    }
    for set in sets {
        for mode in [Mode::Nd, Mode::Ndp] {
            match measure(&arguments.data, &set, mode) {
                Ok(report) => show(&report, arguments.json),
                Err(error) => {
                    note(&format!("error: the set {set} cannot be measured: {}", chain(error.as_ref())));
                    return FAILED;
                }
            }
        }
    }
    DONE
}

fn show(report: &Report, json: bool) {
    if json {
        line(&serde_json::to_string(report).unwrap_or_default());
        return;
    }
    let Report { set, mode, n, r8, ndcg10, build_ms, ms_per_query } = report;
    let mode = if matches!(mode, Mode::Nd) { "nd" } else { "ndp" };
    line(&format!("{set:<24}{mode:>5}{n:>8}{r8:>8.3}{ndcg10:>9.3}{build_ms:>8.1} ms{ms_per_query:>9.3} ms"));
}

/// Names for which both files are there.
fn sets(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let set = name.to_str().and_then(|name| name.strip_suffix(".tools.jsonl"));
        names.extend(set.filter(|set| file(folder, set, "queries").exists()).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn file(folder: &Path, set: &str, kind: &str) -> PathBuf {
    folder.join(format!("{set}.{kind}.jsonl"))
}

fn lines<T: for<'de> Deserialize<'de>>(path: &Path) -> Outcome<Vec<T>> {
    let text = fs::read_to_string(path)?;
    let parse = |(index, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| format!("{} line {}: {error}", path.display(), index + 1).into())
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(parse).collect()
}

/// The catalog, and for each of its ids the id in the data.
fn catalog(tools: Vec<Tool>, mode: Mode) -> Outcome<(Catalog, HashMap<String, String>)> {
    let mut taken: HashSet<ToolId> = HashSet::new();
    let mut ids = HashMap::new();
    let mut entries = Vec::new();
    for tool in tools {
        // Punctuation tells tools of the same name apart without adding a word to search for.
        let mut owner = if tool.server.is_empty() { "-".to_owned() } else { tool.server.replace(':', "-") };
        let id = loop {
            let id = ToolId::new(Source::Mcp, owner.clone(), tool.name.clone())?;
            if taken.insert(id.clone()) {
                break id;
            }
            owner.push('~');
        };
        ids.insert(id.to_string(), tool.id);
        let mut entry = Entry::new(id, tool.description);
        entry.input_schema = tool.schema;
        entry.flags.trusted = matches!(mode, Mode::Ndp);
        entries.push(entry);
    }
    Ok((Catalog::new(entries)?, ids))
}

fn measure(folder: &Path, set: &str, mode: Mode) -> Outcome<Report> {
    let (catalog, ids) = catalog(lines(&file(folder, set, "tools"))?, mode)?;
    let queries: Vec<Query> = lines(&file(folder, set, "queries"))?;
    let start = Instant::now();
    let index = Index::new(&catalog);
    let build_ms = start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    let found: Vec<Vec<&str>> = queries
        .iter()
        .map(|query| index.search(&query.query, 10).iter().map(|entry| ids[&entry.id.to_string()].as_str()).collect())
        .collect();
    let n = queries.len();
    let ms_per_query = start.elapsed().as_secs_f64() * 1e3 / n.max(1) as f64;
    let scores: Vec<(f64, f64)> =
        queries.iter().zip(&found).map(|(query, found)| judge(&query.relevant, found)).collect();
    let mean = |score: fn(&(f64, f64)) -> f64| scores.iter().map(score).sum::<f64>() / n.max(1) as f64;
    Ok(Report { set: set.into(), mode, n, r8: mean(|s| s.0), ndcg10: mean(|s| s.1), build_ms, ms_per_query })
}

/// Recall at 8 and nDCG at 10 of one query.
fn judge(relevant: &[Vec<String>], found: &[&str]) -> (f64, f64) {
    let positions: BTreeMap<&str, usize> = found.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let best: Vec<usize> = relevant
        .iter()
        .filter_map(|alternatives| alternatives.iter().filter_map(|id| positions.get(id.as_str()).copied()).min())
        .collect();
    let gain = |position: usize| 1.0 / (position as f64 + 2.0).log2();
    let needed = relevant.len().max(1);
    let recall = best.iter().filter(|position| **position < 8).count() as f64 / needed as f64;
    let ideal: f64 = (0..needed.min(10)).map(gain).sum();
    (recall, best.into_iter().map(gain).sum::<f64>() / ideal)
}
