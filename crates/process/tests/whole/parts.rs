//! What a part does to itself. It tells the case by its output and its exit code.
#![allow(clippy::print_stdout, reason = "the test that started this program reads it")]

use std::fs::{self, File};
use std::io::{Write, stdout};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use pincer_process::{
    Half, Worker, keep_inherited_files, keep_no_large_blocks, limit_heap_parts, outlive_file_size_limit,
    raise_open_files, split,
};
use tokio::signal::unix::{SignalKind, signal};

/// Runs one part.
pub(crate) fn run(name: &str, arguments: &[String]) -> ExitCode {
    match name {
        "halves" => halves(&arguments[0], &arguments[1..]),
        "write" => write(&arguments[0], &arguments[1]),
        "signals-of-child" => signals_of_child(),
        "files-of-child" => files_of_child(&arguments[0]),
        "open-files" => open_files(),
        "large-blocks" => large_blocks(&arguments[0]),
        "heap-parts" => heap_parts(&arguments[0]),
        other => panic!("there is no part {other}"),
    }
}

fn halves(what: &str, arguments: &[String]) -> ExitCode {
    match split().unwrap() {
        Half::Front(front) => ExitCode::from(front.wait().unwrap()),
        Half::Worker(worker) => work(worker, what, arguments),
    }
}

fn work(worker: Worker, what: &str, arguments: &[String]) -> ExitCode {
    // A case that has failed leaves nothing behind for long.
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(60));
        std::process::exit(1);
    });
    match what {
        "end" => worker.end(7).unwrap(),
        "exit" => std::process::exit(3),
        "die" => rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap(),
        "stay" => stay(worker, &arguments[0], &arguments[1]),
        "hang" => loop {
            say("up");
            std::thread::park();
        },
        "signals" => signals(worker),
        other => panic!("there is no work {other}"),
    }
    ExitCode::SUCCESS
}

/// Lets the front end, waits for a word in one file, and answers in another.
fn stay(worker: Worker, ask: &str, answer: &str) {
    say("begun");
    worker.let_go(5).unwrap();
    let asked = fs::read_to_string(ask).unwrap();
    let leads = rustix::process::getsid(None).unwrap() == rustix::process::getpid();
    fs::write(answer, format!("{asked}, in its own session: {leads}")).unwrap();
}

/// Ends with another code for each signal.
fn signals(worker: Worker) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let code = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).unwrap();
        let mut terminate = signal(SignalKind::terminate()).unwrap();
        let mut hangup = signal(SignalKind::hangup()).unwrap();
        say("up");
        tokio::select! {
            _ = interrupt.recv() => 42,
            _ = terminate.recv() => 43,
            _ = hangup.recv() => 44,
        }
    });
    worker.end(code).unwrap();
}

/// Writes more than the limit allows, and says how that went.
fn write(protected: &str, path: &str) -> ExitCode {
    if protected == "protected" {
        outlive_file_size_limit().unwrap();
    }
    let wrote = File::create(path).unwrap().write_all(&vec![0; 1 << 20]);
    say(&format!("{:?}", wrote.map_err(|error| error.kind())));
    ExitCode::SUCCESS
}

/// Shows the signals that a child of a protected process ignores.
fn signals_of_child() -> ExitCode {
    outlive_file_size_limit().unwrap();
    let status = Command::new("grep").args(["SigIgn", "/proc/self/status"]).status().unwrap();
    ExitCode::from(u8::from(!status.success()))
}

/// Shows the open files of a child.
fn files_of_child(kept: &str) -> ExitCode {
    if kept == "kept" {
        keep_inherited_files();
    }
    let status = Command::new("sh")
        .args(["-c", "for n in 0 1 2 9; do if [ -e /proc/$$/fd/$n ]; then echo $n; fi; done"])
        .status()
        .unwrap();
    ExitCode::from(u8::from(!status.success()))
}

fn open_files() -> ExitCode {
    let told = raise_open_files();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap();
    say(&format!("{told} {limit}"));
    ExitCode::SUCCESS
}

/// Frees two large blocks, and says how much memory the second has left behind, in kilobytes.
fn large_blocks(setting: &str) -> ExitCode {
    const MIB: usize = 1 << 20;
    if setting == "given-back" {
        keep_no_large_blocks();
    }
    // The first teaches the allocator to keep blocks of that size.
    drop(std::hint::black_box(vec![1_u8; 24 * MIB]));
    let before = resident();
    drop(std::hint::black_box(vec![1_u8; 16 * MIB]));
    say(&resident().saturating_sub(before).to_string());
    ExitCode::SUCCESS
}

/// Says how many parts of the heap eight threads have between them, besides the first.
fn heap_parts(setting: &str) -> ExitCode {
    const THREADS: usize = 8;
    if setting == "limited" {
        limit_heap_parts(2);
    }
    let (allocated, counted) = (Arc::new(Barrier::new(THREADS + 1)), Arc::new(Barrier::new(THREADS + 1)));
    for _ in 0..THREADS {
        let (allocated, counted) = (Arc::clone(&allocated), Arc::clone(&counted));
        std::thread::spawn(move || {
            let block = std::hint::black_box(vec![1_u8; 1000]);
            allocated.wait();
            counted.wait();
            drop(block);
        });
    }
    allocated.wait();
    // glibc reserves 64 MiB of addresses for each part, at a multiple of that, and most of them stay without access.
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let is_reserve = |line: &&str| {
        let mut words = line.split(' ');
        let (Some(addresses), Some("---p")) = (words.next(), words.next()) else { return false };
        let ends = addresses.split('-').map(|end| usize::from_str_radix(end, 16).unwrap()).collect::<Vec<_>>();
        ends[1].is_multiple_of(64 << 20) && ends[1] - ends[0] > 32 << 20 && ends[1] - ends[0] < 64 << 20
    };
    say(&maps.lines().filter(is_reserve).count().to_string());
    counted.wait();
    ExitCode::SUCCESS
}

/// Returns the resident memory in kilobytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn say(text: &str) {
    println!("{text}");
    stdout().flush().unwrap();
}
