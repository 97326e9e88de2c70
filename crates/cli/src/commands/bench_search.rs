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
    #[serde(default)]
    qid: Option<String>,
    query: String,
    relevant: Vec<Vec<String>>,
}

impl Query {
    /// The id that tells it from others. The text, if the data has no ids.
    fn id(&self) -> &str {
        self.qid.as_deref().unwrap_or(&self.query)
    }

    /// Which part it belongs to: always the same one, whatever else is in the set. Steps of one task (`id#0`, `id#1`) stay together.
    fn part(&self) -> Part {
        let id = self.id();
        let task = id.split_once('#').map_or(id, |(task, _)| task);
        // FNV-1a: the standard library's hash may differ from release to release.
        let hash = task
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        if (hash >> 16) % 3 == 0 { Part::HeldOut } else { Part::Tuned }
    }
}

/// A line of the file of `--beside`: what another search found for a question.
#[derive(Deserialize)]
struct Ranking {
    set: String,
    mode: Mode,
    qid: String,
    found: Vec<String>,
}

/// The results of another search, by set, mode and question.
type Beside = HashMap<(String, Mode, String), Vec<String>>;

/// What may be searched: names and descriptions, or parameters too, as for trusted tools.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Nd,
    Ndp,
}

impl Mode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Nd => "nd",
            Self::Ndp => "ndp",
        }
    }
}

/// Two thirds of the questions are there to choose weights by, and one third to see whether that helps with other questions too.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Part {
    Tuned,
    HeldOut,
    All,
}

impl Part {
    const EACH: [Self; 3] = [Self::Tuned, Self::HeldOut, Self::All];

    fn as_str(self) -> &'static str {
        match self {
            Self::Tuned => "tuned",
            Self::HeldOut => "held out",
            Self::All => "all",
        }
    }
}

/// How well a search did, as means over questions.
#[derive(Clone, Copy, Default, Serialize)]
struct Score {
    r8: f64,
    ndcg10: f64,
}

impl Score {
    fn mean(scores: impl Iterator<Item = Self>) -> Self {
        let (mut sum, mut n) = (Self::default(), 0_u32);
        for score in scores {
            sum.r8 += score.r8;
            sum.ndcg10 += score.ndcg10;
            n += 1;
        }
        let n = f64::from(n.max(1));
        Self { r8: sum.r8 / n, ndcg10: sum.ndcg10 / n }
    }
}

/// One part of a set.
#[derive(Serialize)]
struct PartReport {
    part: Part,
    n: usize,
    #[serde(flatten)]
    ours: Score,
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<Score>,
}

/// One set in one mode.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    set: String,
    mode: Mode,
    n: usize,
    #[serde(flatten)]
    ours: Score,
    build_ms: f64,
    ms_per_query: f64,
    parts: Vec<PartReport>,
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
    let beside = match arguments.beside.as_deref().map(rankings).transpose() {
        Ok(beside) => beside,
        Err(error) => {
            note(&format!("error: the rankings to compare with cannot be read: {}", chain(error.as_ref())));
            return WRONG_USAGE;
        }
    };
    let mut reports = Vec::new();
    for set in sets {
        for mode in [Mode::Nd, Mode::Ndp] {
            match measure(&arguments.data, &set, mode, beside.as_ref()) {
                Ok(report) if arguments.json => line(&serde_json::to_string(&report).unwrap_or_default()),
                Ok(report) => reports.push(report),
                Err(error) => {
                    note(&format!("error: the set {set} cannot be measured: {}", chain(error.as_ref())));
                    return FAILED;
                }
            }
        }
    }
    if !arguments.json {
        show(&reports);
    }
    DONE
}

fn show(reports: &[Report]) {
    line(&format!(
        "{:<24}{:>5}{:>10}{:>8}{:>8}{:>9}{:>18}{:>11}{:>12}",
        "set", "mode", "part", "n", "r@8", "nDCG@10", "beside", "build", "per query"
    ));
    for Report { set, mode, build_ms, ms_per_query, parts, .. } in reports {
        for part in parts {
            let times = match part.part {
                Part::All => format!("{build_ms:>8.1} ms{ms_per_query:>9.3} ms"),
                Part::Tuned | Part::HeldOut => String::new(),
            };
            line(format!("{}{times}", row(set, *mode, part)).trim_end());
        }
    }
    for mode in [Mode::Nd, Mode::Ndp] {
        for part in Part::EACH {
            let parts = || {
                let same_mode = reports.iter().filter(|report| report.mode == mode);
                same_mode.flat_map(|report| &report.parts).filter(|report| report.part == part && report.n > 0)
            };
            let compared = parts().filter_map(|report| report.beside);
            let beside = parts().all(|report| report.beside.is_some()).then(|| Score::mean(compared));
            let ours = Score::mean(parts().map(|report| report.ours));
            line(row("mean of the sets", mode, &PartReport { part, n: parts().count(), ours, beside }).trim_end());
        }
    }
}

fn row(set: &str, mode: Mode, report: &PartReport) -> String {
    let PartReport { part, n, ours: Score { r8, ndcg10 }, beside } = report;
    let beside =
        beside.map(|beside| format!("{:.3} ({:+.3})", beside.ndcg10, ndcg10 - beside.ndcg10)).unwrap_or_default();
    format!("{set:<24}{:>5}{:>10}{n:>8}{r8:>8.3}{ndcg10:>9.3}{beside:>18}", mode.as_str(), part.as_str())
}

/// Reads what another search found.
fn rankings(path: &Path) -> Outcome<Beside> {
    let rankings: Vec<Ranking> = lines(path)?;
    Ok(rankings.into_iter().map(|Ranking { set, mode, qid, found }| ((set, mode, qid), found)).collect())
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

fn measure(folder: &Path, set: &str, mode: Mode, beside: Option<&Beside>) -> Outcome<Report> {
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
    let ours: Vec<Score> = queries.iter().zip(&found).map(|(query, found)| judge(&query.relevant, found)).collect();
    let others = beside.map(|beside| judge_others(beside, set, mode, &queries)).transpose()?;
    let parts: Vec<PartReport> = Part::EACH
        .into_iter()
        .map(|part| {
            let of_part = |scores: &[Score]| -> Vec<Score> {
                let judged = queries.iter().zip(scores);
                judged.filter(|(query, _)| part == Part::All || query.part() == part).map(|(_, score)| *score).collect()
            };
            let ours = of_part(&ours);
            let beside = others.as_deref().map(|others| Score::mean(of_part(others).into_iter()));
            PartReport { part, n: ours.len(), ours: Score::mean(ours.into_iter()), beside }
        })
        .collect();
    let ours = parts.last().map(|all| all.ours).unwrap_or_default();
    Ok(Report { set: set.into(), mode, n, ours, build_ms, ms_per_query, parts })
}

/// How well another search did with each question.
fn judge_others(beside: &Beside, set: &str, mode: Mode, queries: &[Query]) -> Outcome<Vec<Score>> {
    let judged = queries.iter().map(|query| {
        let key = (set.to_owned(), mode, query.id().to_owned());
        let found = beside.get(&key).ok_or_else(|| {
            format!("the rankings have none in the mode {} for the question `{}`", mode.as_str(), query.id())
        })?;
        Ok(judge(&query.relevant, &found.iter().map(String::as_str).collect::<Vec<_>>()))
    });
    judged.collect()
}

/// Recall at 8 and nDCG at 10 of one query.
fn judge(relevant: &[Vec<String>], found: &[&str]) -> Score {
    let positions: BTreeMap<&str, usize> = found.iter().take(10).enumerate().map(|(at, id)| (*id, at)).collect();
    let best: Vec<usize> = relevant
        .iter()
        .filter_map(|alternatives| alternatives.iter().filter_map(|id| positions.get(id.as_str()).copied()).min())
        .collect();
    let gain = |position: usize| 1.0 / (position as f64 + 2.0).log2();
    let needed = relevant.len().max(1);
    let recall = best.iter().filter(|position| **position < 8).count() as f64 / needed as f64;
    let ideal: f64 = (0..needed.min(10)).map(gain).sum();
    Score { r8: recall, ndcg10: best.into_iter().map(gain).sum::<f64>() / ideal }
}
