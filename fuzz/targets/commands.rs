//! Feeds the reader of shell commands, and the gate behind it, with whatever the fuzzer thinks of.
//!
//! Words that are read as literal must read the same when each of them is quoted; a command that runs unasked names its program by an
//! absolute path, and has no character by which a shell would do more.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pincer_builtin::fuzzing::{unasked, words};

fuzz_target!(|command: &str| {
    if let Some(read) = words(command) {
        let quoted: Vec<String> = read.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
        assert_eq!(words(&quoted.join(" ")).as_ref(), Some(&read), "{command:?}");
        // Text without quotes must not have been more than words.
        if !command.contains(['\'', '"', '\\']) {
            assert!(
                !command.trim().contains(['`', ';', '|', '&', '<', '>', '(', ')', '\n', '*', '?', '[', '{', '~']),
                "{command:?}"
            );
            // A dollar sign that begins nothing is one.
            let begins =
                |after: &str| after.starts_with(|c: char| c.is_ascii_alphanumeric() || "_@*#?$!-({['\"".contains(c));
            assert!(!command.split('$').skip(1).any(begins), "{command:?}");
        }
    }
    if let Some(words) = unasked(command) {
        assert!(words[0].starts_with('/'), "{command:?}: {words:?}");
    }
});
