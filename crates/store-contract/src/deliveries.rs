//! The promises of the traits about texts on their way to channels.
use pincer_store::DeliveryState::{Cancelled, Failed, Pending, Sent};
use pincer_store::{
    AgentRunState, Delivery, DeliveryChange, DeliverySource, Enqueued, Fence, MOST_PENDING, NewAgentRun, NewDelivery,
    Route, SessionCommit, StoreError,
};

use crate::session_words::*;
use crate::{Blocking, Fresh};

fn route(to: &str) -> Route {
    Route { channel: "irc".into(), to: to.into(), ..Route::default() }
}

/// A text for a place on `irc`.
pub fn new(id: &str, to: &str) -> NewDelivery {
    NewDelivery {
        id: id.into(),
        user: "me".into(),
        run: None,
        source: DeliverySource::Operator,
        key: format!("key of {id}"),
        route: route(to),
        reply_to: None,
        text: format!("text of {id}").into(),
        expires_at: Some(900),
        now: 50,
    }
}

fn enqueued(store: Blocking<'_>, delivery: &NewDelivery) -> Delivery {
    match store.enqueue(delivery).expect("asked") {
        Enqueued::New(delivery) => delivery,
        other => panic!("{other:?}"),
    }
}

/// The first deliveries of the routes of `irc`.
fn first(store: Blocking<'_>) -> String {
    let first = store.first_deliveries("irc").expect("read");
    first.iter().map(|delivery| delivery.id.as_str()).collect::<Vec<_>>().join(" ")
}

fn later(next_at: i64) -> DeliveryChange {
    DeliveryChange::Later { next_at, error: "the server is down".into() }
}

fn sent(at: i64) -> DeliveryChange {
    DeliveryChange::Sent { message_id: Some("m1".into()), at }
}

pub fn a_delivery_is_stored_once_per_key(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let reply = NewDelivery { reply_to: Some("m0".into()), ..new("d1", "ann") };
        let stored = enqueued(one, &reply);
        assert_eq!((stored.id.as_str(), stored.user.as_str(), &*stored.text), ("d1", "me", "text of d1"));
        assert_eq!((stored.route.clone(), stored.reply_to.as_deref()), (route("ann"), Some("m0")));
        assert_eq!((stored.state, stored.attempts, stored.next_at, stored.sent_bytes), (Pending, 0, 50, 0));
        assert_eq!((stored.created_at, stored.expires_at, stored.ended_at), (50, Some(900), None));
        assert_eq!((stored.owner.clone(), stored.error.clone(), stored.is_checked), (None, None, false));
        assert_eq!(two.delivery("d1").expect("there"), stored);
        let again = NewDelivery { id: "d2".into(), ..reply.clone() };
        assert_eq!(two.enqueue(&again).expect("asked"), Enqueued::Same(stored.clone()));
        let text = NewDelivery { text: "another".into(), ..again.clone() };
        assert_eq!(two.enqueue(&text).expect("asked"), Enqueued::Different("d1".into()));
        let place = NewDelivery { route: route("ben"), ..again.clone() };
        assert_eq!(two.enqueue(&place).expect("asked"), Enqueued::Different("d1".into()));
        missing(two.delivery("d2"));
        // A text that hooks have changed is the same delivery.
        let claimed = one.claim_delivery("d1", stored.fence, "p").expect("claimed");
        let changed = DeliveryChange::Checked { text: Some("rewritten".into()) };
        one.change_delivery("d1", claimed.fence, changed).expect("changed");
        let Enqueued::Same(same) = two.enqueue(&again).expect("asked") else { panic!("another") };
        assert_eq!((&*same.text, same.is_checked), ("rewritten", true));
        enqueued(two, &NewDelivery { user: "you".into(), ..again });
    });
}

pub fn deliveries_of_a_route_come_one_after_the_other(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        for (id, to) in [("a1", "ann"), ("a2", "ann"), ("b1", "ben"), ("a3", "ann")] {
            enqueued(one, &new(id, to));
        }
        let other = |route| NewDelivery { route, ..new("x", "ann") };
        let thread = Route { thread: Some("t".into()), ..route("ann") };
        let account = Route { account: Some("t".into()), ..route("ann") };
        for (id, route) in [("t1", thread), ("c1", account), ("o1", Route { channel: "web".into(), ..route("ann") })] {
            enqueued(one, &NewDelivery { id: id.into(), key: id.into(), ..other(route) });
        }
        assert_eq!(first(two), "a1 b1 t1 c1");
        let claimed = two.claim_delivery("a1", one.delivery("a1").expect("there").fence, "p").expect("claimed");
        assert_eq!((claimed.attempts, claimed.owner.as_ref().map(|owner| owner.as_str())), (1, Some("p")));
        assert_eq!(first(one), "a1 b1 t1 c1", "the others of its route wait while it is sent");
        two.change_delivery("a1", claimed.fence, later(70)).expect("changed");
        assert_eq!(first(one), "b1 t1 c1 a1", "and while it waits itself; what is due first comes first");
        let stands = one.delivery("a1").expect("there");
        assert_eq!((stands.next_at, stands.owner, stands.error.as_deref()), (70, None, Some("the server is down")));
        assert_eq!(one.hurry_deliveries("irc", 60).expect("hurried"), 1);
        assert_eq!(one.delivery("a1").expect("there").next_at, 60);
        let claimed = one.claim_delivery("a1", stands.fence, "q").expect("claimed");
        assert_eq!(claimed.attempts, 2);
        one.change_delivery("a1", claimed.fence, sent(80)).expect("changed");
        assert_eq!(first(two), "a2 b1 t1 c1");
        let stands = one.delivery("a1").expect("there");
        assert_eq!((stands.state, stands.ended_at, stands.message_id.as_deref()), (Sent, Some(80), Some("m1")));
        assert_eq!((stands.sent_bytes, stands.error, stands.owner), (10, None, None));
    });
}

pub fn a_delivery_is_in_the_hands_of_one_process(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let made = enqueued(one, &new("d", "ann"));
        let mine = one.claim_delivery("d", made.fence, "p").expect("claimed");
        missing(two.claim_delivery("d", made.fence, "q"));
        let part = |bytes| DeliveryChange::Part { sent_bytes: bytes, message_id: Some("m".into()) };
        one.change_delivery("d", mine.fence, part(4)).expect("changed");
        // The process is gone, and another one goes on behind the part that was sent.
        let theirs = two.claim_delivery("d", mine.fence, "q").expect("claimed");
        assert_eq!((theirs.sent_bytes, theirs.message_id.as_deref(), theirs.attempts), (4, Some("m"), 2));
        for change in [part(9), later(70), sent(70), DeliveryChange::Failed { error: "no".into(), at: 70 }] {
            missing(one.change_delivery("d", mine.fence, change));
        }
        assert_eq!(two.delivery("d").expect("there"), theirs);
        let failed = DeliveryChange::Failed { error: "no such nick".into(), at: 75 };
        two.change_delivery("d", theirs.fence, failed).expect("changed");
        let stands = one.delivery("d").expect("there");
        assert_eq!((stands.state, stands.error.as_deref(), stands.ended_at), (Failed, Some("no such nick"), Some(75)));
        missing(two.claim_delivery("d", stands.fence, "q"));
        missing(two.change_delivery("d", stands.fence, sent(80)));
        missing(two.claim_delivery("none", Fence(1), "q"));
    });
}

pub fn a_delivery_is_cancelled_until_it_has_ended(fresh: &Fresh) {
    fresh.with_store(|store| {
        let made = enqueued(store, &new("d", "ann"));
        let claimed = store.claim_delivery("d", made.fence, "p").expect("claimed");
        assert!(store.cancel_delivery("d", "not wanted", 60).expect("cancelled"));
        missing(store.change_delivery("d", claimed.fence, later(90)));
        let stands = store.delivery("d").expect("there");
        assert_eq!((stands.state, stands.error.as_deref()), (Cancelled, Some("not wanted")));
        assert!(!store.cancel_delivery("d", "again", 61).expect("told"));
        missing(store.cancel_delivery("none", "", 61));
        assert_eq!(first(store), "");
    });
}

pub fn deliveries_are_part_of_the_commit_that_makes_them_due(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let fence = held(one, "s", "main");
        accepted(one, &incoming("r", "main"));
        turn(one, "s", fence, "r", AgentRunState::Running);
        let of_run = |id: &str| NewDelivery { run: Some("r".into()), ..new(id, "ann") };
        let with = |deliveries: Vec<NewDelivery>, entry| SessionCommit { deliveries, ..storing([message(entry)]) };
        // Neither half of a commit that is refused happens.
        session_fenced(one.commit_session("s", Fence(99), &with(vec![of_run("d0")], "m0")));
        exists(one.commit_session(
            "s",
            fence,
            &SessionCommit { deliveries: vec![of_run("d0")], ..storing([message("m1"), message("m1")]) },
        ));
        assert_eq!(two.deliveries_of_run("r").expect("read"), []);
        one.commit_session("s", fence, &with(vec![of_run("d1"), of_run("d2")], "m1")).expect("stored");
        // A key that is known is left out, and nothing else.
        one.commit_session("s", fence, &with(vec![of_run("d1"), of_run("d3")], "m2")).expect("stored");
        let ids = |run: &str| {
            let all = two.deliveries_of_run(run).expect("read");
            all.iter().map(|delivery| delivery.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids("r"), ["d1", "d2", "d3"]);
        let answered = NewAgentRun {
            answer: Some("1".into()),
            delivery: Some(NewDelivery { run: Some("q".into()), ..new("d4", "ann") }),
            ..incoming("q", "main")
        };
        accepted(one, &answered);
        assert_eq!(ids("q"), ["d4"]);
    });
}

pub fn a_full_route_refuses_deliveries_and_takes_the_end_of_a_run(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        let many: Vec<NewDelivery> = (0..MOST_PENDING).map(|n| new(&format!("d{n}"), "ann")).collect();
        let commit = SessionCommit { deliveries: many, ..storing([]) };
        store.commit_session("s", fence, &commit).expect("stored");
        assert_eq!(store.enqueue(&new("more", "ann")).expect("asked"), Enqueued::Full);
        enqueued(store, &new("other", "ben"));
        let commit = SessionCommit { deliveries: vec![new("end", "ann")], ..storing([message("m")]) };
        store.commit_session("s", fence, &commit).expect("stored");
        let stands = store.delivery("end").expect("there");
        assert_eq!((stands.state, stands.ended_at), (Failed, Some(50)));
        assert!(stands.error.expect("a reason").contains("wait for this route"));
    });
}

pub fn deliveries_are_listed_and_forgotten(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        accepted(store, &incoming("r", "main"));
        turn(store, "s", fence, "r", AgentRunState::Running);
        for (id, run) in [("d1", Some("r")), ("d2", None), ("d3", None), ("d4", Some("r"))] {
            enqueued(store, &NewDelivery { run: run.map(Into::into), ..new(id, id) });
        }
        for (id, at) in [("d1", 60), ("d2", 60), ("d3", 80)] {
            let claimed = store.claim_delivery(id, store.delivery(id).expect("there").fence, "p").expect("claimed");
            store.change_delivery(id, claimed.fence, sent(at)).expect("changed");
        }
        let ids = |state, limit| {
            let all = store.deliveries(state, limit).expect("read");
            all.iter().map(|delivery| delivery.id.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            (ids(None, 9), ids(Some(Sent), 2), ids(Some(Pending), 9)),
            ("d4 d3 d2 d1".into(), "d3 d2".into(), "d4".into())
        );
        // The texts that an open run has sent must be known until its end.
        assert_eq!(store.forget_deliveries(70).expect("forgotten"), 1);
        assert_eq!(ids(None, 9), "d4 d3 d1");
        turn(store, "s", fence, "r", AgentRunState::Done);
        assert_eq!(store.forget_deliveries(70).expect("forgotten"), 1);
        assert_eq!(store.forget_deliveries(1000).expect("forgotten"), 1, "none that waits");
        // The texts of a session go with it, but for those that are still to be sent.
        let more = NewDelivery { run: Some("r".into()), ..new("d5", "d5") };
        enqueued(store, &more);
        let claimed = store.claim_delivery("d5", store.delivery("d5").expect("there").fence, "p").expect("claimed");
        store.change_delivery("d5", claimed.fence, sent(90)).expect("changed");
        store.delete_session("s", fence).expect("deleted");
        assert!(matches!(store.delivery("d5"), Err(StoreError::Missing { .. })));
        assert_eq!(store.delivery("d4").expect("there").state, Pending);
    });
}

pub fn deliveries_fail_when_their_time_is_over(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let of = |id: &str, channel: &str, expires_at| {
            let route = Route { channel: channel.into(), ..route("ann") };
            NewDelivery { route, expires_at, ..new(id, "ann") }
        };
        for delivery in [of("d1", "irc", Some(900)), of("d2", "gone", Some(900)), of("d3", "gone", None)] {
            enqueued(one, &delivery);
        }
        let held = enqueued(one, &of("d4", "held", Some(900)));
        let held = one.claim_delivery("d4", held.fence, "p").expect("claimed");
        assert!(two.expire_deliveries(899).expect("asked").is_empty());
        let ended = two.expire_deliveries(900).expect("asked");
        let mut ids: Vec<&str> = ended.iter().map(|delivery| delivery.id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["d1", "d2"], "one that is being sent has more time, one without an end has all");
        assert!(ended.iter().all(|ended| (ended.state, ended.ended_at) == (Failed, Some(900))));
        assert_eq!(ended[0].error.as_deref(), Some("it could not be sent in its time"));
        assert!(one.expire_deliveries(900).expect("asked").is_empty(), "once");
        // Its process has died, and no other one runs the channel.
        let late = 900 + 3_600_000;
        assert_eq!(two.expire_deliveries(late).expect("asked")[0].id, held.id);
        assert!(matches!(one.change_delivery("d4", held.fence, sent(late)), Err(StoreError::Missing { .. })));
    });
}
