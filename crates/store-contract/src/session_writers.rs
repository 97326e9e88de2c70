//! Two processes that write to one session, in every order of their steps.
use pincer_store::Fence;

use crate::session_words::*;
use crate::{Blocking, Fresh};

const STEPS: [Step; 5] = [Step::Look, Step::Claim, Step::Commit(1), Step::Commit(2), Step::Release];

#[derive(Clone, Copy, Debug)]
enum Step {
    Look,
    Claim,
    Commit(u32),
    Release,
}

/// A process. It goes on after it was refused, and with a proof that is long outdated: worse than one that is correct.
struct Process<'a> {
    store: Blocking<'a>,
    name: &'static str,
    seen: Fence,
    /// The last proof it had. Before its first claim it tries with what a new session has.
    fence: Fence,
    taken: usize,
}

impl<'a> Process<'a> {
    fn new(store: Blocking<'a>, name: &'static str) -> Self {
        Self { store, name, seen: Fence(0), fence: Fence::FIRST, taken: 0 }
    }
}

/// What is expected of the session.
struct Expected {
    fence: i64,
    owner: Option<&'static str>,
    entries: Vec<String>,
}

impl Expected {
    /// Takes the next step of a process, here and in the store.
    fn step(&mut self, process: &mut Process<'_>, session: &str) {
        let step = STEPS[process.taken];
        process.taken += 1;
        let Process { store, name, .. } = *process;
        let entry = |proof: i64, number: u32| format!("{name}-{proof}-{number}");
        match step {
            Step::Look => process.seen = store.session(session).expect("there").fence,
            Step::Claim => {
                let id = entry(process.seen.0 + 1, 0);
                let claimed = store.claim_session(session, process.seen, name, &storing([message(&id)]));
                if process.seen.0 == self.fence {
                    process.fence = claimed.expect("it saw the latest");
                    (self.fence, self.owner) = (process.fence.0, Some(name));
                    self.entries.push(id);
                } else {
                    session_fenced(claimed);
                }
            }
            Step::Commit(number) => {
                let id = entry(process.fence.0, number);
                let done = store.commit_session(session, process.fence, &storing([message(&id)]));
                if process.fence.0 == self.fence {
                    assert_eq!(done.expect("its writer").first as usize, self.entries.len() + 1);
                    self.entries.push(id);
                } else {
                    session_fenced(done);
                }
            }
            Step::Release => {
                let done = store.commit_session(session, process.fence, &release());
                if process.fence.0 == self.fence {
                    done.expect("its writer");
                    (self.fence, self.owner) = (store.session(session).expect("there").fence.0, None);
                    assert!(self.fence > process.fence.0);
                } else {
                    session_fenced(done);
                }
            }
        }
        let stands = store.session(session).expect("there");
        assert_eq!((stands.fence.0, stands.owner), (self.fence, self.owner.map(Into::into)), "{step:?} of {name}");
    }
}

/// Each bit of `order` says whose turn it is.
fn check(one: Blocking<'_>, two: Blocking<'_>, order: u32) {
    let session = format!("s{order}");
    // Not the first proof: both processes try with that, and neither has it.
    let first = one.create_session(&crate::session_words::session(&session, &session)).expect("made").fence;
    let first = one.claim_session(&session, first, "gone", &storing([])).expect("claimed");
    let mut expected = Expected { fence: first.0, owner: Some("gone"), entries: Vec::new() };
    let (mut first, mut second) = (Process::new(one, "p1"), Process::new(two, "p2"));
    for turn in 0..2 * STEPS.len() {
        let process = if order & (1 << turn) == 0 { &mut first } else { &mut second };
        expected.step(process, &session);
    }
    let stored = two.entries(&session, ALL).expect("read");
    assert_eq!(ids(&stored), expected.entries, "order {order:#b}");
    assert_eq!(context(one, &session), expected.entries.join(" "), "one after the other");
    // The tenures follow each other: no entry of one is among those of another.
    let proofs: Vec<i64> =
        stored.iter().filter_map(|entry| entry.id.as_str().split('-').nth(1)?.parse().ok()).collect();
    assert!(proofs.len() == stored.len() && proofs.is_sorted(), "order {order:#b}: {proofs:?}");
    assert!(!stored.is_empty(), "at least one of them could write");
}

pub fn two_writers_never_mix_in_any_order(fresh: &Fresh) {
    fresh.with_two(|one, two| {
        let steps = 2 * STEPS.len() as u32;
        let orders: Vec<u32> = (0..1 << steps).filter(|order: &u32| order.count_ones() * 2 == steps).collect();
        assert_eq!(orders.len(), 252);
        orders.into_iter().for_each(|order| check(one, two, order));
    });
}
