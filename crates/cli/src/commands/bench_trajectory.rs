//! `pincer bench trajectory`: the export of a large session, in a process of its own.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pincer_runtime::Principal;
use pincer_sandbox::Json;
use pincer_sessions::{Block, Message, NestedCall, Role, new_entry_id, new_session_id};
use pincer_store::{Attach, EntryKind, NewEntry, NewSession, OwnerId, Safety, SessionCommit, Sessions};
use pincer_store_sqlite::SqliteStore;
use serde::Serialize;
use tokio::process::Command;

use crate::cells::Outcome;
use crate::measure::{peak_bytes_of, progress, reported};
use crate::print::{bytes, line, time};
use crate::usage_bench::TrajectoryBenchArguments;

/// The rounds that are stored together.
const TOGETHER: u32 = 50;
/// The calls of each program.
const CALLS: u32 = 8;
/// The words of each text: two kilobytes.
const WORDS: usize = 260;
/// Our limit for the peak of the memory. A figure beyond it is a defect.
const LIMIT_BYTES: usize = 64_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(2);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    session_bytes: u64,
    entries: u32,
    bundle_bytes: u64,
    events: u64,
    seconds: f64,
    peak_bytes: usize,
    limit_bytes: usize,
    is_kept: bool,
}

pub(crate) fn run(arguments: &TrajectoryBenchArguments) -> u8 {
    let megabytes = u64::from(arguments.megabytes);
    reported(arguments.json, measure(megabytes * 1_000_000), show)
}

fn show(report: &Report) {
    let size = |bytes_: u64| bytes(usize::try_from(bytes_).unwrap_or(usize::MAX));
    line(&format!(
        "a session of {} ({} entries) becomes a bundle of {} ({} events) in {}",
        size(report.session_bytes),
        report.entries,
        size(report.bundle_bytes),
        report.events,
        time(Duration::from_secs_f64(report.seconds)),
    ));
    let beyond = if report.is_kept { "" } else { "  BEYOND THE LIMIT" };
    line(&format!("peak memory: {} (limit: {}){beyond}", bytes(report.peak_bytes), bytes(report.limit_bytes)));
}

async fn measure(wanted: u64) -> Outcome<Report> {
    let folder = tempfile::tempdir()?;
    progress("a session is stored");
    let (session_bytes, entries) = filled(&folder.path().join("pincer.db"), wanted).await?;
    progress("it is exported");
    let began = Instant::now();
    let mut child = Command::new(std::env::current_exe()?)
        .args(["sessions", "export-trajectory", "large", "--json", "--output"])
        .arg(folder.path().join("bundle"))
        .arg("--state-dir")
        .arg(folder.path())
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()?;
    let pid = child.id().unwrap_or_default();
    let mut peak = 0;
    // The peak is kept by the system until the process ends: only what comes in the last moment is missed.
    let status = loop {
        peak = peak.max(peak_bytes_of(pid));
        if let Ok(status) = tokio::time::timeout(LOOK_EVERY, child.wait()).await {
            break status?;
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    progress("");
    let told = child.wait_with_output().await?;
    let told: serde_json::Value = serde_json::from_slice(&told.stdout)?;
    if !status.success() {
        return Err("the export failed".into());
    }
    Ok(Report {
        session_bytes,
        entries,
        bundle_bytes: told["bytes"].as_u64().unwrap_or_default(),
        events: told["counts"]["events"].as_u64().unwrap_or_default(),
        seconds,
        peak_bytes: peak,
        limit_bytes: LIMIT_BYTES,
        is_kept: peak <= LIMIT_BYTES,
    })
}

/// Stores a session of programs and their calls. Returns the bytes of its texts, and the number of its entries.
async fn filled(file: &Path, wanted: u64) -> Outcome<(u64, u32)> {
    let store = SqliteStore::open(file)?;
    let new = NewSession {
        id: new_session_id(),
        user: Principal::of_this_process().user().to_owned(),
        key: "large".into(),
        agent: None,
        label: None,
        parent: None,
        created_at: 1,
    };
    let session = store.create_session(new).await?;
    let fence =
        store.claim_session(&session.id, session.fence, &OwnerId::from("bench"), SessionCommit::default()).await?;
    let (mut stored, mut position, mut round) = (0, 0, 0);
    while stored < wanted {
        let mut entries = Vec::new();
        for _ in 0..TOGETHER {
            round += 1;
            add_round(&mut entries, &mut position, round);
        }
        stored += entries.iter().map(|entry| entry.body.len() as u64).sum::<u64>();
        let commit = SessionCommit { entries, now: round, ..SessionCommit::default() };
        store.commit_session(&session.id, fence, commit, Safety::Process).await?;
    }
    Ok((stored, position))
}

/// Adds a message, a program with its calls, and its result.
fn add_round(entries: &mut Vec<NewEntry>, position: &mut u32, round: i64) {
    let words = |salt: i64| {
        (0..WORDS).map(|word| format!("word{} ", (word as i64 * 7919 + salt * 104_729) % 9973)).collect::<String>()
    };
    let call = format!("call_{round}");
    let json = |text: &str| Json::of(&text).unwrap_or_else(|_| Json::null());
    let program = Block {
        kind: "toolCall".into(),
        id: Some(call.clone()),
        name: Some("exec".into()),
        arguments: Json::of(&serde_json::json!({ "code": format!("// {}\nreturn 1", words(round)) })).ok(),
        ..Block::default()
    };
    let message = |role, content| Message { role, content, ..Message::default() };
    let result = Message {
        tool_call_id: Some(call.clone()),
        tool_name: Some("exec".into()),
        is_error: Some(false),
        ..message(Role::ToolResult, vec![Block::text(words(round + 2))])
    };
    let mut add = |attach, kind, call: Option<String>, body: String| {
        *position += 1;
        entries.push(NewEntry {
            id: new_entry_id(),
            attach,
            kind,
            run: None,
            call,
            body: body.into(),
            events: None,
            at: round * 100,
        });
        *position
    };
    add(Attach::Leaf, EntryKind::Message, None, message(Role::User, vec![Block::text(words(round))]).to_body());
    let reply = message(Role::Assistant, vec![Block::text(words(round + 1)), program]);
    let reply = add(Attach::Leaf, EntryKind::Message, None, reply.to_body());
    add(Attach::Leaf, EntryKind::Message, Some(call.clone()), result.to_body());
    for seq in 0..CALLS {
        let nested = NestedCall {
            program: format!("cm_{round}"),
            seq,
            tool: "openclaw:core:read".into(),
            line: Some(seq + 1),
            input: json(&words(i64::from(seq))),
            output: Some(json(&words(round + i64::from(seq)))),
            error: None,
            duration_ms: Some(3),
            started_at: Some(round * 100 - 50 + i64::from(seq)),
            effect: Some("none".into()),
        };
        let body = serde_json::to_string(&nested).unwrap_or_default();
        add(Attach::Beside(reply), EntryKind::NestedCall, Some(call.clone()), body);
    }
}
