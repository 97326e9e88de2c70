//! `pincer exec` and `pincer wait`: one program, and what it came to.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pincer_codemode::{
    CodeModeResult, ErrorCode, ExecInput, PendingState, People, TIMEOUT_MS, WaitInput, WaitReason, Waiting,
};
use pincer_process::Worker;
use pincer_runtime::{Runtime, Scope};
use pincer_sandbox::Output;
use pincer_store::{ApprovalId, ApprovalState, Approvals, Listings, RunId, Runs};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{ApprovalRequest, Event, EventKind};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::asking::{ask, somebody_is_here};
use crate::commands::runs::LEAST_PREFIX;
use crate::interrupt::{Interrupted, Interruptions};
use crate::opened::{for_programs, request};
use crate::print::{chain, exit_code, line, note, value};
use crate::progress::Progress;
use crate::usage::{CellArguments, ExecArguments, LocationArguments, WaitArguments};
use crate::{DONE, FAILED, INTERRUPTED, WAITING, WRONG_USAGE};

/// What is to be done.
enum Job {
    Exec(ExecInput),
    Wait(String),
}

pub(crate) fn exec(locations: &LocationArguments, arguments: &ExecArguments, worker: Worker) -> u8 {
    let source = match (&arguments.code, &arguments.file) {
        (Some(code), _) => Ok(code.clone()),
        (None, Some(file)) => read(file),
        (None, None) => Err("there is no program: pass -e CODE, a file, or - for standard input".into()),
    };
    let source = match source {
        Ok(source) => source,
        Err(error) => {
            show_refused(&CodeModeResult::refused(ErrorCode::InvalidInput, error), arguments.cell.json);
            return ended(worker, WRONG_USAGE);
        }
    };
    let typescript = arguments.typescript
        || arguments
            .file
            .as_deref()
            .is_some_and(|file| file.extension().is_some_and(|kind| kind == "ts" || kind == "mts"));
    let input = if typescript { ExecInput::typescript(source) } else { ExecInput::javascript(source) };
    let input = input.with_key(arguments.key.clone());
    run(locations, &arguments.cell, Job::Exec(input), worker)
}

pub(crate) fn wait(locations: &LocationArguments, arguments: &WaitArguments, worker: Worker) -> u8 {
    run(locations, &arguments.cell, Job::Wait(arguments.run_id.clone()), worker)
}

fn ended(worker: Worker, code: u8) -> u8 {
    // A front that is gone needs no code.
    let _ = worker.end(exit_code(code));
    code
}

fn run(locations: &LocationArguments, arguments: &CellArguments, job: Job, worker: Worker) -> u8 {
    if let Some(said) = arguments.timeout_ms.filter(|said| !TIMEOUT_MS.contains(said)) {
        let (least, most) = (TIMEOUT_MS.start(), TIMEOUT_MS.end());
        let clamped = said.clamp(*least, *most);
        note(&format!("warning: --timeout-ms {said} is not within {least} to {most}: {clamped} is used"));
    }
    let runtime = match crate::tokio_runtime::small() {
        Ok(runtime) => runtime,
        Err(error) => {
            show_refused(&CodeModeResult::refused(ErrorCode::RuntimeUnavailable, chain(&error)), arguments.json);
            return ended(worker, FAILED);
        }
    };
    let code = runtime.block_on(attended(locations, arguments, job, worker));
    // A question at the terminal may still wait for a line.
    runtime.shutdown_background();
    code
}

/// Runs it, and stays with it: progress, questions, interruptions.
async fn attended(locations: &LocationArguments, arguments: &CellArguments, job: Job, worker: Worker) -> u8 {
    let people = if somebody_is_here() && !arguments.json { People::Present } else { People::Absent };
    let progress = Arc::new(Progress::new(!arguments.json));
    let (tell, questions) = unbounded_channel();
    let shown = Arc::clone(&progress);
    let runtime = match for_programs(locations, |options| options) {
        Ok(runtime) => runtime,
        Err(refused) => {
            show_refused(&refused, arguments.json);
            return ended(worker, code_of(&refused));
        }
    };
    runtime.events().observe(Arc::new(move |event: &Event| {
        shown.event(event);
        if let EventKind::ApprovalRequested { approval } = &event.what {
            let _ = tell.send(approval.clone());
        }
    }));
    if let Some(moved) = runtime.moved_workspace().filter(|_| somebody_is_here()) {
        note(&format!("note: {moved}"));
    }
    let scope = match runtime.scope(&request(&arguments.session, &arguments.scope)) {
        Ok(scope) => scope.with_people(people),
        Err(error) => {
            let refused = error.refused();
            show_refused(&refused, arguments.json);
            runtime.shutdown(Duration::ZERO).await;
            return ended(worker, code_of(&refused));
        }
    };
    let scope = match arguments.timeout_ms {
        Some(timeout) => scope.with_settings(|settings| settings.timeout_ms(timeout)),
        None => scope,
    };
    let (result, interrupted) = tend(&runtime, &scope, job, &progress, questions).await;
    progress.end();
    show(&result, runtime.store(), arguments.json);
    let code = exit_code(if interrupted { INTERRUPTED } else { code_of(&result) });
    // Tools that are in the middle of something are not stopped because their program waits: this half stays with them.
    if runtime.is_busy() && worker_lets_go(worker, code) {
        let mut interrupted = Interruptions::listen();
        tokio::select! {
            () = runtime.linger() => {}
            _ = interrupted.next() => {}
        }
    }
    runtime.shutdown(Duration::ZERO).await;
    code
}

fn worker_lets_go(worker: Worker, code: u8) -> bool {
    match worker.let_go(code) {
        Ok(()) => true,
        Err(error) => {
            note(&format!("warning: what still runs ends with this process: {error}"));
            false
        }
    }
}

/// Returns the result, and whether a person at the keyboard did not want to wait for it.
async fn tend(
    runtime: &Runtime,
    scope: &Scope,
    job: Job,
    progress: &Progress,
    mut questions: UnboundedReceiver<ApprovalId>,
) -> (CodeModeResult, bool) {
    let mut interrupted = Interruptions::listen();
    let going = async {
        match job {
            Job::Exec(input) => runtime.exec(scope, input).await,
            Job::Wait(id) => match whole_id(runtime.store(), &id).await {
                Ok(run_id) => runtime.wait(scope, &WaitInput { run_id }).await,
                Err(error) => CodeModeResult::refused(ErrorCode::InvalidInput, error),
            },
        }
    };
    tokio::pin!(going);
    loop {
        tokio::select! {
            biased;
            by = interrupted.next() => return end_early(runtime, scope, by, progress, going).await,
            result = &mut going => return (result, false),
            Some(question) = questions.recv(), if scope.people() == People::Present => {
                let Ok(approval) = runtime.store().approval(&question).await else { continue };
                if approval.state != ApprovalState::Pending {
                    continue;
                }
                progress.pause();
                tokio::select! {
                    () = ask(runtime, &approval) => progress.resume(),
                    () = answered_elsewhere(runtime.store(), &approval.id) => {
                        note("\n(answered elsewhere)");
                        progress.resume();
                    }
                    result = &mut going => return (result, false),
                    by = interrupted.next() => return end_early(runtime, scope, by, progress, going).await,
                }
            }
        }
    }
}

/// Until somebody else has settled a question.
async fn answered_elsewhere(store: &SqliteStore, id: &ApprovalId) {
    while store.approval(id).await.is_ok_and(|approval| approval.state == ApprovalState::Pending) {
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

async fn end_early(
    runtime: &Runtime,
    scope: &Scope,
    by: Interrupted,
    progress: &Progress,
    going: impl Future<Output = CodeModeResult>,
) -> (CodeModeResult, bool) {
    // What ends now is not news.
    progress.pause();
    match by {
        Interrupted::ByPerson => {
            scope.abort().cancel();
            (going.await, true)
        }
        Interrupted::BySystem => {
            let (result, ()) = tokio::join!(going, runtime.end_programs());
            (result, false)
        }
    }
}

/// The id of the one run that begins so, or the id itself.
async fn whole_id(store: &SqliteStore, prefix: &str) -> Result<RunId, String> {
    if prefix.len() < LEAST_PREFIX || store.run(&prefix.into()).await.is_ok() {
        return Ok(prefix.into());
    }
    match &store.runs_named(prefix).await.unwrap_or_default()[..] {
        [] => Ok(prefix.into()),
        [only] => Ok(only.clone()),
        several => Err(format!(
            "{} runs begin with {prefix}: give more of the id; `pincer runs list` shows them",
            several.len()
        )),
    }
}

pub(crate) fn code_of(result: &CodeModeResult) -> u8 {
    match result {
        CodeModeResult::Completed(_) => DONE,
        CodeModeResult::Waiting(_) => WAITING,
        CodeModeResult::Failed(failed) if failed.code == Some(ErrorCode::InvalidConfig) => WRONG_USAGE,
        CodeModeResult::Failed(_) => FAILED,
    }
}

/// One byte more than a program may have.
const MOST_SOURCE: u64 = (1 << 20) + 1;

pub(crate) fn read(file: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let (name, read) = if file == Path::new("-") {
        ("standard input".to_owned(), io::stdin().lock().take(MOST_SOURCE).read_to_end(&mut bytes))
    } else {
        let read = fs::File::open(file).and_then(|file| file.take(MOST_SOURCE).read_to_end(&mut bytes));
        (file.display().to_string(), read)
    };
    read.map_err(|error| {
        let code = name.contains([' ', '(', ';']);
        let hint = if code { "; a program itself is passed with -e" } else { "" };
        format!("{name} cannot be read: {error}{hint}")
    })?;
    if bytes.len() as u64 == MOST_SOURCE {
        return Err(format!("{name} is longer than the {} bytes that a program may have", MOST_SOURCE - 1));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("{name} is not UTF-8 text (the first bad byte is number {}): a program must be", at + 1)
    })
}

/// Shows a result that is not about a run.
pub(crate) fn show_refused(result: &CodeModeResult, json: bool) {
    print(result, json, |_| String::new());
}

fn show(result: &CodeModeResult, store: &SqliteStore, json: bool) {
    print(result, json, |waiting| told(waiting, store));
}

fn print(result: &CodeModeResult, json: bool, told: impl Fn(&Waiting) -> String) {
    if json {
        match serde_json::to_string(result) {
            Ok(json) => line(&json),
            Err(error) => note(&format!("error: the result cannot be written as JSON: {error}")),
        }
        return;
    }
    for item in result.output() {
        match item {
            Output::Text { text } => line(text),
            Output::Json { value: json } => line(&value(json)),
        }
    }
    match result {
        CodeModeResult::Completed(done) => {
            line(&value(&done.value));
            done.notes.iter().for_each(|text| note(&format!("note: {text}")));
        }
        CodeModeResult::Failed(failed) => {
            note(&format!("error: {}", failed.error));
            if let Some(id) = &failed.run_id {
                note(&format!("continue with: pincer wait {id}"));
            }
        }
        CodeModeResult::Waiting(waiting) => note(&told(waiting)),
    }
}

/// Returns what a suspended program waits for, and how to go on.
fn told(waiting: &Waiting, store: &SqliteStore) -> String {
    let mut text = match waiting.reason {
        WaitReason::Yield => "the program has yielded".to_owned(),
        WaitReason::PendingTools => "the program waits:".to_owned(),
    };
    for call in waiting.pending_tool_calls.iter().filter(|_| waiting.reason == WaitReason::PendingTools) {
        let what = match (call.tool_id.as_deref(), call.method.as_str()) {
            (Some(tool), _) => tool,
            (None, "sleep") => "a timer of its own",
            (None, method) => method,
        };
        let how = match (call.state, &call.approval_id) {
            (PendingState::Approval, Some(id)) => {
                format!("{}\n    needs an answer: pincer approvals allow {id} (or deny)", asked(store, id))
            }
            (state, _) => format!("  {}", state.as_str()),
        };
        text.push_str(&format!("\n  {what}{how}"));
    }
    format!("{text}\ncontinue with: pincer wait {}", waiting.run_id)
}

/// Returns the question of a call, in lines of their own.
fn asked(store: &SqliteStore, approval: &ApprovalId) -> String {
    let Ok(approval) = store.approval(approval).wait() else { return String::new() };
    ApprovalRequest::of(&approval).text().lines().fold(String::new(), |text, line| text + "\n    " + line)
}
