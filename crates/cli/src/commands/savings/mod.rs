//! `pincer savings`: what the tools and the instructions of agents took of their requests, and what direct exposure would have taken.

mod since;
mod sum;

use std::collections::BTreeMap;

use chrono::DateTime;
use pincer_runtime::Principal;
use pincer_store::{Clock, Figures, FiguresPage, Millis, RunFigures, SessionKey};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::one_line;
use serde_json::{Value, json};

pub(crate) use sum::{Sum, compared, figures};

use crate::commands::sessions::current;
use crate::print::{chain, count, short};
use crate::refused::{Refused, report};
use crate::usage::LocationArguments;
use crate::usage_savings::{By, SavingsArguments};
use crate::{FAILED, state, tokio_runtime};

/// The runs that are read at once.
const PAGE: u32 = 1000;
/// The most characters that are shown of a key.
const MOST_NAME: usize = 40;

pub(crate) fn run(locations: &LocationArguments, arguments: &SavingsArguments) -> u8 {
    let told = tokio_runtime::small().map_err(|error| Refused(FAILED, error.to_string()));
    report(told.and_then(|tokio| tokio.block_on(savings(locations, arguments))), arguments.json)
}

async fn savings(locations: &LocationArguments, arguments: &SavingsArguments) -> Result<(Value, String), Refused> {
    let store = state::open(locations).map_err(|error| Refused(FAILED, chain(&error)))?;
    let user = Principal::of_this_process().user().to_owned();
    let from = arguments.since.as_deref().map(|text| since::since(text, store.now())).transpose()?;
    let key = match arguments.session.as_deref() {
        Some(key) => Some(current(&store, &user, key).await?.key),
        None => None,
    };
    let (rows, total) = summed(&store, &user, key.as_ref(), from.unwrap_or(0), arguments.by).await?;
    let shown = &rows[..rows.len().min(arguments.limit as usize)];
    let document = json!({
        "session": key,
        "since": from,
        "by": arguments.by.word(),
        "rows": shown.iter().map(|row| row.document(arguments.by)).collect::<Vec<_>>(),
        "left": rows.len() - shown.len(),
        "total": total.document(),
    });
    Ok((document, text(&rows, shown, &total, arguments.by)))
}

impl By {
    fn word(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Day => "day",
        }
    }
}

/// A session or a day, and its runs.
struct Row {
    name: String,
    sum: Sum,
}

impl Row {
    fn document(&self, by: By) -> Value {
        let mut document = self.sum.document();
        document[by.word()] = json!(self.name);
        document
    }

    fn cells(&self) -> Vec<String> {
        let Sum { runs, tools, .. } = &self.sum;
        let tokens = |count: u64| short(i64::try_from(count).unwrap_or(i64::MAX));
        let percent = self.sum.saved_percent().map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1}"));
        vec![
            one_line(&self.name, MOST_NAME),
            if tools.surface.is_empty() { "-".to_owned() } else { one_line(&tools.surface, MOST_NAME) },
            runs.to_string(),
            tools.requests.to_string(),
            format!("{}/{}", tools.schemas_shown, tools.catalog_size),
            tokens(tools.sent.tokens),
            tokens(tools.direct_sent.tokens),
            short(tools.saved.tokens),
            percent,
            tools.search_count.to_string(),
            tools.describe_count.to_string(),
            tools.call_count.to_string(),
        ]
    }
}

/// Sums the runs of a user: the rows, those that changed last first, and all together.
async fn summed(
    store: &SqliteStore,
    user: &str,
    key: Option<&SessionKey>,
    from: Millis,
    by: By,
) -> Result<(Vec<Row>, Sum), Refused> {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    let mut total = Sum::default();
    let mut after = (from, -1);
    // A run that waited goes to the end when it ends: it counts once.
    let now = store.now();
    loop {
        let page = FiguresPage { user: user.to_owned(), key: key.cloned(), after, limit: PAGE };
        let page = store.run_figures(page).await?;
        for run in page.iter().take_while(|run| run.at <= now) {
            sums.entry(name(run, by)).or_default().add(run);
            total.add(run);
            after = (run.at, run.number);
        }
        if page.len() < PAGE as usize || page.last().is_some_and(|last| last.at > now) {
            break;
        }
    }
    let mut rows: Vec<Row> = sums.into_iter().map(|(name, sum)| Row { name, sum }).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.sum.last));
    Ok((rows, total))
}

fn name(run: &RunFigures, by: By) -> String {
    match by {
        By::Session => run.session_key.to_string(),
        By::Day => {
            let at = DateTime::from_timestamp_millis(run.at).unwrap_or_default();
            at.with_timezone(&chrono::Local).format("%Y-%m-%d").to_string()
        }
    }
}

fn text(rows: &[Row], shown: &[Row], total: &Sum, by: By) -> String {
    if rows.is_empty() {
        return "there are no runs to sum: `pincer agent -m 'Hello.'` makes one".to_owned();
    }
    let head = [
        &*by.word().to_uppercase(),
        "SURFACE",
        "RUNS",
        "REQUESTS",
        "SHOWN",
        "SENT",
        "DIRECT",
        "SAVED",
        "%",
        "SEARCHES",
        "DESCRIBES",
        "CALLS",
    ];
    let all = Row { name: "total".to_owned(), sum: total.clone() };
    let mut cells = vec![head.map(str::to_owned).to_vec()];
    cells.extend(shown.iter().map(Row::cells));
    cells.push(all.cells());
    let mut text = table(&cells);
    if shown.len() < rows.len() {
        let more = rows.len() - shown.len();
        text.push_str(&format!("\n(and {more} more: pincer savings --limit {})", rows.len()));
    }
    text.push_str(&format!("\n\nIn all, {}", compared(&total.tools)));
    if total.tools.cached_tokens > 0 {
        let cached = i64::try_from(total.tools.cached_tokens).unwrap_or(i64::MAX);
        text.push_str(&format!(". Of those sent, {} were in the provider's cache", short(cached)));
    }
    text.push('.');
    if total.unknown > 0 {
        let runs = count(total.unknown as usize, "run");
        text.push_str(&format!("\nNot counted: {runs} from before Pincer kept these figures."));
    }
    text
}

/// Returns rows with their columns one below the other: names to the left, numbers to the right.
fn table(rows: &[Vec<String>]) -> String {
    const NAMES: usize = 2;
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            ..NAMES => format!("{cell:width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
