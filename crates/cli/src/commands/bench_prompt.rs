//! `pincer bench prompt`: putting the instructions of a model together, with a hundred skills and six bootstrap files.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pincer_agent::{Agent, Request, Status};
use pincer_config::Loaded;
use pincer_runtime::{EngineStart, ModelSetup, Runtime, RuntimeOptions};
use pincer_scripted::{Script, Server};
use pincer_store::SessionKey;
use serde::Serialize;
use serde_json::json;

use crate::cells::Outcome;
use crate::measure::{Summary, milliseconds, progress, reported, summary};
use crate::notices;
use crate::print::{line, time};
use crate::usage_bench::BenchArguments;

const SKILLS: usize = 100;
const FILES: [&str; 6] = ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md", "MEMORY.md"];
/// The characters of each file.
const FILE_CHARS: usize = 4000;
const USER: &str = "bench";
const WARM_UP: u32 = 20;
/// Our limit. A figure beyond it is a defect.
const LIMIT_MS: f64 = 2.0;

/// The measurements, in milliseconds.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    figure: &'static str,
    skills: usize,
    files: usize,
    bytes: usize,
    /// In a session that has its list of skills.
    warm: Summary,
    /// In a new session, for which the skills are looked for.
    first: Summary,
    limit_ms: f64,
    is_kept: bool,
}

pub(crate) fn run(arguments: &BenchArguments) -> u8 {
    reported(arguments.json, measure(arguments.rounds), show)
}

async fn measure(rounds: u32) -> Outcome<Report> {
    let directory = tempfile::tempdir()?;
    fill(directory.path())?;
    let server = Server::start(Script::parse("{ replies: [{ parts: [{ text: 'Done.' }] }] }")?)?;
    let config = json!({
        "workspace": directory.path().join("workspace"),
        "models": { "providers": { "scripted": { "baseUrl": format!("{}/v1", server.url()), "apiKey": "none" } } },
        "agents": { "defaults": { "model": "scripted/scripted" } },
    });
    let loaded = Loaded { parsed: pincer_config::parse(&config.to_string(), &|_| None)?, ..Loaded::default() };
    let models = ModelSetup::new(&loaded, Some(directory.path()));
    let options = RuntimeOptions {
        engine: EngineStart::WhenNeeded,
        observer: notices::observer(),
        ..RuntimeOptions::new(loaded, directory.path().join("state"))
    };
    let agent = Agent::new(Arc::new(Runtime::open(options)?), models);
    // With its first message the session gets its list of skills.
    let (known, unknown) = (SessionKey::from("known"), SessionKey::from("unknown"));
    let run = agent.submit(USER, &known, Request::new("Hello."), None).await?.run_id;
    let outcome = agent.outcome(USER, &run).await?;
    if outcome.status != Status::Ok {
        return Err(format!("the run came to {outcome:?}").into());
    }
    let mut bytes = 0;
    let mut of = async |key: &SessionKey, rounds: u32| -> Outcome<Summary> {
        let mut samples = Vec::new();
        for round in 0..WARM_UP + rounds {
            let began = Instant::now();
            let shown = agent.show_prompt(USER, key, &Request::new("Hello.")).await?;
            let took = began.elapsed();
            bytes = shown.prompt.parts.iter().map(|part| part.text.len()).sum();
            if round >= WARM_UP {
                samples.push(took);
            }
        }
        Ok(summary(samples, milliseconds))
    };
    progress("a session with its list of skills");
    let warm = of(&known, rounds).await?;
    progress("a new session");
    let first = of(&unknown, rounds.div_ceil(10)).await?;
    progress("");
    agent.close().await;
    let is_kept = warm.p50 < LIMIT_MS;
    Ok(Report { figure: "prompt", skills: SKILLS, files: FILES.len(), bytes, warm, first, limit_ms: LIMIT_MS, is_kept })
}

/// Writes the skills and the files.
fn fill(directory: &Path) -> Outcome<()> {
    let workspace = directory.join("workspace");
    for number in 0..SKILLS {
        let folder = workspace.join(format!("skills/skill-{number}"));
        fs::create_dir_all(&folder)?;
        let requires = r#"{"openclaw":{"requires":{"bins":["sh"]}}}"#;
        let text = format!(
            "---\nname: skill-{number}\ndescription: How to do the {number}th kind of task, and when to do it.\nmetadata: {requires}\n---\n"
        );
        fs::write(folder.join("SKILL.md"), text + &"A line of it.\n".repeat(200))?;
    }
    for name in FILES {
        fs::write(workspace.join(name), "A line about it.\n".repeat(FILE_CHARS / 17))?;
    }
    Ok(())
}

fn show(report: &Report) {
    let shown = |milliseconds: f64| time(Duration::from_secs_f64(milliseconds / 1000.0));
    let kept = if report.is_kept { "kept" } else { "NOT KEPT" };
    line(&format!("{:<48}{:>12}{:>12}", "", "p50", "p95"));
    let Report { skills, files, bytes, warm, first, limit_ms, .. } = report;
    line(&format!("{skills} skills and {files} files, {bytes} bytes"));
    line(&format!(
        "{:<48}{:>12}{:>12}   limit {limit_ms} ms: {kept}",
        "  in a session with its list",
        shown(warm.p50),
        shown(warm.p95)
    ));
    line(&format!("{:<48}{:>12}{:>12}", "  in a new session", shown(first.p50), shown(first.p95)));
}
