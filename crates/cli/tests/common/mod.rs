//! A home of its own for each test, with a config in it.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

pub struct Home(TempDir);

impl Home {
    pub fn with(config: &str) -> Self {
        let home = Self(tempfile::tempdir().expect("a directory"));
        fs::write(home.path("pincer.json5"), config).expect("a config");
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command that is run there, with nothing of this process's environment but the path.
    pub fn command(&self, arguments: &[&str]) -> Command {
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
    pub fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = self.command(arguments).output().expect("pincer");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
    }

    /// Exit code, and the document on stdout.
    pub fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let (code, out, err) = self.run(arguments);
        (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out} {err}")))
    }
}
