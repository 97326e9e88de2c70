//! Every limit is real, is the host's, and hurts nobody but the cell that passes it.
//!
//! Not in `it`: it starts this test program again, and counts the memory of the process.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use common::{LONG, end, engine, finish, json, limit, move_house, start, start_with, value};
use pincer_sandbox::{
    Answer, Engine, Error, FailureKind, Json, Limit, Limits, MAX_MEMORY_BYTES, MAX_NODES, MAX_OUTPUT_ITEMS, Options,
    Output, Program, REFUSED, RequestId, TurnEnd,
};

fn ends_with(source: &str, limits: Limits) -> TurnEnd {
    start_with(source, limits).run_turn(LONG).expect("a turn").end
}

#[test]
fn a_turn_ends_at_its_deadline_and_the_next_turn_has_its_own() {
    let mut cell = start("await call(0); for (;;) {}");
    assert!(matches!(cell.run_turn(LONG).expect("a turn").end, TurnEnd::Waiting));
    cell.deliver(Answer::value(RequestId(0), Json::null())).expect("a pending request");
    let begun = Instant::now();
    assert_eq!(limit(cell.run_turn(Duration::from_millis(50)).expect("a turn").end), Limit::Time);
    assert!(begun.elapsed() >= Duration::from_millis(50));
    assert!(matches!(cell.run_turn(LONG), Err(Error::Ended)));
}

#[test]
fn a_deadline_in_the_past_ends_the_cell_before_it_does_harm() {
    assert_eq!(limit(start("for (;;) {}").run_turn(Duration::ZERO).expect("a turn").end), Limit::Time);
}

#[test]
fn what_was_printed_before_the_deadline_is_kept() {
    let turn = start("text('before'); for (;;) {}").run_turn(Duration::from_millis(100)).expect("a turn");
    assert_eq!(limit(turn.end), Limit::Time);
    assert_eq!(turn.output, [Output::Text { text: "before".into() }]);
}

#[test]
fn many_deadlines_at_once_are_all_kept() {
    thread::scope(|scope| {
        for millis in [20, 40, 60, 80, 100, 120] {
            scope.spawn(move || {
                let time = Duration::from_millis(millis);
                let begun = Instant::now();
                let end = start("for (;;) {}").run_turn(time).expect("a turn").end;
                assert_eq!(limit(end), Limit::Time);
                assert!(begun.elapsed() >= time);
            });
        }
    });
}

#[test]
fn a_cell_can_be_interrupted_from_another_thread() {
    let mut cell = start("for (;;) {}");
    let interrupter = cell.interrupter();
    let stop = thread::spawn(move || interrupter.interrupt());
    assert!(matches!(cell.run_turn(LONG).expect("a turn").end, TurnEnd::Interrupted));
    stop.join().expect("the other thread");
}

#[test]
fn a_waiting_cell_that_was_interrupted_ends_when_it_is_run() {
    let mut cell = start("await call(0)");
    cell.run_turn(LONG).expect("a turn");
    cell.interrupter().interrupt();
    assert!(matches!(cell.run_turn(LONG).expect("a turn").end, TurnEnd::Interrupted));
}

const HOARD: &str = "try { const a = []; for (;;) a.push(new Uint8Array(100000).fill(7)) } catch { return 'caught' }";

#[test]
fn the_memory_cap_ends_the_cell_whatever_it_catches() {
    for memory_bytes in [1 << 20, 8 << 20, 64 << 20] {
        let end = ends_with(HOARD, Limits { memory_bytes, ..Limits::default() });
        assert_eq!(limit(end), Limit::Memory { limit: memory_bytes });
    }
}

#[test]
fn what_fits_under_the_memory_cap_runs() {
    let fits = "return new Uint8Array(6 << 20).fill(1).length";
    assert!(matches!(ends_with(fits, Limits { memory_bytes: 8 << 20, ..Limits::default() }), TurnEnd::Value(_)));
    assert_eq!(
        limit(ends_with(fits, Limits { memory_bytes: 4 << 20, ..Limits::default() })),
        Limit::Memory { limit: 4 << 20 }
    );
}

#[test]
fn a_memory_limit_beyond_what_an_engine_can_give_is_refused() {
    let limits = Limits { memory_bytes: MAX_MEMORY_BYTES + 1, ..Limits::default() };
    assert!(matches!(engine().start(Program::new("return 1"), limits), Err(Error::MemoryLimit { .. })));
}

/// The highest resident size of this process so far.
#[cfg(target_os = "linux")]
fn peak_resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

/// In a process of its own, where no other test moves the figure.
#[test]
#[cfg(target_os = "linux")]
fn the_host_grows_by_no_more_than_the_cap_and_the_values_of_a_turn() {
    if std::env::var_os("PINCER_TEST_MEMORY").is_none() {
        let test = "the_host_grows_by_no_more_than_the_cap_and_the_values_of_a_turn";
        let run = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", test, "--nocapture"])
            .env("PINCER_TEST_MEMORY", "1")
            .output()
            .expect("a process");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        return;
    }
    let programs = [
        HOARD,
        "const a = []; for (;;) a.push('x'.repeat(1000) + a.length)",
        "for (;;) call('x'.repeat(1e6))",
        "return 'x'.repeat(7e6)",
        "for (let i = 0; ; i++) { text('x'.repeat(1e6)) }",
        "const s = 'x'.repeat(4e6); for (;;) json([s])",
        // With the guest's memory as full as it may be, and freed again for the strings.
        "let h = new Uint8Array(56 << 20).fill(1); h = null; await call('\\n' + 'x'.repeat(7.9e6))",
        "let h = new Uint8Array(56 << 20).fill(1); h = null; return '\\n' + 'x'.repeat(7.9e6)",
        "let h = new Uint8Array(56 << 20).fill(1); h = null; const e = new Error('m'); e.stack = 'cell.js' + 'x'.repeat(7.9e6); throw e",
    ];
    value("return 1");
    let before = peak_resident_bytes();
    for source in programs {
        let limits = Limits { output_bytes: 8 << 20, ..Limits::default() };
        drop(start_with(source, limits).run_turn(LONG).expect("a turn"));
        let grown = peak_resident_bytes() - before;
        assert!(grown <= (64 << 20) + (40 << 20), "{source}: the host grew by {grown} bytes");
    }
}

#[test]
fn a_neighbour_is_not_disturbed() {
    let quiet = "let s = 0; for (let i = 0; i < 200; i++) { s += await call(i); s += [1, 2, 3].map((x) => x * i).length } return s";
    let alone = finish(start(quiet));
    let TurnEnd::Value(alone) = alone.end else { panic!("no value") };
    let begin = Barrier::new(2);
    thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            begin.wait();
            (0..20).map(|_| finish(start(quiet)).end).collect::<Vec<_>>()
        });
        begin.wait();
        let hostile =
            [HOARD, "for (;;) {}", "const f = () => f(); f()", "for (;;) call(1)", "/(a+)+b/.test('a'.repeat(50))"];
        while !neighbour.is_finished() {
            for source in hostile {
                drop(start(source).run_turn(Duration::from_millis(20)).expect("a turn"));
            }
        }
        for end in neighbour.join().expect("the neighbour") {
            assert!(matches!(&end, TurnEnd::Value(value) if *value == alone), "{end:?}");
        }
    });
}

#[test]
fn recursion_ends_in_a_guest_error_that_the_program_can_handle() {
    let programs = [
        "const f = () => f() + 1; try { f() } catch (e) { return e.name }",
        "try { JSON.parse('['.repeat(1e6)) } catch (e) { return e.name }",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; try { JSON.stringify(a) } catch (e) { return e.name }",
        "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); try { p.x } catch (e) { return e.name }",
    ];
    for source in programs {
        match end(source) {
            TurnEnd::Value(Some(name)) => assert!(name.as_str().contains("Error"), "{source}: {name}"),
            TurnEnd::Limit(Limit::Stack) => {}
            other => panic!("{source}: {other:?}"),
        }
    }
}

#[test]
fn recursion_that_the_engine_does_not_count_ends_the_cell() {
    assert_eq!(limit(end("async function f() { await f() } await f()")), Limit::Stack);
}

#[test]
fn a_thread_with_a_small_stack_is_no_danger() {
    let small = std::thread::Builder::new().stack_size(128 << 10);
    let run = || {
        assert_eq!(limit(end("async function f() { await f() } await f()")), Limit::Stack);
        value("const f = (n) => (n === 0 ? 0 : 1 + f(n - 1)); return f(500)")
    };
    assert_eq!(small.spawn(run).unwrap().join().unwrap(), "500");
}

#[test]
fn honest_recursion_has_room() {
    assert_eq!(value("const f = (n) => (n === 0 ? 0 : 1 + f(n - 1)); return f(500)"), "500");
    assert_eq!(value("const d = JSON.parse('['.repeat(90) + ']'.repeat(90)); return JSON.stringify(d).length"), "180");
}

#[test]
fn output_and_value_share_one_cap() {
    let limits = Limits { output_bytes: 1000, ..Limits::default() };
    let capped = |source: &str| {
        let turn = start_with(source, limits).run_turn(LONG).expect("a turn");
        (turn.output.len(), turn.end)
    };
    assert!(matches!(capped("text('x'.repeat(900)); return 'y'.repeat(60)"), (1, TurnEnd::Value(_))));
    let (kept, end) = capped("text('x'.repeat(900)); return 'y'.repeat(200)");
    assert_eq!((kept, limit(end)), (1, Limit::Output { bytes: 1134, limit: 1000 }));
    let (kept, end) = capped("for (let i = 0; ; i++) text('x'.repeat(300))");
    assert_eq!((kept, limit(end)), (3, Limit::Output { bytes: 1328, limit: 1000 }));
    let (kept, end) = capped("json(1); json('x'.repeat(2000))");
    assert_eq!((kept, limit(end)), (1, Limit::Output { bytes: 2067, limit: 1000 }));
}

#[test]
fn empty_output_is_not_free() {
    for source in ["for (;;) text('')", "for (;;) console.log()"] {
        assert!(matches!(limit(ends_with(source, Limits::default())), Limit::Output { .. }), "{source}");
    }
}

#[test]
fn what_a_failure_says_is_shortened() {
    for source in [
        "throw new Error('x'.repeat(7e6))",
        "throw 'x'.repeat(7e6)",
        "const e = new Error('m'); e.name = 'x'.repeat(1e6); throw e",
        "const e = new Error('m'); e.stack = 'cell.js:1:1\\n'.repeat(3e5); throw e",
    ] {
        let failure = common::failure(source);
        let length = failure.name.len() + failure.message.len() + failure.stack.len();
        assert!(length < 32 << 10, "{source}: {length} bytes");
    }
}

#[test]
fn timers_that_are_set_and_cleared_for_ever_only_cost_time() {
    let mut cell = start("for (;;) clearTimeout(setTimeout(() => {}, 0))");
    assert_eq!(limit(cell.run_turn(Duration::from_millis(300)).expect("a turn").end), Limit::Time);
}

#[test]
fn a_turn_may_be_given_all_the_time_there_is() {
    assert!(matches!(start("return 1").run_turn(Duration::MAX).expect("a turn").end, TurnEnd::Value(_)));
}

#[test]
fn the_output_cap_holds_across_turns_until_it_is_renewed() {
    let source = "for (;;) { text('x'.repeat(400)); await call(0) }";
    let limits = Limits { output_bytes: 1000, ..Limits::default() };
    for renewing in [false, true] {
        let mut cell = start_with(source, limits);
        let mut turns = 0;
        while let TurnEnd::Waiting = cell.run_turn(LONG).expect("a turn").end {
            turns += 1;
            if turns == 10 {
                break;
            }
            let id = cell.pending()[0];
            cell.deliver(Answer::value(id, Json::null())).expect("a pending request");
            if renewing {
                cell.renew_output();
            }
        }
        assert_eq!(turns, if renewing { 10 } else { 2 });
    }
}

#[test]
fn values_and_requests_are_capped_by_the_host() {
    let limits = Limits { value_bytes: 1000, output_bytes: 1 << 20, ..Limits::default() };
    let is_value = |end| matches!(limit(end), Limit::Value { limit: 1000, .. });
    assert!(is_value(ends_with("return 'x'.repeat(1000)", limits)));
    assert!(is_value(ends_with("throw new Error('x'.repeat(1000))", limits)));
    assert!(matches!(ends_with("return 'x'.repeat(900)", limits), TurnEnd::Value(_)));
}

#[test]
fn requests_with_too_large_arguments_are_refused_one_by_one() {
    let limits = Limits { value_bytes: 1000, ..Limits::default() };
    let methods = |source: &str| -> Vec<String> {
        let turn = start_with(source, limits).run_turn(LONG).expect("a turn");
        assert!(matches!(turn.end, TurnEnd::Waiting), "{source}: {:?}", turn.end);
        turn.requests.into_iter().map(|request| request.method).collect()
    };
    assert_eq!(methods("call(1); await call('x'.repeat(1000))"), ["call", REFUSED]);
    assert_eq!(methods("call('x'.repeat(990)); await call('x'.repeat(990))"), ["call", "call"]);
    let many = methods("for (let i = 0; i < 100; i++) call('x'.repeat(100)); await 0");
    assert_eq!(many.iter().filter(|method| *method == "call").count(), 4000 / 104);
    assert_eq!(many.len(), 100);
}

#[test]
fn a_value_that_nobody_could_read_is_refused() {
    let deep = "let a = 1; for (let i = 0; i < N; i++) a = [a]; return a";
    assert!(matches!(end(&deep.replace('N', "100")), TurnEnd::Value(_)));
    assert_eq!(limit(end(&deep.replace('N', "101"))), Limit::Depth { limit: 100 });
}

#[test]
fn pending_requests_are_counted_by_the_host() {
    let limits = Limits { pending_requests: 10, ..Limits::default() };
    let many =
        |n: u32| ends_with(&format!("await Promise.all(Array.from({{ length: {n} }}, (_, i) => call(i)))"), limits);
    assert!(matches!(many(10), TurnEnd::Waiting));
    assert_eq!(limit(many(11)), Limit::Requests { limit: 10 });
    assert_eq!(
        limit(ends_with("for (let i = 0; i < 11; i++) setTimeout(() => {}, 1)", limits)),
        Limit::Requests { limit: 10 }
    );
}

#[test]
fn answered_requests_make_room_for_others() {
    let limits = Limits { pending_requests: 2, ..Limits::default() };
    let turn = finish(start_with("for (let i = 0; i < 50; i++) await call(i); return 'done'", limits));
    assert!(matches!(turn.end, TurnEnd::Value(_)));
}

#[test]
fn a_program_that_is_too_long_is_refused() {
    let limits = Limits { source_bytes: 10, ..Limits::default() };
    let refused = engine().start(Program::new("return 'too long'"), limits);
    assert!(matches!(refused, Err(Error::SourceTooLong { bytes: 17, limit: 10 })));
}

#[test]
fn a_snapshot_that_is_too_large_is_refused_and_the_cell_lives() {
    let limits = Limits { snapshot_bytes: 100_000, ..Limits::default() };
    let source = "const noise = new Uint8Array(1e6).map(() => Math.random() * 256); await call(0); return noise.length";
    let mut cell = start_with(source, limits);
    cell.run_turn(LONG).expect("a turn");
    assert!(matches!(cell.park(), Err(Error::SnapshotTooLarge(large)) if large.limit == 100_000));
    cell.deliver(Answer::value(RequestId(0), json("0"))).expect("a pending request");
    assert!(matches!(cell.run_turn(LONG).expect("a turn").end, TurnEnd::Value(_)));
}

#[test]
fn restoring_beyond_the_limits_is_refused() {
    let mut cell = start("const a = new Uint8Array(4 << 20); await Promise.all([call(0), call(1)]); return a.length");
    cell.run_turn(LONG).expect("a turn");
    let snapshot = cell.park().expect("a snapshot");
    let refused = |limits| match engine().restore(&snapshot, limits) {
        Err(error) => error.code(),
        Ok(_) => "restored",
    };
    assert_eq!(refused(Limits::default()), "restored");
    assert_eq!(refused(Limits { memory_bytes: 1 << 20, ..Limits::default() }), "snapshot_restore_failed");
    assert_eq!(refused(Limits { pending_requests: 1, ..Limits::default() }), "snapshot_restore_failed");
}

#[test]
fn a_restored_cell_keeps_to_its_memory_cap() {
    let (mut cell, _) =
        common::first_turn("await call(0); const a = []; for (;;) a.push(new Uint8Array(100000).fill(7))");
    cell = move_house(cell);
    cell.deliver(Answer::value(RequestId(0), Json::null())).expect("a pending request");
    assert!(matches!(limit(cell.run_turn(LONG).expect("a turn").end), Limit::Memory { .. }));
}

#[test]
fn a_program_that_waits_for_nothing_fails_at_once() {
    for source in [
        "await new Promise(() => {})",
        "const { promise } = Promise.withResolvers(); return promise",
        "await Promise.race([])",
        "const t = setTimeout(() => {}, 1e9); clearTimeout(t); await new Promise(() => {})",
        "return { then() {} }",
    ] {
        let failure = common::failure(source);
        assert_eq!(failure.kind, FailureKind::Stalled, "{source}");
        assert!(failure.message.contains("nothing will ever settle"), "{failure}");
    }
}

#[test]
fn a_program_that_comes_to_wait_for_nothing_after_an_answer_fails_too() {
    let failure = common::failure("await call(0); await new Promise(() => {})");
    assert_eq!(failure.kind, FailureKind::Stalled);
}

#[test]
fn all_places_taken_is_an_error_that_says_so_and_a_free_place_can_be_used_again() {
    let engine = Engine::load(Options { cache_dir: Some(common::cache_dir()), live_cells: 2, ..Options::default() });
    let engine = engine.expect("the engine");
    let start = || engine.start(Program::new("return 1"), Limits::default());
    let (first, second) = (start().expect("a cell"), start().expect("a cell"));
    let error = start().err().expect("no place");
    assert!(matches!(error, Error::Busy { live_cells: 2 }));
    assert!(error.to_string().contains("all 2 places"));
    drop(first);
    start().expect("a cell").run_turn(LONG).expect("a turn");
    drop(second);
}

#[test]
fn values_of_a_hostile_shape_are_refused_by_their_count() {
    let limits = Limits { memory_bytes: 256 << 20, output_bytes: 64 << 20, value_bytes: 64 << 20, ..Limits::default() };
    for shape in ["0", "[]", "{ a: 0 }"] {
        let list = format!("const all = Array.from({{ length: {MAX_NODES} }}, () => ({shape}));");
        for cross in ["return all", "json(all)"] {
            let end = ends_with(&format!("{list} {cross}"), limits);
            assert_eq!(limit(end), Limit::Nodes { limit: MAX_NODES }, "{shape}: {cross}");
        }
        let turn = start_with(&format!("{list} await call(all)"), limits).run_turn(LONG).expect("a turn");
        assert_eq!(turn.requests[0].method, REFUSED, "{shape}");
    }
    let told = Limit::Nodes { limit: MAX_NODES }.to_string();
    assert_eq!(told, "a value is made of more than 1000000 values and keys");
}

#[test]
fn printing_nothing_without_end_is_refused_by_its_count_whatever_the_output_may_have() {
    let limits = Limits { output_bytes: 1 << 30, ..Limits::default() };
    for print in ["text('')", "json(0)", "console.log()"] {
        let turn = start_with(&format!("for (;;) {print}"), limits).run_turn(LONG).expect("a turn");
        assert_eq!(turn.output.len(), MAX_OUTPUT_ITEMS, "{print}");
        assert_eq!(limit(turn.end), Limit::OutputItems { limit: MAX_OUTPUT_ITEMS }, "{print}");
    }
    let told = Limit::OutputItems { limit: MAX_OUTPUT_ITEMS }.to_string();
    assert_eq!(told, "the program printed more than 100000 times");
}
