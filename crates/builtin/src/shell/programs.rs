//! What is known of programs: which run others, and which of their options do.
//!
//! An answer for ever to a question about a command covers commands of the same shape, and must not cover other programs with
//! it. These are the common ways around: programs whose work is to run others, interpreters, options that name a program. An answer
//! about one of them is for that very command. The tables cannot be complete, and no command runs unasked because of them.

/// Programs whose work is to run others, or whatever they are told: a list cannot know what.
const CARRIERS: [&str; 89] = [
    ".",
    "ash",
    "at",
    "bash",
    "batch",
    "busybox",
    "bwrap",
    "choom",
    "chroot",
    "chrt",
    "command",
    "crontab",
    "csh",
    "dash",
    "dbus-run-session",
    "doas",
    "docker",
    "ed",
    "emacs",
    "env",
    "eval",
    "ex",
    "exec",
    "expect",
    "fakeroot",
    "firejail",
    "fish",
    "flock",
    "gdb",
    "i386",
    "ionice",
    "ksh",
    "less",
    "linux32",
    "linux64",
    "lldb",
    "ltrace",
    "man",
    "mksh",
    "more",
    "most",
    "nano",
    "newgrp",
    "nice",
    "nohup",
    "npx",
    "nsenter",
    "parallel",
    "perf",
    "pipx",
    "podman",
    "prlimit",
    "proot",
    "prove",
    "rbash",
    "run-parts",
    "runuser",
    "screen",
    "script",
    "setarch",
    "setpriv",
    "setsid",
    "sftp",
    "sg",
    "sh",
    "socat",
    "source",
    "sqlite3",
    "ssh",
    "ssh-agent",
    "start-stop-daemon",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "tar",
    "taskset",
    "time",
    "timeout",
    "tmux",
    "toybox",
    "unshare",
    "uvx",
    "vi",
    "view",
    "vim",
    "watch",
    "xargs",
];
/// Shells that are not spelt out above.
const SHELLS: [&str; 4] = ["zsh", "tcsh", "nu", "xonsh"];

/// Interpreters: what they do is in a file that can change, or on their command line.
const INTERPRETERS: [&str; 25] = [
    "Rscript",
    "awk",
    "bun",
    "deno",
    "elixir",
    "gawk",
    "gsed",
    "irb",
    "julia",
    "lua",
    "luajit",
    "mawk",
    "nawk",
    "node",
    "nodejs",
    "osascript",
    "perl",
    "php",
    "pwsh",
    "pypy",
    "python",
    "ruby",
    "sed",
    "tclsh",
    "ts-node",
];

/// Options of ordinary programs that name another program to run, or a command.
const RUNNING: [(&str, &[&str]); 20] = [
    ("find", &["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"]),
    ("fd", &["-x", "-X", "--exec", "--exec-batch"]),
    ("rg", &["--pre", "--hostname-bin"]),
    ("sort", &["--compress-program"]),
    ("split", &["--filter"]),
    ("make", &["--eval", "-E", "SHELL"]),
    ("gmake", &["--eval", "-E", "SHELL"]),
    ("zip", &["-T", "-TT", "--unzip-command"]),
    ("scp", &["-S", "-o", "-D"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("gcc", &["-wrapper", "-B", "-fplugin", "-specs", "--specs"]),
    ("cc", &["-wrapper", "-B", "-fplugin", "-specs", "--specs"]),
    ("g++", &["-wrapper", "-B", "-fplugin", "-specs", "--specs"]),
    ("clang", &["-B", "-fplugin", "-Xclang", "--config"]),
    ("dpkg-architecture", &["-c", "--command"]),
    ("wget", &["--use-askpass", "-e", "--execute"]),
    ("curl", &["-K", "--config"]),
    ("openssl", &["-engine", "-provider", "-config"]),
    ("ip", &["-b", "-batch", "-force"]),
    ("date", &["-s", "--set"]),
];

/// What git may be asked for: reading and changing this repository. What its config says it runs all the same, so no file tool
/// writes there.
const GIT_COMMANDS: [&str; 38] = [
    "add",
    "apply",
    "blame",
    "branch",
    "cat-file",
    "check-ignore",
    "checkout",
    "cherry-pick",
    "clean",
    "commit",
    "count-objects",
    "describe",
    "diff",
    "fetch",
    "for-each-ref",
    "grep",
    "log",
    "ls-files",
    "ls-tree",
    "merge",
    "merge-base",
    "mv",
    "pull",
    "push",
    "reflog",
    "remote",
    "reset",
    "restore",
    "rev-list",
    "rev-parse",
    "revert",
    "rm",
    "shortlog",
    "show",
    "stash",
    "status",
    "switch",
    "tag",
];
const GIT_OPTIONS: [&str; 16] = [
    "-c",
    "--config-env",
    "--exec-path",
    "--git-dir",
    "--work-tree",
    "--upload-pack",
    "--receive-pack",
    "--exec",
    "-O",
    "--open-files-in-pager",
    "--ext-diff",
    "--textconv",
    "-u",
    "--paginate",
    "--edit-description",
    "--gpg-sign",
];

/// An argument, and whether the shell will make something else of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub text: String,
    pub changes: bool,
}

/// Returns why it cannot be told what a program runs with these arguments. `name` is without its directory.
pub(super) fn unknowable(name: &str, arguments: &[Argument]) -> Option<String> {
    // Of `vim`, `vim.basic` is a build.
    let carrier = name.split('.').next().unwrap_or(name);
    if CARRIERS.binary_search(&carrier).is_ok()
        || CARRIERS.binary_search(&name).is_ok()
        || SHELLS.contains(&carrier)
        || name.starts_with("ld-")
        || name.starts_with("ld.so")
    {
        return Some(format!("`{name}` runs other programs"));
    }
    // `python3.12` is Python.
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    if INTERPRETERS.contains(&base) || INTERPRETERS.contains(&name) {
        return Some(format!("`{name}` runs code that it is given"));
    }
    let of = |table: &[(&str, &'static [&'static str])]| {
        table.iter().find(|(program, _)| *program == base || *program == name).map(|(_, options)| *options)
    };
    if let Some(options) = of(&RUNNING)
        && has(options, arguments)
    {
        return Some(format!("an option of `{name}` runs other programs, or changes more than files here"));
    }
    if name == "git" { git(arguments) } else { None }
}

fn git(arguments: &[Argument]) -> Option<String> {
    if has(&GIT_OPTIONS, arguments) {
        return Some("an option of `git` may run other programs".into());
    }
    let mut words = arguments.iter().map(|argument| argument.text.as_str());
    let command = loop {
        match words.next() {
            None => return None,
            Some("-C") => drop(words.next()),
            Some(option) if option.starts_with('-') => {}
            Some(command) => break command,
        }
    };
    let known = GIT_COMMANDS.binary_search(&command).is_ok();
    (!known).then(|| format!("`git {command}` may run other programs"))
}

/// Whether one of the options is among the arguments, in any spelling: `--opt=x`, `--op`, `-ox`, `-xo`. What the shell will
/// change could become one.
fn has(options: &[&str], arguments: &[Argument]) -> bool {
    arguments.iter().any(|argument| argument.changes || options.iter().any(|option| is(option, &argument.text)))
}

fn is(option: &str, argument: &str) -> bool {
    let given = argument.split('=').next().unwrap_or(argument);
    if given == option {
        return true;
    }
    if let (Some(option), Some(given)) = (option.strip_prefix("--"), given.strip_prefix("--")) {
        // Long options can be shortened.
        return !given.is_empty() && option.starts_with(given);
    }
    let mut letters = option.chars();
    match (letters.next(), letters.next(), letters.next()) {
        // Short ones can be glued together, and to their values.
        (Some('-'), Some(letter), None) => given.starts_with('-') && !given.starts_with("--") && given.contains(letter),
        // And some programs take long options behind a single dash, also shortened.
        (Some('-'), Some(_), Some(_)) => given.starts_with(option),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(command: &str) -> bool {
        let mut words = command.split(' ');
        let name = words.next().unwrap_or_default();
        let arguments: Vec<Argument> =
            words.map(|word| Argument { text: word.trim_matches('~').into(), changes: word.contains('~') }).collect();
        unknowable(name, &arguments).is_some()
    }

    #[test]
    fn tables_are_in_order() {
        assert!(CARRIERS.is_sorted() && GIT_COMMANDS.is_sorted());
    }

    #[test]
    fn ways_around_a_list_are_known() {
        for command in [
            "sh -c x",
            "rbash x",
            "env ls",
            "setarch x",
            "ld-linux-x86-64.so.2 x",
            "npx x",
            "vim -c x",
            "less x",
            "python3 -c x",
            "python3.12 -Bc x",
            "python3 -m timeit x",
            "python3 - x",
            "python3 /dev/stdin",
            "perl - x",
            "perl -ne x f",
            "nodejs -e 1",
            "node",
            "node script.js",
            "python3.12 script.py",
            "prove --exec x",
            "time ls",
            "vim.basic -c x",
            "tar cfI x y",
            "mawk x f",
            "sed -i s f",
            "find . -exec x",
            "find . -fprint0 x",
            "find . ~-ex~",
            "tar --checkpoint-action=exec=x",
            "tar --checkpoint-act=exec=x",
            "tar -xIx f",
            "tar -Ix f",
            "sort --compress-prog=x",
            "split --filter=x",
            "make --eval=x",
            "make SHELL=x",
            "scp -S x",
            "rsync -e x",
            "rsync -ae x",
            "gcc -wrapper x",
            "git -c alias.x=y x",
            "git --exec-path=x",
            "git grep -Ox",
            "git ls-remote --upload-pack=x x",
            "git config x",
            "git bisect run x",
            "git submodule foreach x",
            "git -C r x",
            "git rebase -x y",
            "git ~status~",
            "date -s x",
        ] {
            assert!(refused(command), "{command}");
        }
        for command in [
            "ls -la",
            "ls ~*.rs~",
            "cat x",
            "git status",
            "git -C sub log --oneline",
            "git diff --stat",
            "git commit -m x",
            "git",
            "git --version",
            "find . -name x",
            "sort -u f",
            "make test",
            "cargo test",
            "grep -r x .",
        ] {
            assert!(!refused(command), "{command}");
        }
    }
}
