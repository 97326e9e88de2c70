//! A home of its own for each test, with a config in it.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

pub(crate) mod plan;

/// Runs a command on a terminal of its own, answers the first question, and says how it ended and what was shown.
const ON_A_TERMINAL: &str = r#"
import os, pty, sys
answer, command = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(command[0], command)
shown, answered = b"", False
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    if not piece:
        break
    shown += piece
    if not answered and shown.endswith((b"[N]o? ", b" [1]: ")):
        answered = True
        os.write(terminal, b"\x03" if answer == "^C" else answer.encode() + b"\n")
sys.stdout.write(shown.decode(errors="replace"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn with(config: &str) -> Self {
        let home = Self(tempfile::tempdir().expect("a directory"));
        fs::write(home.path("pincer.json5"), config).expect("a config");
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command that is run there, with nothing of this process's environment but the path.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pincer"));
        command.args(arguments).current_dir(self.0.path()).env_clear();
        command
            .env("HOME", self.0.path())
            .env("SET", "value of it")
            .env("PATH", std::env::var_os("PATH").expect("a path"));
        // Not in the home: what tests list there is theirs.
        command.env("XDG_STATE_HOME", self.0.path().join(".state"));
        // For all tests of this build, so that only the first of them compiles the engine.
        command.env("XDG_CACHE_HOME", PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        command
    }

    /// Exit code, stdout, stderr.
    pub(crate) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.command(arguments).output().expect("pincer");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
    }

    /// The same on a terminal, where the first question is answered so: exit code, and what was shown.
    pub(crate) fn on_a_terminal(&self, answer: &str, arguments: &[&str]) -> (i32, String) {
        self.on_a_terminal_with(&[], answer, arguments)
    }

    /// The same with more variables.
    pub(crate) fn on_a_terminal_with(
        &self,
        variables: &[(&str, &str)],
        answer: &str,
        arguments: &[&str],
    ) -> (i32, String) {
        let mut pincer = self.command(arguments);
        pincer.envs(variables.iter().copied());
        let mut python = Command::new("python3");
        python.args(["-c", ON_A_TERMINAL, answer]).arg(pincer.get_program()).args(pincer.get_args());
        python.current_dir(self.0.path()).env_clear().env("TERM", "xterm");
        python.envs(pincer.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = python.output().expect("python3");
        (output.status.code().expect("an exit code"), String::from_utf8(output.stdout).expect("UTF-8"))
    }

    /// Exit code, and the document on stdout.
    pub(crate) fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let (code, out, err) = self.run(arguments);
        (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}")))
    }
}
