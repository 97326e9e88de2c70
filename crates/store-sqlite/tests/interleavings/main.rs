//! Two and three owners of one run, each with its own connection, in every interleaving of their steps.
//!
//! After each step the rules below must hold, and what the owner was told and what is stored must be what the model says
//! ([`model`]); the rules know nothing of the model. At each point all owners die and another process takes over: it can, and no
//! call that has settled is made again.
//!
//! Points of different interleavings that have the same rows in all tables, the same steps left and owners that know the same
//! are explored once, since all that follows is the same. `PINCER_TEST_EACH_INTERLEAVING=1` takes each interleaving by itself.
//!
//! Owners go on after they were refused, and with proofs that are long outdated: worse than any process that is correct.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "figures for whoever runs it with --nocapture")]

mod model;
mod world;

use std::collections::HashMap;

use pincer_store::{CallState, Fence, Repeat, RunState};

use crate::model::Step::{
    Abort, Claim, Delta, Effect, Expire, Finish, Full, LetWait, Look, Park, Read, Retire, Settle,
};
use crate::model::{Model, Owner, Step, Told};
use crate::world::{RUN, Rows, Start, Stored, World};
use pincer_store_contract::words::{
    SAFE, claim, dispatch, effect, fenced, finish, full, not_covered, read_only, settle,
};

/// The name of an owner and what it does.
type Script = (&'static str, &'static [Step]);

/// Whatever an owner may do only with the latest proof of a run that has not ended.
fn needs_proof(step: Step) -> bool {
    !matches!(step, Read | Settle(_) | Abort | Expire)
}

/// The rules, for one step.
struct Taken<'a> {
    step: Step,
    told: Told,
    /// The proof that was used.
    proof: Option<i64>,
    before: &'a Stored,
    after: &'a Stored,
}

impl Taken<'_> {
    fn check(&self) -> Result<(), &'static str> {
        let Self { step, told, proof, before, after } = self;
        let is_done = matches!(told, Told::Done | Told::Claimed(_));
        let was_final = before.run.state.is_final();
        if needs_proof(*step) && is_done && (was_final || *proof != Some(before.run.fence.0)) {
            return Err("a commit succeeded without the latest proof, or after the end");
        }
        if !is_done && before != after {
            return Err("a step that was refused has changed something");
        }
        if was_final && (&before.run, &before.snapshot, &before.result) != (&after.run, &after.snapshot, &after.result)
        {
            return Err("a run that had ended has changed");
        }
        if matches!(told, Told::Claimed(fence) if *fence <= before.run.fence.0) || after.run.fence < before.run.fence {
            return Err("a claim did not get a new proof");
        }
        if let Effect(seq) | Retire(seq) = step
            && is_done
            && before.snapshot.as_ref().is_none_or(|snapshot| *seq >= snapshot.next)
            && (after.snapshot.is_some() || matches!(step, Effect(_)))
        {
            return Err("an effect was dispatched that the checkpoint does not cover");
        }
        if let Effect(seq) | Retire(seq) | Look(seq) = step
            && is_done
            && before.calls.iter().any(|call| call.seq == *seq && call.state == CallState::Settled)
        {
            return Err("a settled call was dispatched again");
        }
        let order = |stored: &Stored| {
            let mut order: Vec<_> = stored.calls.iter().filter_map(|call| Some((call.settled?, call.seq))).collect();
            order.sort_unstable();
            order
        };
        let (was, is) = (order(before), order(after));
        if !is.starts_with(&was) || is.iter().enumerate().any(|(index, (place, _))| *place != index as i64 + 1) {
            return Err("the order of settled calls is not total and stable");
        }
        is_resumable(after)
    }
}

/// An old checkpoint is never resumed past a newer effect, and what waits can be continued.
fn is_resumable(stored: &Stored) -> Result<(), &'static str> {
    let Some(snapshot) = &stored.snapshot else {
        let waits = stored.run.state == RunState::Waiting;
        return if waits { Err("a run waits without a checkpoint") } else { Ok(()) };
    };
    let is_beyond = stored.calls.iter().any(|call| call.repeat != Repeat::Pure && call.seq >= snapshot.next);
    if is_beyond { Err("a checkpoint is older than an effect") } else { Ok(()) }
}

/// Returns whether points that were seen before are explored again. That takes an hour.
fn takes_each() -> bool {
    std::env::var_os("PINCER_TEST_EACH_INTERLEAVING").is_some()
}

/// Everything at one point of an interleaving.
#[derive(Clone)]
struct Point {
    model: Model,
    owners: Vec<Owner>,
    /// How many steps each has taken.
    taken: Vec<usize>,
    rows: Rows,
    stored: Stored,
    /// Who did what, for the message.
    trace: Vec<(usize, Step, Told)>,
}

/// What decides about everything that can follow.
type Key = (String, Vec<(Option<(&'static str, i64)>, Option<i64>)>, Vec<usize>);

impl Point {
    fn key(&self) -> Key {
        let known = |owner: &Owner| (owner.seen.map(|(state, fence)| (state.as_str(), fence)), owner.fence);
        (format!("{:?}", self.rows), self.owners.iter().map(known).collect(), self.taken.clone())
    }
}

struct Explorer<'a> {
    world: &'a World,
    scripts: &'a [Script],
    /// How many interleavings go on from a point that was seen: two points with the same rows and owners are one.
    seen: HashMap<Key, u64>,
}

impl Explorer<'_> {
    /// Goes on from here in every way, and returns how many there are.
    fn explore(&mut self, point: &Point) -> u64 {
        let key = point.key();
        if let Some(count) = self.seen.get(&key).filter(|_| !takes_each()) {
            return *count;
        }
        self.world.put_back(&point.rows);
        self.take_over(point);
        let mut count = 0;
        for (index, (_, script)) in self.scripts.iter().enumerate() {
            if let Some(step) = script.get(point.taken[index]) {
                self.world.put_back(&point.rows);
                let next = self.step(point, index, *step);
                count += self.explore(&next);
            }
        }
        // The last step of all is the end of one.
        let count = count.max(1);
        self.seen.insert(key, count);
        count
    }

    fn step(&self, point: &Point, index: usize, step: Step) -> Point {
        let mut next = point.clone();
        next.taken[index] += 1;
        let owner = &mut next.owners[index];
        let proof = if matches!(step, Claim | LetWait) { owner.seen.map(|seen| seen.1) } else { owner.fence };
        let expected = next.model.take(step, &mut owner.clone());
        let told = self.world.take(index, step, owner);
        next.trace.push((index, step, told));
        (next.rows, next.stored) = (self.world.rows(), self.world.stored());
        let trace = &next.trace;
        let taken = Taken { step, told, proof, before: &point.stored, after: &next.stored };
        if let Err(broken) = taken.check() {
            panic!("{broken}: {trace:?}");
        }
        assert_eq!(told, expected, "{trace:?}");
        assert_eq!(next.stored.model(&next.rows), next.model, "{trace:?}");
        next
    }

    /// All owners are gone: another process goes on with the run, as code mode does.
    fn take_over(&self, point: &Point) {
        let (store, trace) = (self.world.last(), &point.trace);
        let seen = (point.stored.run.state, point.stored.run.fence);
        let claimed = store.claim_run(RUN, seen, claim("last"));
        if seen.0.is_final() {
            fenced(dispatch(store, RUN, seen.1, "last", &read_only(0)));
            return fenced(claimed);
        }
        let fence =
            claimed.unwrap_or_else(|error| panic!("nobody has it, and it cannot be continued: {error}: {trace:?}"));
        for owner in &point.owners {
            if let Some(old) = owner.fence.map(Fence) {
                fenced(dispatch(store, RUN, old, owner.name, &effect(0)));
                fenced(store.checkpoint(RUN, old, &full(99, b""), SAFE));
                fenced(finish(store, RUN, old, RunState::Failed));
            }
        }
        let Some(snapshot) = &point.stored.snapshot else {
            not_covered(dispatch(store, RUN, fence, "last", &effect(90)));
            return finish(store, RUN, fence, RunState::Aborted).expect("ended with what is known");
        };
        let calls = &point.stored.calls;
        for seq in 0..snapshot.next {
            let Some(call) = calls.iter().find(|call| call.seq == seq) else {
                // It never began.
                dispatch(store, RUN, fence, "last", &effect(seq)).unwrap_or_else(|error| panic!("{error}: {trace:?}"));
                assert!(settle(store, RUN, "last", seq, "1").expect("settled"));
                continue;
            };
            if call.state == CallState::Settled {
                let again = dispatch(store, RUN, fence, "last", &effect(seq));
                assert!(again.is_err(), "call {seq} was made again: {trace:?}");
            }
        }
        let new = calls.iter().map(|call| call.seq + 1).fold(snapshot.next, u32::max);
        not_covered(dispatch(store, RUN, fence, "last", &effect(new)));
        store.checkpoint(RUN, fence, &full(new + 1, b"cell"), SAFE).expect("kept");
        dispatch(store, RUN, fence, "last", &effect(new)).expect("covered");
        finish(store, RUN, fence, RunState::Completed).expect("ended");
    }
}

/// What was checked.
#[derive(Clone, Copy, Default)]
struct Checked {
    interleavings: u64,
    /// The different points of them.
    points: u64,
}

impl std::ops::AddAssign for Checked {
    fn add_assign(&mut self, other: Self) {
        self.interleavings += other.interleavings;
        self.points += other.points;
    }
}

impl Checked {
    fn tell(self, what: &str) {
        let Self { interleavings, points } = self;
        println!("{what}: {interleavings} interleavings; every owner dead at each of {points} different points");
    }
}

/// Runs the scripts in every interleaving, and says how many there were.
fn check(what: &str, start: Start, scripts: &[Script]) {
    check_in(&World::new(scripts.len()), start, scripts).tell(what);
}

fn check_in(world: &World, start: Start, scripts: &[Script]) -> Checked {
    let fence = world.begin(start, scripts[0].0);
    let owner = |(index, (name, _)): (usize, &Script)| {
        let fence = fence.filter(|_| index == 0);
        Owner { name, seen: None, fence }
    };
    let (rows, stored) = (world.rows(), world.stored());
    let first = Point {
        model: stored.model(&rows),
        owners: scripts.iter().enumerate().map(owner).collect(),
        taken: vec![0; scripts.len()],
        rows,
        stored,
        trace: Vec::new(),
    };
    let mut explorer = Explorer { world, scripts, seen: HashMap::new() };
    let interleavings = explorer.explore(&first);
    assert_eq!(interleavings, count(scripts));
    Checked { interleavings, points: explorer.seen.len() as u64 }
}

/// The number of interleavings: a multinomial.
fn count(scripts: &[Script]) -> u64 {
    let (mut all, mut count) = (0u64, 1u64);
    for (_, script) in scripts {
        for step in 1..=script.len() as u64 {
            all += 1;
            count = count * all / step;
        }
    }
    count
}

#[test]
fn a_process_that_was_thought_dead_comes_back() {
    let old: Script = ("p1", &[Effect(0), Settle(0), Full(2), Effect(1), Settle(1), Finish]);
    let new: Script = ("p2", &[Read, Claim, Effect(0), Settle(0), Full(2), Effect(1), Finish]);
    check("an owner thought dead", Start::Covered(1), &[old, new]);
}

#[test]
fn two_waits_of_two_processes() {
    let park: Script = ("p1", &[Read, Claim, Effect(0), Settle(0), Full(2), Effect(1), Park(2)]);
    let end: Script = ("p2", &[Read, Claim, Effect(0), Full(2), Effect(1), Finish]);
    check("two waits", Start::Waiting(1), &[park, end]);
}

#[test]
fn two_waits_of_one_process() {
    let park: Script = ("p", &[Read, Claim, Effect(0), Settle(0), Park(1)]);
    let end: Script = ("p", &[Read, Claim, Effect(0), Settle(0), Full(2), Effect(1), Finish]);
    check("two waits of one process", Start::Waiting(1), &[park, end]);
}

#[test]
fn a_run_without_checkpoints_of_its_own_is_given_back() {
    let old: Script = ("p1", &[Retire(0), Retire(1), Settle(1), Settle(0), Park(2), Retire(2)]);
    let new: Script = ("p2", &[Read, LetWait, Read, Claim, Retire(1), Finish]);
    check("retired checkpoints", Start::Covered(1), &[old, new]);
}

#[test]
fn calls_that_change_nothing_go_beyond_the_checkpoint() {
    let old: Script = ("p1", &[Look(0), Full(2), Effect(1), Look(2), Settle(2), Park(3)]);
    let new: Script = ("p2", &[Read, Claim, Look(2), Effect(2), Full(4), Effect(3)]);
    check("calls that change nothing", Start::Fresh, &[old, new]);
}

#[test]
fn deltas_of_two_owners() {
    let old: Script = ("p1", &[Delta(2), Effect(1), Delta(3), Effect(2), Full(3), Delta(4)]);
    let new: Script = ("p2", &[Read, Claim, Delta(2), Effect(1), Retire(4), Delta(5)]);
    check("deltas", Start::Covered(1), &[old, new]);
}

#[test]
fn checkpoints_that_come_too_late() {
    let old: Script = ("p1", &[Full(3), Effect(2), Full(1), Retire(3), Park(4), Park(5), Full(6)]);
    let new: Script = ("p2", &[Read, Claim, Park(1), Effect(0), Delta(1)]);
    check("late checkpoints", Start::Covered(1), &[old, new]);
}

#[test]
fn a_suspended_run_is_aborted_while_it_goes_on() {
    let driver: Script = ("p1", &[Effect(0), Park(1), Settle(0), Read, Claim, Full(2), Effect(1), Settle(1), Finish]);
    check("abort", Start::Covered(1), &[driver, ("p2", &[Abort, Read, Claim, Abort])]);
    check("expiry", Start::Covered(1), &[driver, ("p2", &[Expire, Read, Claim, Effect(0)])]);
    check("expiry of what was given back", Start::Covered(1), &[driver, ("p2", &[Read, LetWait, Expire, Expire])]);
}

#[test]
fn three_waits() {
    let one: Script = ("p1", &[Read, Claim, Effect(0), Park(1)]);
    let two: Script = ("p2", &[Read, Claim, Effect(0), Finish]);
    let three: Script = ("p3", &[Read, Claim, Settle(0)]);
    check("three waits", Start::Waiting(1), &[one, two, three]);
}

#[test]
fn a_driver_a_sweeper_and_a_person_who_aborts() {
    let driver: Script = ("p1", &[Effect(0), Settle(0), Park(1), Effect(0)]);
    let sweeper: Script = ("p2", &[Read, LetWait, Read, Claim]);
    check("driver, sweeper, expiry and abort", Start::Covered(1), &[driver, sweeper, ("p3", &[Expire, Abort])]);
}

#[test]
fn a_driver_its_successor_and_a_person_who_aborts() {
    let driver: Script = ("p1", &[Effect(0), Full(2), Effect(1), Finish]);
    let successor: Script = ("p2", &[Read, Claim, Effect(0), Retire(2), Settle(0)]);
    check("driver, successor and abort", Start::Covered(1), &[driver, successor, ("p3", &[Abort, Settle(0)])]);
}

/// What processes do with a run: go on, take it over, suspend it, give it back, end it.
const PROCESSES: [&[Step]; 8] = [
    &[Effect(0), Settle(0), Full(2), Effect(1), Settle(1), Finish],
    &[Read, Claim, Effect(0), Settle(0), Park(1)],
    &[Read, Claim, Full(2), Effect(1), Settle(1), Finish],
    &[Read, Claim, Retire(1), Settle(1), Full(2), Park(2)],
    &[Read, LetWait, Read, Claim, Effect(0), Finish],
    &[Park(1), Effect(0), Settle(0), Read, Claim, Delta(2)],
    &[Look(0), Full(1), Delta(2), Retire(2), Effect(1)],
    &[Expire, Read, Claim, Abort],
];

const STARTS: [Start; 2] = [Start::Covered(1), Start::Waiting(1)];

#[test]
fn every_two_processes_that_share_a_run() {
    let (world, mut checked) = (World::new(2), Checked::default());
    for (one, two) in PROCESSES.iter().flat_map(|one| PROCESSES.iter().map(move |two| (*one, *two))) {
        for start in STARTS {
            checked += check_in(&world, start, &[("p1", one), ("p2", two)]);
        }
    }
    checked.tell("every two of 8 processes, in two starts");
}

/// Shorter, since they are three.
const SHORT: [&[Step]; 4] = [
    &[Effect(0), Retire(1), Finish],
    &[Read, Claim, Effect(0), Park(1)],
    &[Read, LetWait, Read, Claim],
    &[Abort, Expire],
];

#[test]
fn every_three_processes_that_share_a_run() {
    let (world, mut checked) = (World::new(3), Checked::default());
    // The first may have the run already; which of the others is which makes no difference.
    for (one, two, three) in (0..64).map(|number| (number / 16, number / 4 % 4, number % 4)) {
        if two < three {
            let scripts = [("p1", SHORT[one]), ("p2", SHORT[two]), ("p3", SHORT[three])];
            checked += check_in(&world, Start::Covered(1), &scripts);
        }
    }
    checked.tell("every three of 4 processes");
}
