//! Questions to the person at this terminal.

use std::io::{IsTerminal, stderr, stdin};
use std::sync::OnceLock;
use std::thread;

use pincer_process::PROCESS_LIMIT;
use pincer_runtime::Runtime;
use pincer_store::Approval;
use pincer_tools::{Answer, ApprovalRequest};
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::print::{chain, note, streamed};

/// Returns whether there is a terminal, at which a person can be asked.
pub(crate) fn somebody_is_here() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Returns the next line that is typed. One thread reads for all questions: one that is answered elsewhere must not take the answer
/// to the next.
pub(crate) async fn next_line() -> Option<String> {
    static LINES: OnceLock<Mutex<UnboundedReceiver<String>>> = OnceLock::new();
    let lines = LINES.get_or_init(|| {
        let (tell, lines) = unbounded_channel();
        let read = move || {
            for line in stdin().lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        };
        if let Err(error) = thread::Builder::new().spawn(read) {
            // The channel is closed, which is a no to every question.
            note(&format!("error: answers cannot be read, so each is no ({error}): {PROCESS_LIMIT}"));
        }
        Mutex::new(lines)
    });
    lines.lock().await.recv().await
}

/// Asks at the terminal, and stores the answer.
pub(crate) async fn ask(runtime: &Runtime, approval: &Approval) {
    // There is nothing to stop but the call.
    if ask_by(runtime, approval, next_line).await == Asked::Stop {
        let _ = runtime.answer(&approval.id, Answer::Deny, "terminal").await;
    }
}

/// The result of asking a person.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The question is settled.
    Settled,
    /// The person wants what asks to stop.
    Stop,
}

/// Like [`ask`], with lines that come in another way.
pub(crate) async fn ask_by(
    runtime: &Runtime,
    approval: &Approval,
    mut next: impl AsyncFnMut() -> Option<String>,
) -> Asked {
    let request = ApprovalRequest::of(approval);
    note(&request.text());
    let can_be_always = !request.grants().is_empty();
    let mut choices = vec!["[y]es"];
    // A run that calls the tool in a loop would be asked every time.
    choices.extend(approval.run.is_some().then_some("[NUMBER] for so many calls"));
    choices.extend(can_be_always.then_some("[a]lways"));
    choices.push("[N]o");
    loop {
        streamed(&format!("{}? ", choices.join(", ")));
        let answer = next().await.map_or_else(|| "n".into(), |line| line.trim().to_lowercase());
        let answer = match (answer.as_str(), answer.parse::<u32>()) {
            ("y" | "yes", _) => Answer::AllowOnce,
            ("a" | "always", _) if can_be_always => Answer::AllowAlways,
            ("n" | "no" | "", _) => Answer::Deny,
            ("/stop", _) => return Asked::Stop,
            (_, Ok(count)) if count > 0 && approval.run.is_some() => Answer::AllowNext(count),
            _ => {
                note("please answer with y, n, or another of these; /stop or Ctrl-C stops it");
                continue;
            }
        };
        match runtime.answer(&approval.id, answer, "terminal").await {
            Ok(true) => {}
            Ok(false) => note("it was answered elsewhere before"),
            Err(error) => note(&format!("error: the answer could not be stored: {}", chain(&error))),
        }
        return Asked::Settled;
    }
}
