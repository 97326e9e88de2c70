//! What changes a process as a whole: halves, limits, open files and the heap.
//!
//! Each case starts this program again as a part that does the thing to itself, and looks at that from outside. There is no test
//! harness: a process may only split while it has one thread.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "it is its own harness")]

mod cases;
mod parts;

use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [part, name, rest @ ..] = arguments.as_slice()
        && part == "part"
    {
        return parts::run(name, rest);
    }
    // The options of the usual harness mean nothing here, but for one that asks for other tests.
    if arguments.iter().any(|argument| argument == "--ignored" || argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let mut failed = 0;
    for (name, case) in cases::ALL {
        if filter.is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let is_ok = catch_unwind(case).is_ok();
        println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
        failed += u8::from(!is_ok);
    }
    ExitCode::from(failed)
}
