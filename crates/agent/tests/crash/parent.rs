//! Starts the processes, and ends some of them.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pincer_scripted::{Script, Server};
use tempfile::TempDir;

use crate::child::{COMMITS, CONFIG, DEATH, OUTCOME, PLACE};
use crate::scenes::Scene;

/// A process that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The commit at which a process dies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Death {
    Before(u64),
    After(u64),
}

/// A state directory, a model, and what became of a run.
pub(crate) struct Place {
    pub directory: TempDir,
    pub server: Arc<Server>,
    config: String,
}

impl Place {
    pub(crate) fn new(scene: &Scene) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Arc::new(Server::start(Script::parse(&(scene.script)()).expect("a script")).expect("a server"));
        let config = format!(
            "{{ workspace: {:?}, models: {{ providers: {{ scripted: {{ baseUrl: '{}/v1', apiKey: 'k', \
             models: [{{ id: 'narrow', contextWindow: 6000 }}] }} }} }}, {} {} }}",
            directory.path().display().to_string(),
            server.url(),
            if scene.config.contains("agents:") { "" } else { "agents: { defaults: { model: 'scripted/scripted' } }," },
            scene.config
        );
        Self { directory, server, config }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn start(&self, death: Option<Death>) -> Child {
        let mut command = Command::new(std::env::current_exe().expect("a test"));
        command
            .args(["child_works_until_it_is_killed", "--exact", "--nocapture"])
            .env(PLACE, self.directory.path())
            .env(CONFIG, &self.config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        match death {
            Some(Death::Before(at)) => drop(command.env(DEATH, format!("b{at}"))),
            Some(Death::After(at)) => drop(command.env(DEATH, format!("a{at}"))),
            None => drop(command.env_remove(DEATH)),
        }
        command.spawn().expect("a process")
    }

    /// Runs a process to its end. Returns how many commits it made, if it came to the end of the run.
    pub(crate) fn run(&self, death: Option<Death>) -> u64 {
        let mut child = self.start(death);
        let began = Instant::now();
        loop {
            if child.try_wait().expect("asked").is_some() {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "it hangs: {death:?}, {:?}", self.server.complaints());
            thread::sleep(Duration::from_millis(2));
        }
        if death.is_none() {
            assert!(self.file(OUTCOME).exists(), "it ended without an outcome: {:?}", self.server.complaints());
        }
        std::fs::read_to_string(self.file(COMMITS)).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Returns how many rows the store has, without the one that every store has for its clock.
    pub(crate) fn rows(&self) -> u64 {
        let store = rusqlite::Connection::open(self.file("state").join("pincer.db")).expect("a store");
        let mut tables = store
            .prepare(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'clock'",
            )
            .expect("a query");
        let names: Vec<String> =
            tables.query_map([], |row| row.get(0)).expect("read").collect::<Result<_, _>>().expect("read");
        let count = |name: &String| -> u64 {
            let count = format!("SELECT count(*) FROM {name}");
            store.query_row(&count, [], |row| row.get::<_, u32>(0)).expect("read").into()
        };
        names.iter().map(count).sum()
    }

    /// Runs two processes at once, the second a while after the first, and kills each after so many milliseconds.
    pub(crate) fn run_two_and_kill(&self, between: u64, after: [u64; 2]) {
        let mut first = self.start(None);
        thread::sleep(Duration::from_millis(between));
        let mut second = self.start(None);
        let (soon, late) = (after[0].min(after[1]), after[0].max(after[1]));
        let (early, later) = if after[0] <= after[1] { (&mut first, &mut second) } else { (&mut second, &mut first) };
        thread::sleep(Duration::from_millis(soon));
        let _ = early.kill();
        thread::sleep(Duration::from_millis(late - soon));
        let _ = later.kill();
        let _ = (first.wait(), second.wait());
    }

    /// Runs a process and kills it after so many milliseconds. Returns whether it was in the middle of the run.
    pub(crate) fn run_and_kill(&self, after: u64) -> bool {
        let mut child = self.start(None);
        thread::sleep(Duration::from_millis(after));
        let is_running = child.try_wait().expect("asked").is_none();
        let _ = child.kill();
        let _ = child.wait();
        is_running && self.file("state").join("pincer.db").exists()
    }
}
