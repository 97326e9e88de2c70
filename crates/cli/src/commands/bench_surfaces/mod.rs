//! `pincer bench surfaces`: what the first request of a conversation carries, for catalogs of several sizes behind each surface.
//!
//! Each row is measured in a process of its own, so that no surface uses memory that another one has left behind.

mod catalog;
mod measure;

use serde::{Deserialize, Serialize};
use tokio::process::Command;

use self::catalog::Origin;
use crate::cells::Outcome;
use crate::measure::{Summary, progress};
use crate::print::{bytes, chain, line, note};
use crate::usage_bench::{SurfaceMode, SurfacesArguments};
use crate::{DONE, FAILED, tokio_runtime};

/// One surface over one catalog.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// The tools of the catalog.
    tools: u32,
    origin: Origin,
    mode: SurfaceMode,
    /// The tools that the model sees.
    schemas: usize,
    /// The body of the first request, in each wire format.
    request: Requests,
    /// The surface and the instructions, built for the first time: with the catalog of the run, and its index.
    first_build_ms: f64,
    /// The same later.
    build_ms: Summary,
    /// A search for eight tools; with direct exposure there is none.
    search_ms: Option<Summary>,
    /// The growth of resident memory by the tools, their catalog and the surface.
    memory_bytes: usize,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Requests {
    chat: Carried,
    responses: Carried,
    messages: Carried,
}

/// The size of a request.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Carried {
    bytes: usize,
    /// Tokens of `o200k_base`.
    tokens: usize,
}

pub(crate) fn run(arguments: &SurfacesArguments) -> u8 {
    let measured = tokio_runtime::small().map_err(Into::into).and_then(|runtime| runtime.block_on(all(arguments)));
    match measured {
        Ok(()) => DONE,
        Err(error) => {
            note(&format!("error: the benchmark did not run: {}", chain(error.as_ref())));
            FAILED
        }
    }
}

async fn all(arguments: &SurfacesArguments) -> Outcome<()> {
    if let (Some(mode), [count]) = (arguments.case, &arguments.tools[..]) {
        line(&serde_json::to_string(&measure::measure(mode, *count, arguments).await?)?);
        return Ok(());
    }
    if !arguments.json {
        if arguments.data.is_none() {
            line("The tools are generated: --data takes real ones.");
        }
        line(&format!(
            "{:>6} {:<10}{:<10}{:>7}{:>12}{:>10}{:>11}{:>11}{:>11}{:>11}{:>11}",
            "tools", "", "mode", "shown", "request", "tokens", "built", "again", "search p50", "p95", "memory"
        ));
    }
    for count in &arguments.tools {
        for mode in SurfaceMode::ALL {
            progress(&format!("{count} tools, {}", mode.word()));
            let row = row(mode, *count, arguments).await?;
            progress("");
            match arguments.json {
                true => line(&serde_json::to_string(&row)?),
                false => show(&row),
            }
        }
    }
    Ok(())
}

/// Measures one row in a child.
async fn row(mode: SurfaceMode, count: u32, arguments: &SurfacesArguments) -> Outcome<Row> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "surfaces", "--json", "--case", mode.word(), "--tools", &count.to_string()]);
    command.args(["--rounds", &arguments.rounds.to_string()]);
    if let Some(data) = &arguments.data {
        command.arg("--data").arg(data);
    }
    let child = command.kill_on_drop(true).output().await?;
    let why = || {
        let said = String::from_utf8_lossy(&child.stderr).into_owned();
        format!("{count} tools with {}: {}", mode.word(), said.trim().trim_start_matches("error: "))
    };
    serde_json::from_slice(&child.stdout).map_err(|_| why().into())
}

fn show(row: &Row) {
    let Row { tools, origin, mode, schemas, request, first_build_ms, build_ms, search_ms, memory_bytes } = row;
    let origin = match origin {
        Origin::Real => "real",
        Origin::Generated => "generated",
        Origin::Mixed => "both",
    };
    let ms = |ms: f64| format!("{ms:.2} ms");
    let search = |of: fn(&Summary) -> f64| search_ms.as_ref().map_or_else(|| "-".to_owned(), |found| ms(of(found)));
    line(&format!(
        "{tools:>6} {origin:<10}{:<10}{schemas:>7}{:>12}{:>10}{:>11}{:>11}{:>11}{:>11}{:>11}",
        mode.word(),
        bytes(request.chat.bytes),
        request.chat.tokens,
        ms(*first_build_ms),
        ms(build_ms.p50),
        search(|found| found.p50),
        search(|found| found.p95),
        bytes(*memory_bytes),
    ));
}
