use std::pin::pin;
use std::task::{Context, Waker};

use super::*;

fn party(user: &str) -> Party {
    Party { user: user.into(), session: "1".into() }
}

/// Returns the value of a future that is ready.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn the_expected_wait_follows_the_pace_and_the_queue() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut pace = Pace::new(start);
    assert_eq!(pace.each(at(0)), Duration::ZERO, "nothing is known");
    assert_eq!(pace.each(at(10)), Duration::from_secs(10), "none came in all that time");
    (1..=9).for_each(|second| pace.serve(at(second)));
    assert_eq!(pace.each(at(10)), Duration::from_secs(1));
    // Requests of long ago count less: half a minute of one each second, then one each tenth of a second.
    (10..=30).for_each(|second| pace.serve(at(second)));
    (1..=300).for_each(|tenth| pace.serve(at(30) + Duration::from_millis(100 * tenth)));
    let each = pace.each(at(60)).as_millis();
    assert!((90..200).contains(&each), "{each} ms");

    let places = Places::new(1);
    let held = now(places.place(&party("a"))).expect("free");
    assert_eq!(places.expected_wait("a"), Duration::ZERO, "none is ahead");
    let of_a = party("a");
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(places.place(&of_a))).collect();
    waiting.iter_mut().for_each(|one| assert!(now(one).is_none()));
    places.lock().paces.get_mut("a").expect("a pace").since -= Duration::from_secs(5);
    let wait = places.expected_wait("a").as_secs();
    assert!((15..17).contains(&wait), "three of 5 s each: {wait} s");
    assert_eq!(places.expected_wait("b"), Duration::ZERO, "others have their own turns");
    waiting.pop();
    let wait = places.expected_wait("a").as_secs();
    assert!((10..12).contains(&wait), "one has given up: {wait} s");
    drop(waiting);
    drop(held);
    assert!(places.lock().paces.is_empty());
}

#[test]
fn one_user_never_has_all_places_of_a_server() {
    let places = Places::new(64);
    let mut held = HashMap::new();
    for user in ["a", "b", "c", "d"] {
        let of_user: Vec<Place> = std::iter::from_fn(|| now(places.place(&party(user)))).collect();
        held.insert(user, of_user);
    }
    let mut counts: Vec<usize> = held.values().map(Vec::len).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 3, 12, 48]);
    drop(held);
    let command = Places::new(4);
    assert_eq!(std::iter::from_fn(|| now(command.place(&party("a"))).map(std::mem::forget)).count(), 4);
}

#[test]
fn the_place_of_a_program_that_rests_goes_to_the_next_request() {
    let places = Places::new(2);
    let (mut a, mut b) = (now(places.place(&party("a"))).unwrap(), now(places.place(&party("a"))).unwrap());
    assert_eq!(places.working(), 2);
    b.rest(0);
    a.rest(0);
    assert_eq!(places.working(), 0);
    assert!(now(b.wanted()).is_none());
    let party = party("b");
    let mut waits = pin!(places.place(&party));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(&mut context).is_pending());
    // The one that has rested the longest, and only one.
    assert!(now(b.wanted()).is_some() && now(a.wanted()).is_none());
    // It has something to do just now: then the other.
    b.work();
    assert!(now(a.wanted()).is_some());
    drop(a);
    assert!(waits.as_mut().poll(&mut context).is_ready());
    drop(b);
    let state = places.lock();
    assert_eq!((state.free, state.resting.len(), state.leaving, state.held.len()), (2, 0, 0, 0));
}

#[test]
fn a_user_with_too_many_places_gets_those_of_the_own_programs_that_rest() {
    let places = Places::new(8);
    let mut of_a: Vec<Place> = std::iter::from_fn(|| now(places.place(&party("a")))).collect();
    let mut b = now(places.place(&party("b"))).unwrap();
    assert_eq!(of_a.len(), 6);
    b.rest(0);
    of_a[3].rest(0);
    let party = party("a");
    let mut waits = pin!(places.place(&party));
    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(now(b.wanted()).is_none() && now(of_a[3].wanted()).is_some());
    drop(of_a.remove(3));
    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

/// Users with as many programs as they like take the places of those that rest, down to a fair share, and leave the few
/// programs of others alone.
#[test]
fn requests_of_one_user_do_not_put_the_few_programs_of_another_aside() {
    let places = Places::new(64);
    let mut of_b: Vec<Place> = (0..4).map(|_| now(places.place(&party("b"))).unwrap()).collect();
    let of_a: Vec<Place> = std::iter::from_fn(|| now(places.place(&party("a")))).collect();
    assert_eq!((of_a.len(), places.lock().free), (45, 15));
    of_b.iter_mut().for_each(|place| place.rest(0));
    assert!(now(places.place(&party("a"))).is_none(), "it waits");
    assert!(of_b.iter().all(|place| now(place.wanted()).is_none()));
    // A user without any place gets one of a program that rests.
    drop((of_a, of_b));
    let places = Places::new(1);
    let mut of_b = now(places.place(&party("b"))).unwrap();
    of_b.rest(0);
    let of_a = party("a");
    let mut waits = pin!(places.place(&of_a));
    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(now(of_b.wanted()).is_some());
}

/// Programs of one user that all rest do not keep another one small.
#[test]
fn a_user_whose_programs_rest_gives_way_and_keeps_some_places() {
    let places = Places::new(64);
    let mut of_b: Vec<Place> = std::iter::from_fn(|| now(places.place(&party("b")))).collect();
    of_b.iter_mut().for_each(|place| place.rest(0));
    let a = party("a");
    let mut context = Context::from_waker(Waker::noop());
    let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(places.place(&a))).collect();
    let mut of_a = Vec::new();
    for _ in 0..100 {
        waiting.retain_mut(|one| match one.as_mut().poll(&mut context) {
            std::task::Poll::Ready(place) => {
                of_a.push(place);
                false
            }
            std::task::Poll::Pending => true,
        });
        of_b.retain(|place| now(place.wanted()).is_none());
    }
    assert!(of_a.len() >= 24 && of_b.len() >= 8, "{} and {}", of_a.len(), of_b.len());
}

#[test]
fn programs_that_rest_are_asked_for_as_much_memory_as_is_needed() {
    let places = Places::new(8);
    let mut all: Vec<Place> = (0..3).map(|_| now(places.place(&party("a"))).unwrap()).collect();
    all.iter_mut().for_each(|place| place.rest(10));
    places.make_room(11);
    places.make_room(15);
    assert_eq!([0, 1, 2].map(|n| now(all[n].wanted()).is_some()), [true, true, false]);
    // One of them has something to do just now.
    all[0].work();
    places.make_room(15);
    assert!(now(all[2].wanted()).is_some());
    places.make_room(1000);
    drop(all);
    let state = places.lock();
    assert_eq!((state.free, state.leaving, state.leaving_bytes), (8, 0, 0));
}

#[test]
fn a_request_that_was_given_up_leaves_nothing_behind() {
    let places = Places::new(1);
    let mut a = now(places.place(&party("a"))).unwrap();
    assert!(now(places.place(&party("b"))).is_none());
    assert!(now(places.place(&party("c"))).is_none());
    a.rest(0);
    assert!(now(a.wanted()).is_none(), "nobody waits any more");
    drop(a);
    let state = places.lock();
    assert_eq!((state.free, state.waiting.is_empty()), (1, true));
}

#[test]
fn a_place_for_a_request_that_was_given_up_is_free_again_and_the_count_is_right() {
    let places = Places::new(1);
    let a = now(places.place(&party("a"))).unwrap();
    let (b, c) = (party("b"), party("c"));
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut goes = pin!(places.place(&b));
        assert!(goes.as_mut().poll(&mut context).is_pending());
        let mut stays = Box::pin(places.place(&c));
        assert!(stays.as_mut().poll(&mut context).is_pending());
        // The first request gets it, and is given up before it is polled.
        drop(a);
        assert!(stays.as_mut().poll(&mut context).is_pending());
        std::mem::forget(stays);
    }
    let state = places.lock();
    assert_eq!((state.free, state.gone, state.waiting.len()), (0, 0, 0));
}
