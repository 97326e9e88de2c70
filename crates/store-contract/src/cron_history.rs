//! The promises of the traits about the runs of jobs: a time is run for once, and the history tells the outcome.

use pincer_store::{
    AgentRunState, CronAfter, CronBegin, CronBegun, CronDue, CronJob, CronRunState, CronSkip, Millis, NewAgentRun,
    QueueLimit, RunChange, WhenFull,
};

use crate::cron_jobs::{changed, due, job, made, of_user, stored};
use crate::session_words::*;
use crate::{Blocking, Fresh};

/// A run of a job for the time at which it is due.
fn beginning(job: &CronJob, run: &str, next_at: Option<Millis>) -> CronBegin {
    let session = job.session_key();
    let due = job.next_at.map(|seen| CronDue { seen, next_at });
    let key = job.next_at.map(|at| format!("cron:{}:{at}", job.id));
    CronBegin {
        job: job.id.clone(),
        version: job.version,
        due,
        run: NewAgentRun { key, user: job.user.clone(), ..incoming(run, session.as_str()) },
        disable_after: None,
        keep: 10,
    }
}

fn begin(store: Blocking<'_>, by: CronBegin) -> CronBegun {
    store.0.begin_cron_run(by).wait().expect("asked")
}

fn begun(store: Blocking<'_>, by: CronBegin) {
    let begun = begin(store, by);
    assert!(matches!(begun, CronBegun::Begun(_)), "{begun:?}");
}

/// Takes a run of `me` to its end.
fn end(store: Blocking<'_>, run: &str, state: AgentRunState, result: &str) {
    let key = store.agent_run(run).expect("there").session_key;
    let (id, fence) = held_now(store, key.as_str());
    let change = RunChange { result: Some(result.into()), ..change(run, state) };
    let commit = pincer_store::SessionCommit { release: true, ..changing([change]) };
    store.commit_session(&id, fence, &commit).expect("stored");
}

/// The history, each line in a few words.
fn history(store: Blocking<'_>, id: &str) -> Vec<String> {
    let runs = store.0.cron_runs(&id.into(), None, 99).wait().expect("read");
    let line = |run: &pincer_store::CronRun| {
        let name = run.run.as_ref().map_or("-", |run| run.as_str()).to_owned();
        let due = run.due_at.map_or("by hand".into(), |at| at.to_string());
        let error = run.error.as_deref().map_or(String::new(), |error| format!(" {error}"));
        format!("{name} {due} {} x{}{error}", run.state.as_str(), run.count)
    };
    runs.iter().map(line).collect()
}

pub fn a_time_is_run_for_once_however_many_look(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let first = made(one, job("j", 100));
        let seen = stored(two, "j");
        begun(one, beginning(&first, "r1", Some(200)));
        assert_eq!(begin(two, beginning(&seen, "r2", Some(200))), CronBegun::Gone);
        missing(two.agent_run("r2"));
        let after = stored(two, "j");
        assert_eq!((after.next_at, after.running.as_ref().map(|run| run.as_str())), (Some(200), Some("r1")));
        assert_eq!(after.version, first.version, "its definition is what it was");
        end(two, "r1", AgentRunState::Done, "{}");

        // A job that was changed, turned off or removed meanwhile does not run as it was.
        let seen = stored(two, "j");
        let on = one.0.change_cron_job(&"j".into(), changed(&seen, true, Some(200))).wait().expect("changed");
        assert_eq!(begin(two, beginning(&seen, "r3", None)), CronBegun::Gone);
        one.0.change_cron_job(&"j".into(), changed(&on, false, None)).wait().expect("off");
        assert_eq!(begin(two, beginning(&on, "r3", None)), CronBegun::Gone);
        // By hand a job runs that is off, and its next time stays.
        let off = stored(one, "j");
        begun(one, CronBegin { due: None, ..beginning(&off, "r4", None) });
        one.0.remove_cron_job(&"j".into()).wait().expect("removed");
        assert_eq!(begin(two, beginning(&off, "r5", None)), CronBegun::Gone);
        assert_eq!(two.agent_run("r4").expect("goes on").state, AgentRunState::Queued);
        missing(two.agent_run("r5"));

        // Nor does one that has run for this time before: the clock was set back.
        let again = made(one, job("k", 100));
        begun(one, beginning(&again, "r6", None));
        end(one, "r6", AgentRunState::Done, "{}");
        let back =
            one.0.change_cron_job(&"k".into(), changed(&stored(one, "k"), true, Some(100))).wait().expect("back");
        assert_eq!(begin(two, beginning(&back, "r7", Some(300))), CronBegun::Gone);
        assert_eq!((stored(one, "k").next_at, history(one, "k").len()), (Some(300), 1));
    });
}

pub fn a_run_that_has_not_ended_keeps_the_next_one_from_beginning(fresh: &Fresh) {
    fresh.with_store(|store| {
        let first = made(store, job("j", 100));
        begun(store, beginning(&first, "r1", Some(200)));
        for next in [300, 400, 500] {
            let busy = begin(store, beginning(&stored(store, "j"), "r2", Some(next)));
            assert_eq!(busy, CronBegun::Busy("r1".into()));
        }
        assert_eq!(
            begin(store, CronBegin { due: None, ..beginning(&first, "r3", None) }),
            CronBegun::Busy("r1".into())
        );
        let open = store.0.open_cron_runs().wait().expect("read");
        assert_eq!((open.len(), open[0].run.as_str(), open[0].session.as_str()), (1, "r1", "cron:j"));
        let skipped = "- 400 skipped x3 the run before it had not ended";
        assert_eq!(history(store, "j"), [skipped, "r1 100 open x1"]);
        end(store, "r1", AgentRunState::Done, "{}");
        assert_eq!((stored(store, "j").running, store.0.open_cron_runs().wait().expect("read").len()), (None, 0));
        begun(store, beginning(&stored(store, "j"), "r4", Some(600)));
        assert_eq!(history(store, "j"), ["r4 500 open x1", skipped, "r1 100 done x1"]);
    });
}

pub fn the_end_of_a_run_is_part_of_the_history_in_the_same_commit(fresh: &Fresh) {
    fresh.with_store(|store| {
        let mut next = 100;
        made(store, job("j", next));
        let failed = r#"{"error":"no key"}"#;
        let mut run = |name: &str, state: Option<AgentRunState>, result: &str| {
            next += 100;
            begun(store, beginning(&stored(store, "j"), name, Some(next)));
            match state {
                Some(state) => end(store, name, state, result),
                // One that has not begun ends at once.
                None => drop(store.stop_run(name, result, 80).expect("stopped")),
            }
            let job = stored(store, "j");
            (history(store, "j")[0].clone(), job.failures, job.running)
        };
        assert_eq!(run("r1", Some(AgentRunState::Failed), failed), ("r1 100 failed x1 no key".into(), 1, None));
        assert_eq!(run("r2", Some(AgentRunState::TimedOut), "no JSON"), ("r2 200 timed_out x1".into(), 2, None));
        assert_eq!(run("r3", Some(AgentRunState::Aborted), "{}"), ("r3 300 aborted x1".into(), 2, None));
        assert_eq!(run("r4", None, r#"{"error":"stopped"}"#), ("r4 400 aborted x1 stopped".into(), 2, None));
        assert_eq!(run("r5", Some(AgentRunState::Done), failed), ("r5 500 done x1".into(), 0, None));
        let runs = store.0.cron_runs(&"j".into(), None, 1).wait().expect("read");
        assert_eq!((runs[0].result.as_deref(), runs[0].run_state), (Some(failed), Some(AgentRunState::Done)));
        let before = store.0.cron_runs(&"j".into(), Some(runs[0].number), 1).wait().expect("read");
        assert_eq!(before[0].run.as_ref().map(|run| run.as_str()), Some("r4"));
    });
}

pub fn failures_in_a_row_turn_a_job_off(fresh: &Fresh) {
    fresh.with_store(|store| {
        made(store, job("j", 100));
        for (run, state, is_on) in [
            ("r1", AgentRunState::Failed, true),
            ("r2", AgentRunState::Done, true),
            ("r3", AgentRunState::TimedOut, true),
            ("r4", AgentRunState::Failed, false),
        ] {
            let seen = stored(store, "j");
            let next = seen.next_at.map(|at| at + 100);
            begun(store, CronBegin { disable_after: Some(2), ..beginning(&seen, run, next) });
            end(store, run, state, "{}");
            assert_eq!(stored(store, "j").is_enabled, is_on, "{run}");
        }
        let off = stored(store, "j");
        assert_eq!((off.next_at, off.disabled_because.as_deref()), (None, Some("2 runs in a row failed")));
        assert_eq!(due(store, (9999, 0), None, 9), "");
        let on = store.0.change_cron_job(&"j".into(), changed(&off, true, Some(900))).wait().expect("on");
        assert_eq!((on.failures, on.disabled_because, on.next_at), (0, None, Some(900)));
    });
}

pub fn a_time_that_is_skipped_is_part_of_the_history(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let first = made(one, job("j", 100));
        let skip = |job: &CronJob, state, next_at: Option<Millis>| CronSkip {
            job: job.id.clone(),
            version: job.version,
            due: CronDue { seen: job.next_at.unwrap_or(0), next_at },
            state,
            reason: "why".into(),
            turn_off: false,
            disable_after: Some(2),
            keep: 10,
            now: 60,
        };
        let missed = skip(&first, CronRunState::Missed, Some(200));
        assert!(one.0.skip_cron_run(missed.clone()).wait().expect("asked"));
        assert!(!two.0.skip_cron_run(missed).wait().expect("asked"), "once");
        assert_eq!((history(two, "j"), stored(two, "j").failures), (vec!["- 100 missed x1 why".to_owned()], 0));
        for next in [300, 400] {
            let refused = skip(&stored(one, "j"), CronRunState::Refused, Some(next));
            assert!(one.0.skip_cron_run(refused).wait().expect("asked"));
        }
        let off = stored(one, "j");
        assert_eq!(
            (off.is_enabled, off.failures, off.disabled_because.as_deref()),
            (false, 2, Some("2 runs in a row failed"))
        );
        assert_eq!(history(one, "j")[0], "- 300 refused x2 why");
        let other = made(one, job("k", 100));
        let broken = CronSkip { turn_off: true, ..skip(&other, CronRunState::Refused, None) };
        assert!(two.0.skip_cron_run(broken).wait().expect("asked"));
        assert_eq!((stored(one, "k").is_enabled, stored(one, "k").disabled_because.as_deref()), (false, Some("why")));
    });
}

pub fn a_job_that_has_run_for_the_last_time_is_removed_unless_that_failed(fresh: &Fresh) {
    fresh.with_store(|store| {
        let removing = |id: &str| {
            let mut new = job(id, 100);
            new.definition.after = CronAfter::Remove;
            made(store, new)
        };
        begun(store, beginning(&removing("failed"), "r1", None));
        end(store, "r1", AgentRunState::Failed, "{}");
        assert_eq!(stored(store, "failed").next_at, None);
        begun(store, beginning(&removing("again"), "r2", Some(200)));
        end(store, "r2", AgentRunState::Done, "{}");
        assert_eq!(stored(store, "again").next_at, Some(200));
        begun(store, beginning(&removing("done"), "r3", None));
        end(store, "r3", AgentRunState::Done, "{}");
        missing(store.0.cron_job(&"done".into()).wait());
        assert_eq!(store.agent_run("r3").expect("kept").state, AgentRunState::Done);
        begun(store, beginning(&made(store, job("kept", 100)), "r4", None));
        end(store, "r4", AgentRunState::Done, "{}");
        assert_eq!(history(store, "kept"), ["r4 100 done x1"]);
    });
}

pub fn a_history_is_bounded_and_takes_its_sessions_along(fresh: &Fresh) {
    fresh.with_store(|store| {
        made(store, job("j", 0));
        let mut shared = job("k", 0);
        shared.definition.session = Some("main".into());
        made(store, shared);
        let mut sessions = Vec::new();
        for n in 1..=6 {
            for (id, session) in [("j", "cron:j"), ("k", "main")] {
                let run = format!("{id}{n}");
                begun(store, CronBegin { keep: 3, ..beginning(&stored(store, id), &run, Some(n * 100)) });
                end(store, &run, AgentRunState::Done, "{}");
                sessions.push(store.current_session("me", session).expect("read").expect("there").id);
                let (current, fence) = held_now(store, session);
                store.reset_session(&current, fence, &format!("ses_{id}{n}"), "cron", 70).expect("reset");
                let (current, fence) = held_now(store, session);
                store.commit_session(&current, fence, &release()).expect("released");
            }
        }
        assert_eq!(history(store, "j"), ["j6 500 done x1", "j5 400 done x1", "j4 300 done x1"]);
        let is_kept = |id: &pincer_store::SessionId| store.session(id.as_str()).is_ok();
        let kept: Vec<bool> = sessions.iter().step_by(2).map(is_kept).collect();
        assert_eq!(kept, [false, false, false, true, true, true]);
        assert!(sessions.iter().skip(1).step_by(2).all(is_kept), "a session that the job shares is not its own");
    });
}

pub fn a_full_queue_is_part_of_the_history(fresh: &Fresh) {
    fresh.with_store(|store| {
        let mut shared = job("j", 100);
        shared.definition.session = Some("main".into());
        let mut first = beginning(&made(store, shared), "r1", Some(200));
        accepted(store, &incoming("r0", "main"));
        first.run.queue = QueueLimit { cap: 1, full: WhenFull::RefuseNew };
        assert_eq!(begin(store, first), CronBegun::Full);
        assert_eq!((stored(store, "j").next_at, stored(store, "j").running), (Some(200), None));
        assert_eq!(history(store, "j"), ["- 100 dropped x1 the queue of its session was full"]);
        begun(store, beginning(&stored(store, "j"), "r2", Some(300)));
        // A message that came later takes its place.
        let newer = NewAgentRun { queue: QueueLimit { cap: 1, full: WhenFull::Summarize }, ..incoming("r3", "main") };
        accepted(store, &newer);
        assert_eq!((history(store, "j")[0].as_str(), stored(store, "j").running), ("r2 200 dropped x1", None));
        begun(store, beginning(&made(store, of_user("you", job("k", 100))), "r5", None));
    });
}
