//! What the traits promise about runs of agents: how they are accepted, queued, changed and stopped.
use pincer_store::AgentRunState::{
    Aborted, Done, Dropped, Failed, Merged, Queued, Running, Summarized, TimedOut, Waiting,
};
use pincer_store::{
    Accepted, AgentRunState, ApprovalState, ClientCall, Decision, Grant, GrantKind, MOST_SUMMARIZED, NewAgentRun,
    NewApproval, QueueLimit, RunChange, SessionCommit, Stopped, WhenFull,
};

use crate::session_words::*;
use crate::words::question;
use crate::{Blocking, Fresh};

const FINAL: [AgentRunState; 7] = [Done, Failed, Aborted, TimedOut, Merged, Dropped, Summarized];

fn keyed(id: &str, session: &str, key: &str) -> NewAgentRun {
    NewAgentRun { key: Some(key.into()), ..incoming(id, session) }
}

/// The open runs of a session of `me`, in their order.
fn open(store: Blocking<'_>, session: &str) -> String {
    let runs = store.open_runs("me", session).expect("read");
    runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>().join(" ")
}

fn state(store: Blocking<'_>, id: &str) -> AgentRunState {
    store.agent_run(id).expect("there").state
}

pub fn a_message_is_accepted_once_per_key(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let first = accepted(one, &NewAgentRun { request: "{\"a\":1}".into(), rank: 3, ..keyed("r1", "main", "k") });
        assert_eq!(
            (first.user.as_str(), first.session_key.as_str(), first.session.as_str()),
            ("me", "main", "ses_of_r1")
        );
        assert_eq!((first.state, first.rank, first.created_at, first.key.as_deref()), (Queued, 3, 50, Some("k")));
        assert_eq!((first.started_at, first.ended_at, first.first_entry, first.is_stopped), (None, None, None, false));
        assert_eq!((first.request.as_str(), first.detail.as_ref(), first.result.as_ref()), ("{\"a\":1}", None, None));
        assert_eq!(two.accept_run(&keyed("r2", "main", "k")).expect("asked"), Accepted::Same(first.clone()));
        let other = NewAgentRun { digest: b"other".into(), ..keyed("r2", "main", "k") };
        assert_eq!(two.accept_run(&other).expect("asked"), Accepted::Different("r1".into()));
        missing(two.agent_run("r2"));
        // Another session, another user and another key are others.
        accepted(two, &keyed("r3", "other", "k"));
        let yours = NewAgentRun { user: "you".into(), ..keyed("r4", "main", "k") };
        assert_eq!(accepted(two, &yours).session, "ses_of_r4");
        accepted(two, &keyed("r5", "main", "k2"));
        let found = |user, session, key| {
            two.agent_run_with_key(user, session, key).expect("read").map(|run| run.id.to_string()).unwrap_or_default()
        };
        assert_eq!(
            [found("me", "main", "k"), found("me", "other", "k"), found("you", "main", "k")],
            ["r1", "r3", "r4"]
        );
        assert_eq!([found("me", "main", "k2"), found("me", "main", "k3"), found("none", "main", "k")], ["r5", "", ""]);
        // Without a key each is new, but an id is used once.
        accepted(one, &incoming("r6", "main"));
        accepted(one, &incoming("r7", "main"));
        exists(one.accept_run(&incoming("r7", "main")));
        exists(one.accept_run(&incoming("r7", "new")));
        assert_eq!(one.current_session("me", "new").expect("read"), None, "neither half of it happened");
    });
}

pub fn a_message_makes_its_session_once(fresh: &Fresh) {
    fresh.with_store(|store| {
        let first = accepted(store, &NewAgentRun { agent: Some("helper".into()), ..incoming("r1", "main") });
        assert_eq!(accepted(store, &incoming("r2", "main")).session, first.session);
        let made = store.current_session("me", "main").expect("read").expect("made");
        assert_eq!((made.id, made.agent.as_deref(), made.created_at), (first.session, Some("helper"), 50));
        // A key outlives a reset: the message was accepted, wherever it is by now.
        accepted(store, &keyed("r3", "main", "k"));
        let (id, fence) = held_now(store, "main");
        store.reset_session(&id, fence, "s2", "daily", 70).expect("reset");
        assert_eq!(accepted(store, &incoming("r4", "main")).session, "s2");
        let Accepted::Same(same) = store.accept_run(&keyed("r5", "main", "k")).expect("asked") else {
            panic!("another")
        };
        assert_eq!((same.id.as_str(), same.session.as_str()), ("r3", "s2"));
        // It ends with its session.
        for run in ["r1", "r2", "r3", "r4"] {
            store.stop_run(run, "{}", 80).expect("stopped");
        }
        let fence = store.session("s2").expect("there").fence;
        store.delete_session("s2", fence).expect("deleted");
        assert_eq!(accepted(store, &keyed("r5", "main", "k")).session, "ses_of_r5");
    });
}

pub fn a_message_with_its_answer_has_ended_when_it_is_stored(fresh: &Fresh) {
    fresh.with_store(|store| {
        let full = QueueLimit { cap: 1, full: WhenFull::DropOldest };
        accepted(store, &incoming("waits", "main"));
        let answered = NewAgentRun { answer: Some("\"ok\"".into()), queue: full, ..keyed("r", "main", "k") };
        let run = match store.accept_run(&answered).expect("asked") {
            Accepted::New { run, dropped } if dropped.is_empty() => run,
            other => panic!("it joins no queue: {other:?}"),
        };
        assert_eq!((run.state, run.result.as_deref(), run.session.as_str()), (Done, Some("\"ok\""), "ses_of_waits"));
        assert_eq!((run.created_at, run.started_at, run.ended_at), (50, Some(50), Some(50)));
        assert_eq!(open(store, "main"), "waits");
        assert_eq!(store.accept_run(&answered).expect("asked"), Accepted::Same(run));
        assert_eq!(store.stop_run("r", "{}", 70).expect("asked"), Stopped::Ended);
        let alone = NewAgentRun { answer: Some("1".into()), ..incoming("alone", "new") };
        assert_eq!(accepted(store, &alone).session, "ses_of_alone");
        assert_eq!(store.sessions_with_work().expect("read"), [("me".into(), "main".into())]);
        assert_eq!(store.sessions_to_wake(0).expect("read"), []);
    });
}

/// Accepts a message into a queue, and returns the runs that gave way. `None` if it was refused.
fn join(store: Blocking<'_>, id: &str, cap: u32, full: WhenFull) -> Option<Vec<String>> {
    match store.accept_run(&NewAgentRun { queue: QueueLimit { cap, full }, now: 60, ..incoming(id, "main") }) {
        Ok(Accepted::New { dropped, .. }) => Some(dropped.iter().map(ToString::to_string).collect()),
        Ok(Accepted::Full) => None,
        other => panic!("{other:?}"),
    }
}

pub fn a_full_queue_does_as_it_is_told(fresh: &Fresh) {
    for (full, left) in [(WhenFull::DropOldest, Dropped), (WhenFull::Summarize, Summarized)] {
        fresh.with_store(|store| {
            let fence = held(store, "s", "main");
            let none = Vec::<String>::new();
            for id in ["r1", "r2"] {
                accepted(store, &incoming(id, "main"));
            }
            turn(store, "s", fence, "r1", Running);
            turn(store, "s", fence, "r2", Waiting);
            // Those that have begun are not in the queue. The oldest gives way, not the one that is due first.
            let urgent = NewAgentRun { rank: -1, ..incoming("r5", "main") };
            assert_eq!(join(store, "r3", 3, full), Some(none.clone()), "cap - 2");
            assert_eq!(join(store, "r4", 3, full), Some(none.clone()), "cap - 1");
            accepted(store, &urgent);
            assert_eq!(join(store, "r6", 3, full), Some(vec!["r3".into()]), "cap");
            assert_eq!((state(store, "r3"), store.agent_run("r3").expect("there").ended_at), (left, Some(60)));
            accepted(store, &incoming("r7", "main"));
            assert_eq!(join(store, "r8", 3, full), Some(vec!["r4".into(), "r5".into()]), "cap + 1");
            assert_eq!(join(store, "r9", 1, full), Some(vec!["r6".into(), "r7".into(), "r8".into()]), "a lower cap");
            // A queue has room for one at least.
            assert_eq!(join(store, "ra", 0, full), Some(vec!["r9".into()]));
            assert_eq!((state(store, "r1"), state(store, "r2"), state(store, "ra")), (Running, Waiting, Queued));
            let begun = if left == Dropped { "r1 r2 ra" } else { "r1 r2 ra r5 r3 r4 r6 r7 r8 r9" };
            assert_eq!(open(store, "main"), begun);
        });
    }
    fresh.with_store(|store| {
        let none = Some(Vec::new());
        accepted(store, &incoming("other", "other"));
        assert_eq!(join(store, "r0", 0, WhenFull::RefuseNew), none, "a queue has room for one at least");
        assert_eq!(join(store, "r1", 0, WhenFull::RefuseNew), None);
        store.stop_run("r0", "{}", 70).expect("stopped");
        assert_eq!(join(store, "r1", 2, WhenFull::RefuseNew), none);
        assert_eq!(join(store, "r2", 2, WhenFull::RefuseNew), none);
        assert_eq!(join(store, "r3", 2, WhenFull::RefuseNew), None);
        assert_eq!(join(store, "r3", 1, WhenFull::RefuseNew), None);
        assert_eq!(open(store, "main"), "r1 r2");
        missing(store.agent_run("r3"));
        // A message that was accepted before is known, however full it is.
        let limit = QueueLimit { cap: 3, full: WhenFull::RefuseNew };
        accepted(store, &NewAgentRun { queue: limit, ..keyed("r4", "main", "k") });
        let again = store.accept_run(&NewAgentRun { queue: limit, ..keyed("r5", "main", "k") }).expect("asked");
        assert!(matches!(again, Accepted::Same(_)), "{again:?}");
        // One that is stopped makes room.
        store.stop_run("r1", "{}", 70).expect("stopped");
        assert_eq!(join(store, "r5", 3, WhenFull::RefuseNew), none);
    });
}

pub fn open_runs_are_in_the_order_in_which_they_are_due(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        for (id, rank) in [("r1", 5), ("r2", 0), ("r3", -1), ("r4", 0), ("r5", 9), ("r6", i64::MAX), ("r7", i64::MIN)] {
            accepted(store, &NewAgentRun { rank, ..incoming(id, "main") });
        }
        accepted(store, &incoming("other", "other"));
        accepted(store, &incoming("z", "other"));
        accepted(store, &NewAgentRun { user: "you".into(), ..incoming("yours", "main") });
        assert_eq!(open(store, "main"), "r7 r3 r2 r4 r1 r5 r6");
        turn(store, "s", fence, "r5", Running);
        assert_eq!(open(store, "main"), "r5 r7 r3 r2 r4 r1 r6");
        turn(store, "s", fence, "r1", Waiting);
        assert_eq!(open(store, "main"), "r1 r5 r7 r3 r2 r4 r6");
        turn(store, "s", fence, "r5", Done);
        turn(store, "s", fence, "r3", Queued);
        assert_eq!(open(store, "main"), "r1 r7 r3 r2 r4 r6");
        let work = |user: &str, key: &str| (user.to_owned(), key.into());
        assert_eq!(
            store.sessions_with_work().expect("read"),
            [work("me", "main"), work("me", "other"), work("you", "main")]
        );
        for run in ["r1", "r2", "r3", "r4", "r6", "r7"] {
            turn(store, "s", fence, run, Done);
        }
        assert_eq!((open(store, "main").as_str(), open(store, "none").as_str()), ("", ""));
        assert_eq!(store.sessions_with_work().expect("read"), [work("me", "other"), work("you", "main")]);
    });
}

pub fn messages_are_in_the_order_in_which_they_were_accepted(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        // Ids are made by the clocks of processes, which may differ.
        accepted(one, &incoming("z", "main"));
        accepted(two, &incoming("a", "main"));
        accepted(one, &incoming("m", "main"));
        assert_eq!(open(two, "main"), "z a m");
        let dropped = join(two, "b", 3, WhenFull::DropOldest);
        assert_eq!(dropped, Some(vec!["z".into()]));
    });
}

pub fn few_messages_that_were_left_out_are_kept_and_little_of_each(fresh: &Fresh) {
    fresh.with_store(|store| {
        for number in 0..=MOST_SUMMARIZED + 2 {
            join(store, &format!("r{number:02}"), 1, WhenFull::Summarize).expect("there is room");
        }
        let open = store.open_runs("me", "main").expect("read");
        let left_out: Vec<_> = open.iter().filter(|run| run.state == Summarized).collect();
        assert_eq!(left_out.len() as u32, MOST_SUMMARIZED);
        assert_eq!((left_out[0].id.as_str(), left_out[0].request.as_str()), ("r02", "brief r02"));
        assert_eq!(state(store, "r01"), Dropped);
    });
}

pub fn a_run_that_was_left_out_is_open_until_a_run_is_told_of_it(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        for id in ["r1", "r2", "r3"] {
            assert!(join(store, id, 1, WhenFull::Summarize).is_some());
        }
        assert_eq!(
            (open(store, "main").as_str(), state(store, "r1"), state(store, "r2")),
            ("r3 r1 r2", Summarized, Summarized)
        );
        turn(store, "s", fence, "r3", Running);
        assert_eq!(open(store, "main"), "r3 r1 r2");
        // It has ended: it cannot begin, and nothing changes but the run that is told of it.
        for state in [Queued, Running, Waiting, Done, Summarized] {
            missing(store.commit_session("s", fence, &changing([change("r1", state)])));
        }
        let told = |id: &str, state| RunChange { merged_into: Some("r3".into()), ..change(id, state) };
        missing(store.commit_session("s", fence, &changing([told("r1", Running)])));
        let both = SessionCommit { now: 300, ..changing([told("r1", Summarized), told("r2", Merged)]) };
        store.commit_session("s", fence, &both).expect("told");
        assert_eq!(open(store, "main"), "r3");
        for (id, expected) in [("r1", Summarized), ("r2", Merged)] {
            let run = store.agent_run(id).expect("there");
            assert_eq!((run.state, run.merged_into, run.ended_at), (expected, Some("r3".into()), Some(60)));
            missing(store.commit_session("s", fence, &changing([told(id, expected)])));
        }
        assert_eq!(store.session("s").expect("there").active, Some("r3".into()));
        // It is no work: a session that has nothing else is idle.
        turn(store, "s", fence, "r3", Done);
        assert!(
            join(store, "r4", 1, WhenFull::Summarize).is_some() && join(store, "r5", 1, WhenFull::Summarize).is_some()
        );
        store.stop_run("r5", "{}", 70).expect("stopped");
        assert_eq!(open(store, "main"), "r4");
        assert_eq!(store.sessions_with_work().expect("read"), []);
    });
}

pub fn a_run_begins_once_and_ends_once(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        accepted(store, &incoming("r", "main"));
        commit(store, "s", fence, [message("a")]);
        let at = |now, entries: &[&str], change: RunChange| {
            let entries = entries.iter().map(|id| message(id)).collect();
            let commit = SessionCommit { entries, runs: vec![change], now, ..SessionCommit::default() };
            store.commit_session("s", fence, &commit).expect("stored");
            (store.agent_run("r").expect("there"), store.session("s").expect("there").active)
        };
        let begins = RunChange { generation: Some(1), last_event: Some(4), ..change("r", Running) };
        let (run, active) = at(200, &["b", "c"], begins);
        assert_eq!((run.state, run.started_at, run.first_entry, run.ended_at), (Running, Some(200), Some(2), None));
        assert_eq!((run.generation, run.last_event, active), (1, 4, Some("r".into())));
        let waits = RunChange { detail: Some("{\"for\":1}".into()), last_event: Some(9), ..change("r", Waiting) };
        let (run, active) = at(300, &["d"], waits);
        assert_eq!(
            (run.state, run.detail.as_deref(), run.generation, run.last_event),
            (Waiting, Some("{\"for\":1}"), 1, 9)
        );
        assert_eq!(active, Some("r".into()));
        let (run, _) = at(400, &[], RunChange { generation: Some(2), last_event: Some(3), ..change("r", Running) });
        assert_eq!((run.started_at, run.first_entry, run.detail.as_deref()), (Some(200), Some(2), Some("{\"for\":1}")));
        assert_eq!((run.generation, run.last_event), (2, 3), "events are counted anew");
        let (run, active) = at(500, &["e"], RunChange { result: Some("\"ok\"".into()), ..change("r", Done) });
        assert_eq!(
            (run.state, run.ended_at, run.result.as_deref(), run.detail),
            (Done, Some(500), Some("\"ok\""), None)
        );
        assert_eq!((run.started_at, run.first_entry, active), (Some(200), Some(2), None));
        assert_eq!((run.generation, run.last_event), (2, 3));
    });
}

pub fn a_run_that_has_ended_never_changes_again(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        for end in FINAL {
            let id = format!("r_{}", end.as_str());
            accepted(store, &incoming(&id, "main"));
            turn(store, "s", fence, &id, Running);
            let merged_into = matches!(end, Merged | Summarized).then(|| "other".into());
            let last = RunChange { merged_into, ..change(&id, end) };
            store.commit_session("s", fence, &changing([last])).expect("ended");
            let before = (store.agent_run(&id).expect("there"), store.session("s").expect("there"));
            assert_eq!((before.0.state, before.0.ended_at, before.1.active.as_ref()), (end, Some(100), None));
            for state in FINAL.into_iter().chain([Queued, Running, Waiting]) {
                let mut again = changing([RunChange { result: Some("2".into()), ..change(&id, state) }]);
                again.entries = vec![message("late")];
                missing(store.commit_session("s", fence, &again));
            }
            assert_eq!(store.stop_run(&id, "\"stopped\"", 900).expect("asked"), Stopped::Ended);
            assert_eq!((store.agent_run(&id).expect("there"), store.session("s").expect("there")), before, "{end:?}");
        }
        // Runs that are only queued end, too, and leave the one that is active alone.
        accepted(store, &incoming("active", "main"));
        accepted(store, &incoming("queued", "main"));
        turn(store, "s", fence, "active", Running);
        turn(store, "s", fence, "queued", Merged);
        assert_eq!(store.session("s").expect("there").active, Some("active".into()));
    });
}

pub fn what_a_run_was_given_goes_with_its_end(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        for end in FINAL {
            let of = |name: &str| format!("{name}_{}", end.as_str());
            let id = of("r");
            accepted(store, &incoming(&id, "main"));
            turn(store, "s", fence, &id, Running);
            for (name, run) in [("pending", id.as_str()), ("allowed", &id), ("other", "another")] {
                store
                    .ask(&NewApproval { run: Some(run.into()), expires_at: None, ..question(&of(name)) })
                    .expect("asked");
            }
            store.resolve(&of("allowed"), Decision::Allow, &[], "me", 1).expect("answered");
            for (name, run) in [("mine", id.as_str()), ("theirs", "another")] {
                let kind = GrantKind::Next { run: run.into(), remaining: 2 };
                let (id, tool) = (of(name).into(), "t".into());
                store.grant(&Grant { id, tool, fingerprint: None, user: None, kind, created_at: 0 }).expect("granted");
            }
            let (name, arguments) = ("look".into(), "{}".into());
            let call =
                ClientCall { id: "c".into(), run: id.as_str().into(), name, arguments, created_at: 0, result: None };
            store.ask_client(&call).expect("asked");
            turn(store, "s", fence, &id, Waiting);
            let has = |name: &str| store.grants().expect("read").iter().any(|grant| grant.id == of(name).as_str());
            assert!(has("mine") && store.client_calls(&id).expect("read").len() == 1);
            turn(store, "s", fence, &id, end);
            let states = ["pending", "allowed", "other"].map(|name| store.approval(&of(name)).expect("there").state);
            assert_eq!(states, [ApprovalState::Cancelled, ApprovalState::Allowed, ApprovalState::Pending], "{end:?}");
            assert_eq!((has("mine"), has("theirs"), store.client_calls(&id).expect("read").len()), (false, true, 0));
        }
    });
}

pub fn a_run_is_stopped_at_once_only_before_it_begins(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let fence = held(one, "s", "main");
        for id in ["queued", "running", "waiting"] {
            accepted(one, &incoming(id, "main"));
        }
        turn(one, "s", fence, "running", Running);
        turn(one, "s", fence, "waiting", Waiting);
        let stop = |id| two.stop_run(id, "\"stopped\"", 700).expect("asked");
        assert_eq!(
            [stop("queued"), stop("running"), stop("waiting")],
            [Stopped::Unbegun, Stopped::Asked, Stopped::Asked]
        );
        assert_eq!(
            [stop("queued"), stop("running"), stop("waiting")],
            [Stopped::Ended, Stopped::Asked, Stopped::Asked]
        );
        missing(two.stop_run("none", "1", 700));
        let of = |id| one.agent_run(id).expect("there");
        let (queued, running, waiting) = (of("queued"), of("running"), of("waiting"));
        assert_eq!(
            (queued.state, queued.ended_at, queued.result.as_deref()),
            (Aborted, Some(700), Some("\"stopped\""))
        );
        assert_eq!((running.state, running.is_stopped, running.result), (Running, true, None));
        assert_eq!((waiting.state, waiting.is_stopped, waiting.ended_at), (Waiting, true, None));
        assert_eq!(open(one, "main"), "running waiting");
        // The writer that was about to begin it learns of it, and stores nothing.
        missing(one.commit_session("s", fence, &changing([change("queued", Running)])));
        turn(one, "s", fence, "running", Aborted);
        assert_eq!((stop("running"), of("running").result), (Stopped::Ended, None));
    });
}

pub fn runs_of_a_session_are_listed_the_latest_first(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        held(store, "t", "other");
        for id in ["r1", "r3", "r2"] {
            accepted(store, &NewAgentRun { rank: 7, ..incoming(id, "main") });
        }
        accepted(store, &incoming("r4", "other"));
        turn(store, "s", fence, "r3", Running);
        turn(store, "s", fence, "r3", Done);
        let runs = |id, limit| {
            let runs = store.runs_of_session(id, limit).expect("read");
            runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!([runs("s", 9), runs("s", 2), runs("s", 0), runs("t", 9)], ["r2 r3 r1", "r2 r3", "", "r4"]);
        assert_eq!(runs("none", 9), "");
    });
}

pub fn a_session_is_woken_when_its_run_has_what_it_waits_for(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        accepted(store, &incoming("r1", "main"));
        turn(store, "s", fence, "r1", Running);
        let call = pincer_store::ClientCall {
            id: "call".into(),
            run: "r1".into(),
            name: "t".into(),
            arguments: "{}".into(),
            created_at: 1,
            result: None,
        };
        store.ask_client(&call).expect("asked");
        let waits = |ids: &[&str]| {
            let awaits = ids.iter().map(|id| (*id).to_owned()).collect();
            let change = RunChange { awaits, ..change("r1", Waiting) };
            store.commit_session("s", fence, &changing([change])).expect("waits");
        };
        let woken = |now| store.sessions_to_wake(now).expect("read");
        let main = [("me".to_owned(), "main".into())];
        waits(&["call"]);
        assert_eq!(woken(0), []);
        // A question that is gone is nothing to wait for.
        waits(&["call", "gone"]);
        assert_eq!(woken(0), main);
        waits(&["call"]);
        store.answer_client("r1", "call", "{}").expect("answered");
        assert_eq!(woken(0), main);
        turn(store, "s", fence, "r1", Running);
        assert_eq!(woken(0), [], "it goes on already");
        waits(&[]);
        assert_eq!(woken(0), []);
        store.stop_run("r1", "{}", 5).expect("asked");
        assert_eq!(woken(0), main);
    });
}
