//! Jobs of the schedule: each time once, whatever dies when, with no more rights than their makers.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use pincer_agent::{Cron, CronNews, JobSession, JobWish, Status, When, add_cron_job, cron_now};
use pincer_store::{AgentRuns, CronBegun, CronJob, CronJobs, CronMissed, CronRun, CronRunState, SessionPage, Sessions};

use crate::world::{USER, World, calls, conversation, text, within, world};

fn wish(name: &str, when: When) -> JobWish {
    JobWish { zone: Some("UTC".into()), ..JobWish::new(USER, name, when, &format!("Do {name}.")) }
}

/// A job that was added, and is due once a day by the clock on the wall.
fn daily(name: &str) -> JobWish {
    wish(name, When::Cron("0 9 * * *".into()))
}

async fn added(world: &World, wish: JobWish) -> CronJob {
    add_cron_job(world.agent.runtime().store(), wish).await.expect("added")
}

async fn stored(world: &World, job: &CronJob) -> CronJob {
    world.agent.runtime().store().cron_job(&job.id).await.expect("there")
}

async fn history(world: &World, job: &CronJob) -> Vec<CronRun> {
    world.agent.runtime().store().cron_runs(&job.id, None, 99).await.expect("read")
}

async fn states(world: &World, job: &CronJob) -> Vec<CronRunState> {
    history(world, job).await.iter().map(|run| run.state).collect()
}

/// A clock on the wall that a test sets.
#[derive(Clone)]
struct Clock(Arc<AtomicI64>);

impl Clock {
    fn at(millis: i64) -> Self {
        Self(Arc::new(AtomicI64::new(millis)))
    }

    fn set(&self, millis: i64) {
        self.0.store(millis, Ordering::SeqCst);
    }

    fn schedule(&self, world: &World) -> (Cron, Arc<Mutex<Vec<String>>>) {
        let (clock, news) = (self.clone(), Arc::new(Mutex::new(Vec::new())));
        let told = Arc::clone(&news);
        let cron = Cron::new(world.agent.clone(), move |news| {
            told.lock().unwrap().push(match news {
                CronNews::Began { job, .. } => format!("{job} began"),
                CronNews::Ended { job, outcome } => format!("{job} {:?}", outcome.status),
                CronNews::Skipped { job, reason } => format!("{job}: {reason}"),
            });
        });
        (cron.with_wall_clock(move || clock.0.load(Ordering::SeqCst)), news)
    }
}

/// Waits until a job stands so.
async fn until(world: &World, job: &CronJob, stands: impl Fn(&CronJob, &[CronRun]) -> bool) {
    within(async {
        loop {
            // In this order: a run that is in the history and not under way has ended.
            let runs = history(world, job).await;
            let job = stored(world, job).await;
            if stands(&job, &runs) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_due_runs_in_a_session_that_begins_anew() {
    let world = world(&conversation(&[text("One."), text("One.")]), "");
    let job = added(&world, daily("report")).await;
    let due = job.next_at.expect("a time");
    let clock = Clock::at(due - 1);
    let (cron, news) = clock.schedule(&world);
    within(cron.run_due()).await.expect("done");
    assert!(news.lock().unwrap().is_empty(), "a moment before it is due");
    assert!(states(&world, &job).await.is_empty());
    clock.set(due);
    within(cron.run_due()).await.expect("done");
    assert_eq!(*news.lock().unwrap(), ["report began", "report Ok"]);
    let after = stored(&world, &job).await;
    assert_eq!((after.next_at, after.running), (Some(due + 86_400_000), None));
    let runs = history(&world, &job).await;
    assert_eq!((runs[0].state, runs[0].due_at), (CronRunState::Done, Some(due)));
    assert!(runs[0].result.as_deref().unwrap().contains("One."));
    within(cron.run_due()).await.expect("done");
    assert_eq!(states(&world, &job).await.len(), 1, "once");
    // The next run knows nothing of this one.
    clock.set(due + 86_400_000);
    within(cron.run_due()).await.expect("done");
    assert_eq!(states(&world, &job).await, [CronRunState::Done, CronRunState::Done]);
    let requests = world.server.requests();
    let said = |request: usize| requests[request].body["messages"].as_array().unwrap().len();
    assert_eq!(said(0), said(1));
    assert!(requests[1].text.contains("Do report.") && requests[1].text.contains("schedule"));
    let page = SessionPage { user: Some(USER.into()), with_ended: true, limit: 9, ..SessionPage::default() };
    let sessions = world.agent.runtime().store().session_page(page).await.expect("read");
    assert_eq!(sessions.len(), 2);
    assert!(sessions.iter().all(|session| session.key == job.session_key()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_a_session_goes_on_with_it() {
    let world = world(&conversation(&[text("Hello."), text("Again.")]), "");
    world.ask("Hi.").await;
    let job = added(&world, JobWish { session: JobSession::Named(world.key()), ..daily("greet") }).await;
    let begun = world.agent.run_cron_job(&job).await.expect("asked");
    let CronBegun::Begun(run) = begun else { panic!("{begun:?}") };
    assert_eq!(world.outcome(&run.id).await.text(), "Again.");
    assert_eq!(stored(&world, &job).await.next_at, job.next_at, "by hand its time stays");
    let entries = world.entries().await;
    assert!(
        entries.contains(&"user: Hi.".to_owned()) && entries.contains(&"user: Do greet.".to_owned()),
        "{entries:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_run_each_time_once() {
    let world = world("{ replies: [{ parts: [{ text: 'Done.' }], repeat: true }] }", "");
    let other = world.another();
    let mut jobs = Vec::new();
    for n in 0..6 {
        jobs.push(added(&world, daily(&format!("job-{n}"))).await);
    }
    let clock = Clock::at(jobs[0].next_at.expect("a time"));
    let ((one, first), (two, second)) = (clock.schedule(&world), clock.schedule(&other));
    let (a, b) = within(async { tokio::join!(one.run_due(), two.run_due()) }).await;
    a.expect("done");
    b.expect("done");
    for job in &jobs {
        until(&world, job, |job, _| job.running.is_none()).await;
        assert_eq!(states(&world, job).await, [CronRunState::Done]);
    }
    let began =
        first.lock().unwrap().iter().chain(second.lock().unwrap().iter()).filter(|news| news.contains("began")).count();
    assert_eq!(began, 6);
    assert_eq!(world.server.requests().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_process_goes_on_with_a_run_whose_process_is_gone() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("Through.")]), "");
    let job = added(&world, daily("report")).await;
    let clock = Clock::at(job.next_at.expect("a time"));
    let (cron, _) = clock.schedule(&world);
    let running = tokio::spawn(async move { cron.run_due().await });
    world.busy(1).await;
    world.dies().await;
    running.await.expect("ended").expect("done");
    assert_eq!(states(&world, &job).await, [CronRunState::Open]);
    let next = world.another();
    next.gate.add_permits(9);
    let (cron, news) = clock.schedule(&next);
    within(cron.run_due()).await.expect("done");
    assert_eq!(*news.lock().unwrap(), ["report Ok"]);
    assert_eq!((states(&next, &job).await, stored(&next, &job).await.running), (vec![CronRunState::Done], None));
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_times_are_run_for_once_or_skipped_as_the_job_says() {
    let world = world("{ replies: [{ parts: [{ text: 'Late.' }], repeat: true }] }", "");
    let late = added(&world, daily("late")).await;
    let skipping = added(&world, JobWish { missed: Some(CronMissed::Skip), ..daily("skipping") }).await;
    let day = 86_400_000;
    let due = late.next_at.expect("a time");
    // Five days later a process looks for the first time.
    let clock = Clock::at(due + 5 * day + 3_600_000);
    let (cron, _) = clock.schedule(&world);
    within(cron.run_due()).await.expect("done");
    assert_eq!(states(&world, &late).await, [CronRunState::Done]);
    assert_eq!(states(&world, &skipping).await, [CronRunState::Missed]);
    for job in [&late, &skipping] {
        assert_eq!(stored(&world, job).await.next_at, Some(due + 6 * day));
    }
    // Half a minute is not late: the system's own cron starts a process once a minute.
    clock.set(due + 6 * day + 30_000);
    let (cron, _) = clock.schedule(&world);
    within(cron.run_due()).await.expect("done");
    assert_eq!(states(&world, &skipping).await, [CronRunState::Done, CronRunState::Missed]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_runs_nothing_twice_and_stops_no_period() {
    let world = world("{ replies: [{ parts: [{ text: 'Done.' }], repeat: true }] }", "");
    let job = added(&world, daily("daily")).await;
    let period = added(&world, wish("period", When::Every("1s".into()))).await;
    let due = job.next_at.expect("a time");
    let clock = Clock::at(due);
    let (cron, _) = clock.schedule(&world);
    within(cron.run_due()).await.expect("done");
    assert_eq!(states(&world, &job).await.len(), 1);
    clock.set(due - 40 * 86_400_000);
    let watched = world.agent.clone();
    let watching = tokio::spawn(async move { cron.watch().await });
    // It goes by the time that passes, whatever the clock on the wall shows.
    until(&world, &period, |_, runs| runs.iter().filter(|run| run.state == CronRunState::Done).count() >= 2).await;
    assert_eq!(states(&world, &job).await.len(), 1);
    watched.close().await;
    within(watching).await.expect("ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_too_long_is_ended_though_its_tool_does_not_end() {
    // The tool of `gate` ends when it is told to; `deaf` never does.
    let world = world(&conversation(&[calls(&[("deaf", 1)]), text("Never."), text("Free.")]), "");
    let wish = JobWish { timeout_seconds: Some(1), session: JobSession::Named(world.key()), ..daily("slow") };
    let job = added(&world, wish).await;
    let clock = Clock::at(job.next_at.expect("a time"));
    let (cron, news) = clock.schedule(&world);
    within(cron.run_due()).await.expect("done");
    assert_eq!(*news.lock().unwrap(), ["slow began", "slow Timeout"]);
    let after = stored(&world, &job).await;
    assert_eq!((after.running, after.failures, states(&world, &job).await), (None, 1, vec![CronRunState::TimedOut]));
    assert!(history(&world, &job).await[0].error.as_deref().unwrap().contains("longer than it may"));
    // Its session is free.
    let outcome = world.ask("Are you there?").await;
    assert_eq!(outcome.status, Status::Ok, "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_last_run_goes_on_is_skipped_and_the_history_says_so() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("Through.")]), "");
    let job = added(&world, daily("slow")).await;
    let due = job.next_at.expect("a time");
    let clock = Clock::at(due);
    let (cron, news) = clock.schedule(&world);
    let running = tokio::spawn(async move { cron.run_due().await });
    world.busy(1).await;
    let (second, skipped) = Clock::at(due + 86_400_000).schedule(&world.another());
    let second = tokio::spawn(async move { second.run_due().await });
    until(&world, &job, |_, runs| runs.len() == 2).await;
    let disabled =
        pincer_agent::set_cron_job_enabled(world.agent.runtime().store(), &stored(&world, &job).await, false).await;
    assert!(!disabled.expect("off").is_enabled, "it is turned off while it runs");
    world.gate.add_permits(1);
    within(running).await.expect("ended").expect("done");
    second.abort();
    assert!(skipped.lock().unwrap()[0].contains("has not ended"));
    assert_eq!(news.lock().unwrap().last().unwrap(), "slow Ok");
    assert_eq!(states(&world, &job).await, [CronRunState::Skipped, CronRunState::Done]);
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_jobs_run_at_once_as_may_and_each_user_has_a_turn() {
    let world = world("{ replies: [{ parts: [{ text: 'Done.' }], repeat: true }] }", "cron: { maxConcurrentRuns: 1 },");
    for n in 0..20 {
        added(&world, daily(&format!("a{n:02}"))).await;
    }
    for user in ["you", "zoe"] {
        added(&world, JobWish { user: user.into(), ..daily(user) }).await;
    }
    let clock = Clock::at(cron_now(world.agent.runtime().store()).wall + 86_400_000);
    let (cron, news) = clock.schedule(&world);
    within(cron.run_due()).await.expect("done");
    let news = news.lock().unwrap().clone();
    let order: Vec<&str> = news.iter().filter_map(|news| news.strip_suffix(" began")).collect();
    assert_eq!(order.len(), 22);
    assert!(order[..4].contains(&"you") && order[..4].contains(&"zoe"), "{order:?}");
    assert!(news.chunks(2).all(|pair| pair[0].ends_with("began") && pair[1].ends_with("Ok")), "{news:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_agent_is_gone_is_refused_and_turned_off_in_the_end() {
    let world = world(&conversation(&[text("Never.")]), "cron: { disableAfterFailures: 2 },");
    let job = added(&world, JobWish { agent: Some("writer".into()), ..daily("orphan") }).await;
    let clock = Clock::at(job.next_at.expect("a time"));
    let (cron, news) = clock.schedule(&world);
    within(cron.run_due()).await.expect("done");
    assert!(news.lock().unwrap()[0].contains("there is no agent \"writer\""), "{news:?}");
    assert_eq!((states(&world, &job).await, stored(&world, &job).await.failures), (vec![CronRunState::Refused], 1));
    clock.set(job.next_at.expect("a time") + 86_400_000);
    within(cron.run_due()).await.expect("done");
    let off = stored(&world, &job).await;
    assert!(!off.is_enabled && off.disabled_because.as_deref() == Some("2 runs in a row failed"), "{off:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_refused_again_and_again_is_one_line_of_its_history_and_told_once() {
    let world = world(&conversation(&[text("Never.")]), "");
    let every_second = wish("orphan", When::Every("1s".into()));
    let job = added(&world, JobWish { agent: Some("writer".into()), ..every_second }).await;
    let news = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&news);
    let cron = Cron::new(world.agent.clone(), move |news| kept.lock().unwrap().push(format!("{news:?}")));
    let watching = tokio::spawn(async move { cron.watch().await });
    until(&world, &job, |job, _| job.failures >= 3).await;
    world.agent.close().await;
    within(watching).await.expect("ended");
    let history = history(&world, &job).await;
    assert!(history.len() == 1 && history[0].count >= 3, "{history:?}");
    assert_eq!(news.lock().unwrap().len(), 1, "{news:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_added_while_the_schedule_runs_is_noticed() {
    let world = world("{ replies: [{ parts: [{ text: 'Done.' }], repeat: true }] }", "");
    let cron = Cron::new(world.agent.clone(), |_| {});
    let watching = tokio::spawn(async move { cron.watch().await });
    // By another process: the schedule of this one sleeps.
    let other = world.another();
    let job = added(&other, wish("soon", When::At("1s".into()))).await;
    until(&world, &job, |job, runs| job.running.is_none() && runs.len() == 1).await;
    assert_eq!((states(&world, &job).await, stored(&world, &job).await.next_at), (vec![CronRunState::Done], None));
    world.agent.close().await;
    within(watching).await.expect("ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_job_lets_its_run_end() {
    let world = world(&conversation(&[calls(&[("gate", 1)]), text("Through.")]), "");
    let job = added(&world, daily("gone")).await;
    let CronBegun::Begun(run) = world.agent.run_cron_job(&job).await.expect("asked") else { panic!("not begun") };
    world.busy(1).await;
    world.agent.runtime().store().remove_cron_job(&job.id).await.expect("removed");
    world.gate.add_permits(1);
    assert_eq!(world.outcome(&run.id).await.text(), "Through.");
    assert!(world.agent.runtime().store().agent_run(&run.id).await.is_ok());
}
