//! What is looked at from outside.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};

/// How long an event may take before a case fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Every case by its name.
pub(crate) const ALL: [(&str, fn()); 13] = [
    ("the_front_ends_with_the_code_that_the_worker_says", front_says_what_the_worker_says),
    ("a_worker_that_ends_without_a_word_is_reported_as_a_shell_does", silent_ends),
    ("a_worker_that_is_let_go_stays_behind_on_its_own", stays_behind),
    ("a_killed_front_takes_its_worker_with_it", killed_front),
    ("signals_reach_the_worker", signals_reach_the_worker),
    ("a_write_beyond_the_limit_for_files_fails_and_ends_nothing", write_fails),
    ("programs_have_the_usual_answer_to_the_limit_for_files", children_ignore_nothing),
    ("programs_get_no_file_that_was_inherited", inherited_files),
    ("the_limit_of_open_files_is_raised_as_far_as_needed", open_files_are_raised),
    ("the_limit_of_open_files_is_raised_no_further_than_allowed", open_files_within_the_hard_limit),
    ("a_limit_of_open_files_that_is_high_enough_stays", open_files_stay),
    ("large_blocks_are_given_back_when_they_are_freed", large_blocks),
    ("the_heap_has_no_more_parts_than_it_may", heap_parts),
];

fn part(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("part").args(words).stdin(Stdio::null());
    command
}

/// Starts a part from a shell that has done something before.
fn part_after(shell: &str, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{shell}; exec \"$@\""), "sh"]).arg(std::env::current_exe().unwrap());
    command.arg("part").args(words).stdin(Stdio::null());
    command
}

/// Returns what a part has printed, and how it ended. Its output ends when every process is over that has it.
fn done(mut command: Command) -> (String, ExitStatus) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let said = within("the end of its output", reader(&mut child), |mut from| {
        let mut said = String::new();
        from.read_to_string(&mut said).unwrap();
        said
    });
    (said, child.wait().unwrap())
}

fn reader(child: &mut Child) -> BufReader<std::process::ChildStdout> {
    BufReader::new(child.stdout.take().unwrap())
}

/// Does something that may block on a thread of its own, and fails if it takes too long.
fn within<T: Send + 'static, R: Send + 'static>(what: &str, with: T, work: impl FnOnce(T) -> R + Send + 'static) -> R {
    let (tell, told) = channel();
    thread::spawn(move || tell.send(work(with)));
    told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("not in time: {what}"))
}

/// Waits for the first line of a part.
fn line<T: BufRead + Send + 'static>(from: T) -> (String, T) {
    within("a line", from, |mut from| {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        (line.trim_end().to_owned(), from)
    })
}

fn front_says_what_the_worker_says() {
    let (_, status) = done(part(&["halves", "end"]));
    assert_eq!(status.code(), Some(7));
}

fn silent_ends() {
    let code = |work: &str| done(part(&["halves", work])).1.code();
    assert_eq!((code("exit"), code("die")), (Some(3), Some(128 + 9)));
}

fn stays_behind() {
    let directory = tempfile::tempdir().unwrap();
    let (ask, answer) = (directory.path().join("ask"), directory.path().join("answer"));
    for fifo in [&ask, &answer] {
        assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    }
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    // The output is over although the worker is not: it has let go of that too.
    let (said, status) = done(part(&["halves", "stay", &text(&ask), &text(&answer)]));
    assert_eq!((said.as_str(), status.code()), ("begun\n", Some(5)));
    // Writing to a pipe with a name waits until it is read.
    within("the worker takes a word", ask, |ask| fs::write(ask, "asked")).unwrap();
    let answered = within("the worker answers", answer, fs::read_to_string).unwrap();
    assert_eq!(answered, "asked, in its own session: true");
}

fn killed_front() {
    let mut front = part(&["halves", "hang"]).stdout(Stdio::piped()).spawn().unwrap();
    let (said, mut from) = line(reader(&mut front));
    assert_eq!(said, "up");
    front.kill().unwrap();
    front.wait().unwrap();
    within("the end of the worker", (), move |()| from.read_to_end(&mut Vec::new())).unwrap();
}

fn signals_reach_the_worker() {
    for (signal, code) in [(Signal::INT, 42), (Signal::TERM, 43), (Signal::HUP, 44)] {
        let mut front = part(&["halves", "signals"]).stdout(Stdio::piped()).spawn().unwrap();
        let (said, _rest) = line(reader(&mut front));
        assert_eq!(said, "up");
        let deadline = Instant::now() + PATIENCE;
        while !is_caught(front.id(), signal) {
            assert!(Instant::now() < deadline, "the front does not listen to {signal:?}");
            thread::yield_now();
        }
        kill_process(Pid::from_raw(front.id().cast_signed()).unwrap(), signal).unwrap();
        let status = within("the end of the front", front, |mut front| front.wait()).unwrap();
        assert_eq!(status.code(), Some(code), "{signal:?}");
    }
}

/// Returns whether a process has something of its own to do for a signal.
fn is_caught(pid: u32, signal: Signal) -> bool {
    is_in_mask(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap(), "SigCgt:", signal)
}

/// Returns whether a signal is in a mask that the system shows.
fn is_in_mask(status: &str, name: &str, signal: Signal) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix(name)).expect("a mask");
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
}

fn write_fails() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    let write = |how: &str| done(part_after("ulimit -f 8", &["write", how, file.to_str().unwrap()]));
    // As it is without protection.
    assert_eq!(write("plain").1.signal(), Some(Signal::XFSZ.as_raw()));
    let (said, status) = write("protected");
    assert_eq!((said.as_str(), status.code()), ("Err(FileTooLarge)\n", Some(0)));
}

fn children_ignore_nothing() {
    let (said, status) = done(part(&["signals-of-child"]));
    assert!(status.success());
    assert!(!is_in_mask(&said, "SigIgn:", Signal::XFSZ), "{said}");
}

fn inherited_files() {
    let files = |how: &str| done(part_after("exec 9</dev/null", &["files-of-child", how])).0;
    assert_eq!(files("plain"), "0\n1\n2\n9\n");
    assert_eq!(files("kept"), "0\n1\n2\n");
}

fn raised(shell: &str) -> String {
    done(part_after(shell, &["open-files"])).0
}

/// Returns how many files this machine lets a process have open.
fn hard_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

fn open_files_are_raised() {
    let wanted = hard_limit().min(8192);
    assert_eq!(raised("ulimit -Sn 256"), format!("{wanted} {wanted}\n"));
}

fn open_files_within_the_hard_limit() {
    assert_eq!(raised("ulimit -Sn 256; ulimit -Hn 1000"), "1000 1000\n");
}

fn open_files_stay() {
    let more = hard_limit().min(9000);
    assert_eq!(raised(&format!("ulimit -Sn {more}")), format!("{} {more}\n", more.min(8192)));
}

#[cfg(not(target_env = "gnu"))]
fn large_blocks() {}

#[cfg(target_env = "gnu")]
fn large_blocks() {
    let kept = |how: &str| done(part(&["large-blocks", how])).0.trim().parse::<usize>().unwrap();
    let (usually, here) = (kept("plain"), kept("given-back"));
    assert!(usually > 12_000 && here < 2_000, "{usually} kB and {here} kB are kept of 16 MiB");
}

#[cfg(not(target_env = "gnu"))]
fn heap_parts() {}

#[cfg(target_env = "gnu")]
fn heap_parts() {
    let parts = |how: &str| done(part(&["heap-parts", how])).0.trim().parse::<usize>().unwrap();
    let (usually, here) = (parts("plain"), parts("limited"));
    assert!(usually > 2 && here <= 1, "{usually} parts besides the first without a limit, {here} with one of 2");
}
