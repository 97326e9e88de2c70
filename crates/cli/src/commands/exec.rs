//! `pincer exec` and `pincer wait`: one program, and what it came to.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use pincer_codemode::{
    CodeModeResult, ErrorCode, ExecInput, PendingState, People, RunScope, TIMEOUT_MS, WaitInput, WaitReason, Waiting,
};
use pincer_process::Worker;
use pincer_sandbox::Output;
use pincer_store::{ApprovalState, Approvals, Runs, SqliteStore};
use pincer_tools::EventKind;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::asking::{ask, somebody_is_here};
use crate::codemode::Ready;
use crate::interrupt::{Interrupted, Interruptions};
use crate::print::{line, note, value};
use crate::progress::Progress;
use crate::usage::{CellArguments, ExecArguments, PlaceArguments, WaitArguments};
use crate::{DONE, FAILED, INTERRUPTED, WAITING, WRONG_USAGE};

/// What is to be done.
enum Job {
    Exec(ExecInput),
    Wait(String),
}

pub(crate) fn exec(places: &PlaceArguments, arguments: &ExecArguments, worker: Worker) -> u8 {
    let source = match (&arguments.code, &arguments.file) {
        (Some(code), _) => Ok(code.clone()),
        (None, Some(file)) => read(file),
        (None, None) => Err("there is no program: pass -e CODE, a file, or - for standard input".into()),
    };
    let source = match source {
        Ok(source) => source,
        Err(error) => {
            note(&format!("error: {error}"));
            return ended(worker, WRONG_USAGE);
        }
    };
    let typescript = arguments.typescript
        || arguments
            .file
            .as_deref()
            .is_some_and(|file| file.extension().is_some_and(|kind| kind == "ts" || kind == "mts"));
    let input = if typescript { ExecInput::typescript(source) } else { ExecInput::javascript(source) };
    run(places, &arguments.cell, Job::Exec(input), worker)
}

pub(crate) fn wait(places: &PlaceArguments, arguments: &WaitArguments, worker: Worker) -> u8 {
    run(places, &arguments.cell, Job::Wait(arguments.run_id.clone()), worker)
}

fn ended(worker: Worker, code: u8) -> u8 {
    // A front that is gone needs no code.
    let _ = worker.end(code);
    code
}

fn run(places: &PlaceArguments, arguments: &CellArguments, job: Job, worker: Worker) -> u8 {
    if let Some(said) = arguments.timeout_ms.filter(|said| !TIMEOUT_MS.contains(said)) {
        let (least, most) = (TIMEOUT_MS.start(), TIMEOUT_MS.end());
        let clamped = said.clamp(*least, *most);
        note(&format!("warning: --timeout-ms {said} is not within {least} to {most}: {clamped} is used"));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            show(&CodeModeResult::refused(ErrorCode::RuntimeUnavailable, error.to_string()), arguments.json);
            return ended(worker, FAILED);
        }
    };
    let code = runtime.block_on(attended(places, arguments, job, worker));
    // A question at the terminal may still wait for a line.
    runtime.shutdown_background();
    code
}

/// Runs it, and stays with it: progress, questions, interruptions.
async fn attended(places: &PlaceArguments, arguments: &CellArguments, job: Job, worker: Worker) -> u8 {
    let people = if somebody_is_here() && !arguments.json { People::Present } else { People::Absent };
    let progress = Arc::new(Progress::new(!arguments.json));
    let (tell, questions) = unbounded_channel();
    let shown = Arc::clone(&progress);
    let events = move |event: pincer_tools::Event| {
        shown.event(&event);
        if let EventKind::ApprovalRequested { approval } = event.what {
            let _ = tell.send(approval);
        }
    };
    let ready = match Ready::new(places, &arguments.scope, events) {
        Ok(ready) => ready,
        Err(refused) => {
            show(&refused, arguments.json);
            return ended(worker, code_of(&refused));
        }
    };
    let scope = match ready.scope(&arguments.session, &arguments.scope, people) {
        Ok(scope) => scope,
        Err(refused) => {
            show(&refused, arguments.json);
            return ended(worker, code_of(&refused));
        }
    };
    let settings = match arguments.timeout_ms {
        Some(timeout) => scope.settings.clone().timeout_ms(timeout),
        None => scope.settings.clone(),
    };
    let scope = RunScope { settings, ..scope };
    let result = tend(&ready, &scope, job, &progress, questions).await;
    progress.end();
    let code = match &result {
        Some(result) => {
            show(result, arguments.json);
            code_of(result)
        }
        None => INTERRUPTED,
    };
    // Tools that are in the middle of something are not stopped because their program waits: this half stays with them.
    if ready.mode.is_busy() && worker_lets_go(worker, code) {
        ready.mode.linger().await;
    }
    ready.end().await;
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

/// The result; nothing if somebody at the keyboard did not want to wait for it.
async fn tend(
    ready: &Ready,
    scope: &RunScope,
    job: Job,
    progress: &Progress,
    mut questions: UnboundedReceiver<String>,
) -> Option<CodeModeResult> {
    let mut interrupted = Interruptions::listen();
    let going = async {
        match job {
            Job::Exec(input) => ready.mode.exec(scope, input).await,
            Job::Wait(id) => {
                let run_id = whole_id(&ready.store, &id).unwrap_or(id);
                ready.mode.wait(scope, &WaitInput { run_id }).await
            }
        }
    };
    tokio::pin!(going);
    loop {
        tokio::select! {
            biased;
            by = interrupted.next() => return end_early(ready, scope, by, going).await,
            result = &mut going => return Some(result),
            Some(question) = questions.recv(), if scope.people == People::Present => {
                let Ok(approval) = ready.store.approval(&question) else { continue };
                if approval.state != ApprovalState::Pending {
                    continue;
                }
                progress.pause();
                tokio::select! {
                    () = ask(&ready.door, &approval) => {}
                    by = interrupted.next() => return end_early(ready, scope, by, going).await,
                }
            }
        }
    }
}

async fn end_early(
    ready: &Ready,
    scope: &RunScope,
    by: Interrupted,
    going: impl Future<Output = CodeModeResult>,
) -> Option<CodeModeResult> {
    match by {
        Interrupted::ByPerson => {
            scope.context.abort.cancel();
            let _ = going.await;
            None
        }
        Interrupted::BySystem => {
            let (result, ()) = tokio::join!(going, ready.mode.shutdown());
            Some(result)
        }
    }
}

/// The id of the one run that begins so, if there is one.
fn whole_id(store: &SqliteStore, prefix: &str) -> Option<String> {
    const LEAST: usize = 6;
    if prefix.len() < LEAST || store.run(prefix).is_ok() {
        return None;
    }
    let runs = store.runs(None).ok()?;
    let mut found = runs.into_iter().map(|run| run.id).filter(|id| id.starts_with(prefix));
    found.next().filter(|_| found.next().is_none())
}

fn code_of(result: &CodeModeResult) -> u8 {
    match result {
        CodeModeResult::Completed(_) => DONE,
        CodeModeResult::Waiting(_) => WAITING,
        CodeModeResult::Failed(failed) if failed.code == Some(ErrorCode::InvalidConfig) => WRONG_USAGE,
        CodeModeResult::Failed(_) => FAILED,
    }
}

/// One byte more than a program may have.
const MOST_SOURCE: u64 = (1 << 20) + 1;

fn read(file: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let (name, read) = if file == Path::new("-") {
        ("standard input".to_owned(), io::stdin().lock().take(MOST_SOURCE).read_to_end(&mut bytes))
    } else {
        let read = fs::File::open(file).and_then(|file| file.take(MOST_SOURCE).read_to_end(&mut bytes));
        (file.display().to_string(), read)
    };
    read.map_err(|error| format!("{name} cannot be read: {error}"))?;
    if bytes.len() as u64 == MOST_SOURCE {
        return Err(format!("{name} is longer than the {} bytes that a program may have", MOST_SOURCE - 1));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("{name} is not UTF-8 text (the first bad byte is number {}): a program must be", at + 1)
    })
}

fn show(result: &CodeModeResult, json: bool) {
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
        CodeModeResult::Completed(done) => line(&value(&done.value)),
        CodeModeResult::Failed(failed) => note(&format!("error: {}", failed.error)),
        CodeModeResult::Waiting(waiting) => note(&told(waiting)),
    }
}

/// What a suspended program waits for, and how to go on.
fn told(waiting: &Waiting) -> String {
    let mut text = match waiting.reason {
        WaitReason::Yield => "the program has yielded".to_owned(),
        WaitReason::PendingTools => "the program waits:".to_owned(),
    };
    for call in waiting.pending_tool_calls.iter().filter(|_| waiting.reason == WaitReason::PendingTools) {
        let what = call.tool_id.as_deref().unwrap_or(&call.method);
        let how = match (call.state, &call.approval_id) {
            (PendingState::Approval, Some(id)) => format!("needs an answer: pincer approvals allow {id}"),
            (state, _) => state.as_str().to_owned(),
        };
        text.push_str(&format!("\n  {what}  {how}"));
    }
    format!("{text}\ncontinue with: pincer wait {}", waiting.run_id)
}
