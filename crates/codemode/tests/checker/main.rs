//! A checker in the manner of Jepsen: random programs in two or three processes on one store, waits, aborts and answers from
//! any of them, faults of the store, and processes that are killed at any moment. Afterwards everything is continued to its
//! end, and what has happened is compared with what was told and what is stored.
//!
//! With a small budget it is part of the tests. With a large one, and a seed of its own:
//!
//! ```sh
//! CHECKER_KILLS=1000 CHECKER_SEED=7 cargo test --workspace --test checker -- --nocapture
//! ```
//!
//! The seed fixes the programs and the order of what is done to them, not the moments at which processes are interrupted: a
//! finding may need a few attempts with its seed. `CHECKER_KEEP=1` keeps the directories.
//!
//! `judge.rs` lists what must hold.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "figures for whoever runs it with --nocapture")]

mod child;
#[path = "../common/mod.rs"]
mod common;
#[path = "../effects/mod.rs"]
mod effects;
mod judge;
mod parent;
mod processes;
mod program;
mod random;

use random::Random;

/// Kills of a usual test run.
const USUAL_KILLS: usize = 84;
/// Kills of one round, which has a store of its own.
const KILLS_OF_ROUND: usize = 14;
const USUAL_SEED: u64 = 12;

/// Is what the parent starts: see [`child`].
#[test]
fn child_does_what_it_is_told_until_it_is_killed() {
    child::serve();
}

#[test]
fn whatever_dies_when_no_effect_repeats_and_nothing_told_is_lost() {
    let number = |name: &str, usual: u64| {
        std::env::var(name).ok().map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
    };
    let (kills, seed) = (number("CHECKER_KILLS", USUAL_KILLS as u64) as usize, number("CHECKER_SEED", USUAL_SEED));
    let mut total = judge::Figures::default();
    let mut round = 0;
    while total.kills < kills {
        let mut random = Random::new(seed.wrapping_mul(1000) + round);
        let history = parent::play(&mut random, KILLS_OF_ROUND.min(kills - total.kills));
        let (figures, findings) = judge::judge(&history);
        total.add(&figures);
        println!("round {round}: {figures}; so far {total}");
        if !findings.is_empty() {
            let kept = history.keep();
            panic!(
                "CHECKER_SEED={seed}, round {round}, in {}: {} findings\n{}",
                kept.display(),
                findings.len(),
                findings.join("\n")
            );
        }
        round += 1;
    }
    println!("seed {seed}, {round} rounds: {total}");
    assert!(total.completed > 0 && total.effects > 0);
}
