//! Processes that die in the middle of a run: at each of its commits, before and after, and at random moments. The next process
//! must bring the run to its end, with every effect made once, or told as uncertain.
//!
//! With a small budget the random part is among the tests. With a large one, and a seed of its own:
//!
//! ```sh
//! CRASH_KILLS=500 CRASH_SEED=7 cargo test -p pincer-agent --test crash -- --nocapture
//! ```
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "figures for whoever runs it with --nocapture")]

mod child;
mod judge;
mod parent;
mod scenes;

use parent::{Death, Place};
use scenes::SCENES;

/// Kills at random moments in a usual test run.
const USUAL_KILLS: u64 = 24;
const USUAL_SEED: u64 = 17;
/// Pairs of processes in a usual test run.
const USUAL_PAIRS: u64 = 12;

/// Is what the parent starts: see [`child`].
#[test]
fn child_works_until_it_is_killed() {
    child::serve();
}

#[test]
fn whatever_commit_a_process_dies_at_the_next_one_brings_the_run_to_its_end() {
    for scene in &SCENES {
        let whole = Place::new(scene);
        let commits = whole.run(None);
        judge::check(scene, &whole, "without a death");
        let rows = whole.rows();
        println!("{}: {commits} commits, {rows} rows", scene.name);
        assert!(rows <= scene.most_rows, "{}: {rows} rows, and at most {} may be", scene.name, scene.most_rows);
        assert!(
            commits <= scene.most_commits,
            "{}: {commits} commits, and at most {} may be",
            scene.name,
            scene.most_commits
        );
        for at in 1..=commits {
            for death in [Death::Before(at), Death::After(at)] {
                let place = Place::new(scene);
                place.run(Some(death));
                place.run(None);
                judge::check(scene, &place, &format!("{death:?} of {commits}"));
            }
        }
    }
}

#[test]
fn whenever_processes_are_killed_the_run_comes_to_its_end() {
    let (kills, mut random) = (number("CRASH_KILLS", USUAL_KILLS), moments());
    let (mut done, mut landed) = (0, 0);
    while done < kills {
        let scene = &SCENES[random(SCENES.len() as u64) as usize];
        let place = Place::new(scene);
        let in_a_row = 1 + random(3);
        for _ in 0..in_a_row {
            done += 1;
            landed += u64::from(place.run_and_kill(random(60)));
        }
        place.run(None);
        judge::check(scene, &place, "killed at random");
    }
    println!("{done} kills, {landed} of them in the middle of a run");
}

#[test]
fn two_processes_that_share_a_run_and_die_bring_it_to_its_end() {
    let (pairs, mut random) = (number("CRASH_PAIRS", USUAL_PAIRS), moments());
    for _ in 0..pairs {
        let scene = &SCENES[random(SCENES.len() as u64) as usize];
        let place = Place::new(scene);
        place.run_two_and_kill(random(40), [random(120), random(120)]);
        place.run(None);
        judge::check(scene, &place, "two processes");
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// Returns moments that depend on the seed alone.
fn moments() -> impl FnMut(u64) -> u64 {
    let mut seed = number("CRASH_SEED", USUAL_SEED);
    move |below| {
        // A linear congruence is random enough for moments.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    }
}
