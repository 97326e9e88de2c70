//! The promises of the traits about jobs of the schedule: the way in which they are stored, found and due.

use pincer_store::{
    CronAfter, CronChange, CronClock, CronDefinition, CronJob, CronMissed, CronNow, CronPage, Millis, NewCronJob,
    Reply, Route, StoreError,
};

use crate::session_words::{exists, missing};
use crate::{Blocking, Fresh};

/// A job of `me` that says `hello` by the clock on the wall.
pub(crate) fn job(id: &str, next_at: Millis) -> NewCronJob {
    NewCronJob {
        id: id.into(),
        user: "me".into(),
        definition: CronDefinition {
            name: format!("name of {id}"),
            schedule: "{}".into(),
            clock: CronClock::Wall,
            session: None,
            agent: None,
            model: None,
            timeout_seconds: None,
            message: "hello".into(),
            channel: None,
            sender: None,
            route: None,
            author: None,
            missed: None,
            after: CronAfter::Keep,
        },
        next_at: Some(next_at),
        made_by: None,
        most_by_agents: 0,
        now: 10,
    }
}

pub(crate) fn of_user(user: &str, new: NewCronJob) -> NewCronJob {
    NewCronJob { user: user.into(), ..new }
}

pub(crate) fn made(store: Blocking<'_>, new: NewCronJob) -> CronJob {
    store.0.create_cron_job(new).wait().expect("made")
}

pub(crate) fn stored(store: Blocking<'_>, id: &str) -> CronJob {
    store.0.cron_job(&id.into()).wait().expect("there")
}

/// The job as it is, at another time, and on or off.
pub(crate) fn changed(job: &CronJob, is_enabled: bool, next_at: Option<Millis>) -> CronChange {
    CronChange { seen: job.version, definition: job.definition.clone(), is_enabled, next_at, now: 20 }
}

fn done<T>(reply: Reply<T>) -> Result<T, StoreError> {
    reply.wait()
}

pub fn a_job_is_stored_found_changed_and_removed(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let (account, thread) = (Some("work".into()), Some("t1".into()));
        let place = Route { channel: "irc".into(), account, to: "#lounge".into(), thread };
        let definition = CronDefinition {
            name: "Weekly \u{1f980} report".into(),
            schedule: "{\"kind\":\"x\"}".into(),
            clock: CronClock::Store,
            session: Some("main".into()),
            agent: Some("helper".into()),
            model: Some("a/b".into()),
            timeout_seconds: Some(u64::MAX),
            message: "Sum up.".into(),
            channel: Some("irc".into()),
            sender: Some("tom".into()),
            route: Some(place.clone()),
            author: Some("irc:dm:tom".into()),
            missed: Some(CronMissed::Skip),
            after: CronAfter::Remove,
        };
        let new = NewCronJob {
            definition: definition.clone(),
            made_by: Some("ar_1".into()),
            most_by_agents: 1,
            ..job("j1", 100)
        };
        let first = made(one, new);
        let limit = i64::MAX as u64;
        assert_eq!(first.definition, CronDefinition { timeout_seconds: Some(limit), ..definition.clone() });
        assert_eq!((first.user.as_str(), first.is_enabled, first.next_at, first.failures), ("me", true, Some(100), 0));
        assert_eq!((first.made_by.as_ref().map(|run| run.as_str()), first.created_at), (Some("ar_1"), 10));
        assert_eq!(stored(two, "j1"), first);
        exists(done(one.0.create_cron_job(NewCronJob { made_by: None, ..job("j1", 5) })));

        let elsewhere = Route { account: None, thread: None, ..place };
        let other = CronDefinition {
            name: "another".into(),
            session: None,
            route: Some(elsewhere),
            author: Some("main".into()),
            ..definition
        };
        let change = CronChange { definition: other.clone(), ..changed(&first, true, Some(200)) };
        let second = done(two.0.change_cron_job(&"j1".into(), change.clone())).expect("changed");
        assert_eq!((second.definition.name.as_str(), second.next_at, second.updated_at), ("another", Some(200), 20));
        assert_eq!(second.definition, CronDefinition { timeout_seconds: Some(limit), ..other.clone() });
        assert!(second.version > first.version && second.session_key() == "cron:j1" && first.session_key() == "main");
        let late = done(one.0.change_cron_job(&"j1".into(), change));
        assert!(matches!(late, Err(StoreError::JobChanged { .. })), "{late:?}");

        done(one.0.remove_cron_job(&"j1".into())).expect("removed");
        missing(done(one.0.remove_cron_job(&"j1".into())));
        missing(done(two.0.cron_job(&"j1".into())));
        missing(done(two.0.cron_runs(&"j1".into(), None, 9)));
        missing(done(two.0.change_cron_job(&"j1".into(), changed(&second, true, None))));
    });
}

pub fn a_name_belongs_to_one_job_of_a_user(fresh: &Fresh) {
    fresh.with_store(|store| {
        let named = |id: &str, name: &str| {
            let mut new = job(id, 5);
            new.definition.name = name.into();
            new
        };
        let first = made(store, named("j1", "daily"));
        exists(done(store.0.create_cron_job(named("j2", "daily"))));
        made(store, of_user("you", named("j3", "daily")));
        let second = made(store, named("j4", "Daily"));
        let mut change = changed(&second, true, None);
        change.definition.name = "daily".into();
        exists(done(store.0.change_cron_job(&"j4".into(), change)));
        // Its own name it may keep.
        done(store.0.change_cron_job(&"j1".into(), changed(&first, true, None))).expect("changed");
    });
}

pub fn a_job_is_found_by_the_beginning_of_its_id(fresh: &Fresh) {
    fresh.with_store(|store| {
        for id in ["cj_1a", "cj_1b", "cj_2"] {
            made(store, job(id, 5));
        }
        made(store, of_user("you", job("cj_3", 5)));
        let mut odd = job("cj_4", 5);
        odd.definition.name = "cj_2".into();
        made(store, odd);
        let find = |user: &str, name: &str| done(store.0.cron_job_named(user, name)).map(|job| job.id.to_string());
        assert_eq!(find("me", "cj_1a").expect("by id"), "cj_1a");
        assert_eq!(find("me", "name of cj_1b").expect("by name"), "cj_1b");
        assert_eq!(find("me", "cj_2").expect("by name first"), "cj_4");
        assert_eq!(find("you", "cj_").expect("the only one"), "cj_3");
        for (user, name) in
            [("me", "cj_1"), ("me", ""), ("me", "cj_3"), ("me", "nope"), ("none", "cj_2"), ("me", "cj%")]
        {
            missing(find(user, name));
        }
    });
}

pub fn jobs_are_listed_in_pages_without_gaps(fresh: &Fresh) {
    fresh.with_store(|store| {
        for n in 0..5 {
            made(store, job(&format!("j{n}"), 5));
        }
        made(store, of_user("you", job("j5", 5)));
        let page = |user: Option<&str>, after: Option<&str>, limit| {
            let page = CronPage { user: user.map(str::to_owned), after: after.map(Into::into), limit };
            let jobs = done(store.0.cron_jobs(page)).expect("listed");
            jobs.iter().map(|job| job.id.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(page(Some("me"), None, 3), "j0 j1 j2");
        done(store.0.remove_cron_job(&"j2".into())).expect("removed");
        assert_eq!(page(Some("me"), Some("j2"), 3), "j3 j4");
        assert_eq!((page(Some("you"), None, 9), page(None, Some("j3"), 9)), ("j5".into(), "j4 j5".into()));
    });
}

pub fn agents_make_as_many_jobs_as_they_may(fresh: &Fresh) {
    fresh.with_store(|store| {
        let by_agent = |id: &str| NewCronJob { made_by: Some("ar_1".into()), most_by_agents: 2, ..job(id, 5) };
        made(store, job("j0", 5));
        made(store, by_agent("j1"));
        made(store, by_agent("j2"));
        let refused = done(store.0.create_cron_job(by_agent("j3")));
        assert!(matches!(refused, Err(StoreError::TooManyJobs { limit: 2 })), "{refused:?}");
        made(store, of_user("you", by_agent("j4")));
        made(store, job("j5", 5));
        done(store.0.remove_cron_job(&"j1".into())).expect("removed");
        made(store, by_agent("j6"));
    });
}

/// The jobs that are due, in their order.
pub(crate) fn due(store: Blocking<'_>, now: (Millis, Millis), after: Option<&str>, limit: u32) -> String {
    let now = CronNow { wall: now.0, store: now.1 };
    let jobs = store.0.due_cron_jobs(now, after, limit).wait().expect("read");
    jobs.iter().map(|job| job.id.to_string()).collect::<Vec<_>>().join(" ")
}

pub fn of_each_user_the_job_that_is_due_for_longest_is_found(fresh: &Fresh) {
    fresh.with_store(|store| {
        for n in 0..20 {
            made(store, of_user("b", job(&format!("b{n:02}"), 100 - n)));
        }
        made(store, of_user("a", job("a1", 95)));
        made(store, of_user("c", job("c1", 300)));
        made(store, of_user("d", job("d1", 99)));
        let mut by_store = of_user("a", job("a2", 10));
        by_store.definition.clock = CronClock::Store;
        made(store, by_store);
        let times = store.0.next_cron_times().wait().expect("read");
        assert_eq!(times, [(CronClock::Wall, 81), (CronClock::Store, 10)]);
        assert_eq!(due(store, (80, 9), None, 9), "");
        assert_eq!(due(store, (100, 9), None, 9), "a1 b19 d1");
        assert_eq!(due(store, (100, 9), None, 2), "a1 b19");
        assert_eq!(due(store, (100, 9), Some("b"), 2), "d1");
        assert_eq!(due(store, (100, 9), Some("d"), 2), "");
        // By the other clock it is due for 90, by this one for 5.
        assert_eq!(due(store, (100, 100), None, 9), "a2 b19 d1");
        assert_eq!(due(store, (0, 100), None, 9), "a2");
        assert_eq!(due(store, (300, 9), Some("b"), 9), "c1 d1");
    });
}

pub fn jobs_that_are_off_or_over_are_not_due(fresh: &Fresh) {
    fresh.with_store(|store| {
        let first = made(store, job("j1", 50));
        made(store, NewCronJob { next_at: None, ..job("j2", 0) });
        assert_eq!(due(store, (60, 0), None, 9), "j1");
        let off = done(store.0.change_cron_job(&"j1".into(), changed(&first, false, Some(50)))).expect("off");
        assert_eq!((off.is_enabled, off.next_at), (false, None));
        assert_eq!(
            (due(store, (60, 0), None, 9), store.0.next_cron_times().wait().expect("read")),
            (String::new(), vec![])
        );
        let on = done(store.0.change_cron_job(&"j1".into(), changed(&off, true, Some(70)))).expect("on");
        assert_eq!((on.is_enabled, on.next_at, due(store, (70, 0), None, 9)), (true, Some(70), "j1".into()));
    });
}
