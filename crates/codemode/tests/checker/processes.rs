//! The processes of a round, as their parent sees them.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use pincer_testkit::faulty::{Fault, Kind, Lasting};
use serde_json::Value;

use crate::effects::Site;

/// Where a child finds its directory.
pub(crate) const PLACE: &str = "PINCER_CHECKER_PLACE";
/// The beginning of each line of a child.
pub(crate) const SAYS: &str = "@@";

/// The faults that a child can be told to have.
const KINDS: [(Kind, Lasting); 8] = [
    (Kind::FailBefore, Lasting::UntilHealed),
    (Kind::FailBefore, Lasting::UntilHealed),
    (Kind::FailAfterThenBefore, Lasting::UntilHealed),
    (Kind::Hang, Lasting::UntilHealed),
    (Kind::FailBefore, Lasting::Once),
    (Kind::FailAfter, Lasting::Once),
    (Kind::DieBefore, Lasting::Once),
    (Kind::DieAfter, Lasting::Once),
];

/// Returns one of the faults, and how many there are to choose from.
pub(crate) fn fault_of(kind: usize, at: u64) -> Fault {
    let (kind, lasting) = KINDS[kind % KINDS.len()];
    Fault { at, kind, lasting, reads: false }
}

pub(crate) const FAULTS: usize = KINDS.len();
/// So many of them, the last ones, end the process.
pub(crate) const DEATHS: usize = 2;

/// A message of a child, or its end.
pub(crate) struct News {
    pub process: usize,
    /// `None`: it is gone.
    pub said: Option<Value>,
}

/// A process that does what it is told.
pub(crate) struct Process {
    pub number: usize,
    child: Child,
    input: Option<ChildStdin>,
    /// A fault is planned that ends it.
    pub is_doomed: bool,
}

impl Process {
    /// Tells it something. It may be dead already.
    pub(crate) fn tell(&mut self, request: &Value) {
        if let Some(input) = &mut self.input {
            let _ = input.write_all(format!("{request}\n").as_bytes()).and_then(|()| input.flush());
        }
    }

    pub(crate) fn kill(&mut self) {
        // SIGKILL.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Lets it end by itself: its parent has left.
    pub(crate) fn dismiss(&mut self) {
        self.input = None;
    }

    /// Waits for its end. `true` if it had to be killed.
    pub(crate) fn ended(&mut self, within: Duration) -> bool {
        let started = std::time::Instant::now();
        while started.elapsed() < within {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.kill();
        true
    }
}

/// All that were started.
pub(crate) struct Processes {
    place: Site,
    tell: Sender<News>,
    pub news: Receiver<News>,
    pub alive: Vec<Process>,
    pub count: usize,
}

impl Processes {
    pub(crate) fn new(place: &Site) -> Self {
        let (tell, news) = channel();
        Self { place: place.clone(), tell, news, alive: Vec::new(), count: 0 }
    }

    pub(crate) fn start(&mut self) {
        let number = self.count;
        self.count += 1;
        let errors = File::create(self.place.0.join(format!("stderr-{number}"))).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_does_what_it_is_told_until_it_is_killed", "--nocapture"])
            .env(PLACE, &self.place.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap();
        let (output, tell) = (BufReader::new(child.stdout.take().unwrap()), self.tell.clone());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // A line of one that was killed may be cut off.
                let said = line.strip_prefix(SAYS).and_then(|said| serde_json::from_str(said).ok());
                if said.is_some() {
                    let _ = tell.send(News { process: number, said });
                }
            }
            let _ = tell.send(News { process: number, said: None });
        });
        let input = child.stdin.take();
        self.alive.push(Process { number, child, input, is_doomed: false });
    }

    pub(crate) fn get(&mut self, number: usize) -> Option<&mut Process> {
        self.alive.iter_mut().find(|process| process.number == number)
    }

    pub(crate) fn remove(&mut self, number: usize) -> Option<Process> {
        let place = self.alive.iter().position(|process| process.number == number)?;
        Some(self.alive.remove(place))
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.alive.iter_mut().for_each(Process::kill);
    }
}
