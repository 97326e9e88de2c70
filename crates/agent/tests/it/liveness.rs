//! Sessions that make no progress, or that no process works on.

use pincer_agent::{Diagnostic, DiagnosticKind, Reason, Recovery, RecoveryStatus, Request, Status};
use pincer_store::SessionKey;
use tokio::sync::broadcast::Receiver;

use crate::world::{KEY, USER, calls, conversation, text, within, world};

/// Returns the next report of this kind, and all those before it.
async fn until(reports: &mut Receiver<Diagnostic>, kind: DiagnosticKind) -> Vec<Diagnostic> {
    let mut told = Vec::new();
    loop {
        told.push(within(reports.recv()).await.expect("a report"));
        if told.last().is_some_and(|report| report.kind == kind) {
            return told;
        }
    }
}

/// A script whose replies depend on what a request has in it.
fn matching(replies: &[(&str, &str)]) -> String {
    let reply =
        |(contains, reply): &(&str, &str)| format!("{{ expect: {{ contains: '{contains}' }}, parts: [{reply}] }}");
    let replies: Vec<String> = replies.iter().map(reply).collect();
    format!("{{ order: 'matching', replies: [{}] }}", replies.join(", "))
}

const GATE: &str = "{ call: { id: 'gate-call', name: 'gate', arguments: { n: 1 } } }";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_progress_is_reported_and_then_stopped_so_that_the_next_message_is_answered() {
    let script = matching(&[("And now?", "{ text: 'I see.' }"), ("Do it.", GATE)]);
    let world = world(&script, "diagnostics: { stuckSessionWarnMs: 40, stuckSessionAbortMs: 200 }");
    let mut reports = world.agent.diagnostics();
    let run = world.send("Do it.").await;
    let told = until(&mut reports, DiagnosticKind::RecoveryRequested).await;
    // However slow the machine is: nothing is stopped that was not told of before.
    let stalled = told.iter().rfind(|report| report.kind == DiagnosticKind::Stalled).expect("told before");
    assert_eq!((stalled.session_key.as_str(), stalled.run_id.as_ref()), (KEY, Some(&run)));
    let asked = told.last().unwrap();
    assert_eq!((asked.action, asked.reason), (Some(Recovery::Abort), stalled.reason));
    assert!(asked.quiet_ms >= 200, "{asked:?}");
    let outcome = world.outcome(&run).await;
    assert_eq!((outcome.status, outcome.error_kind.as_deref()), (Status::Error, Some("stalled")), "{outcome:?}");
    assert!(outcome.error.unwrap().contains("diagnostics.stuckSessionAbortMs"));
    let completed = until(&mut reports, DiagnosticKind::RecoveryCompleted).await.pop().unwrap();
    assert_eq!((completed.status, completed.generation), (Some(RecoveryStatus::Aborted), asked.generation));
    world.dies().await;
    let other = world.another_with("");
    assert_eq!(other.ask("And now?").await.text(), "I see.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_process_is_gone_is_taken_over_by_one_that_serves_all() {
    let script = conversation(&[calls(&[("gate", 1)]), text("I see.")]);
    let world = world(&script, "diagnostics: { stuckSessionWarnMs: 40 }");
    let run = world.send("Do it.").await;
    world.busy(1).await;
    world.dies().await;
    let other = world.another();
    let mut reports = other.agent.diagnostics();
    // Something of its own goes on, so it looks.
    let key: SessionKey = "other".into();
    other.agent.submit(USER, &key, Request::new("Do it."), None).await.expect("accepted");
    let told = until(&mut reports, DiagnosticKind::RecoveryCompleted).await;
    let stuck = told.iter().find(|report| report.kind == DiagnosticKind::Stuck).expect("told before");
    assert_eq!((stuck.session_key.as_str(), stuck.reason), (KEY, Reason::StaleSessionState));
    let completed = told.last().unwrap();
    assert_eq!((completed.action, completed.status), (Some(Recovery::Release), Some(RecoveryStatus::Released)));
    assert_eq!(other.outcome(&run).await.text(), "I see.");
    other.gate.add_permits(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_with_its_own_messages_only_tells_of_others() {
    let script = conversation(&[calls(&[("gate", 1)]), text("I see.")]);
    let world = world(&script, "diagnostics: { stuckSessionWarnMs: 40 }");
    world.send("Do it.").await;
    world.busy(1).await;
    world.dies().await;
    let other = world.another();
    other.agent.end_with_own_messages();
    let mut reports = other.agent.diagnostics();
    let key: SessionKey = "other".into();
    let own = other.agent.submit(USER, &key, Request::new("Do it."), None).await.expect("accepted").run_id;
    until(&mut reports, DiagnosticKind::Stuck).await;
    other.busy(1).await;
    other.gate.add_permits(1);
    within(other.agent.outcome(USER, &own)).await.expect("an outcome");
    while let Ok(report) = reports.try_recv() {
        assert_ne!(report.kind, DiagnosticKind::RecoveryRequested, "{report:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_a_person_is_not_reported() {
    let mark = "{ call: { id: 'mark-call', name: 'mark', arguments: { n: 1 } } }";
    let script = matching(&[
        ("mark-call", "{ text: 'Marked.' }"),
        ("gate-call", "{ text: 'Held.' }"),
        ("Mark it.", mark),
        ("Hold it.", GATE),
    ]);
    let rules = "diagnostics: { stuckSessionWarnMs: 20 }, \
                 approvals: { rules: [{ match: 'plugin:test:mark', decision: 'ask' }] }";
    let world = world(&script, rules);
    let run = world.send("Mark it.").await;
    let waiting = world.outcome(&run).await;
    assert_eq!(waiting.status, Status::Waiting);
    let mut reports = world.agent.diagnostics();
    // Something else goes on, so both are looked at.
    let key: SessionKey = "other".into();
    let other = world.agent.submit(USER, &key, Request::new("Hold it."), None).await.expect("accepted").run_id;
    let mut of_other = 0;
    while of_other < 4 {
        let report = within(reports.recv()).await.expect("a report");
        // A look that began before it waited may be told late.
        assert!(report.session_key == key || of_other == 0, "{report:?}");
        of_other += u32::from(report.session_key == key);
    }
    world.gate.add_permits(1);
    within(world.agent.outcome(USER, &other)).await.expect("an outcome");
    world.agent.answer(&waiting.approvals[0].approval_id, pincer_tools::Answer::AllowOnce, "tom").await.unwrap();
    assert_eq!(world.outcome(&run).await.text(), "Marked.");
}
