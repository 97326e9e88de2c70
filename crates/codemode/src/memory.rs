//! The memory of all programs of this process: one budget, the resident size as a backstop, and giving memory back after a peak.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pincer_sandbox::{Allotment, Engine, MemoryBudget};
use tokio_util::sync::CancellationToken;

use crate::codemode::CodeMode;
use crate::outcome::RunError;
use crate::scope::RunScope;
use crate::shared::Shared;
use crate::threads;

/// The memory of a program besides its cell: its tools, its requests, the pages that its checkpoints are compared with.
const HOST_BYTES: usize = 256 << 10;
/// The text of a program is kept as it was sent and as it runs, and is read into a tree.
const COPIES_OF_TEXT: usize = 4;
/// How old a reading of the resident size may be.
const READ_AGAIN: Duration = Duration::from_millis(20);
/// How long a program that is held back waits before it looks again.
const HELD_BACK: Duration = Duration::from_millis(50);
/// How often memory is given back at most while the process has too much of it.
const GIVE_BACK_AGAIN: Duration = Duration::from_secs(1);
/// Memory is given back when no program has begun for so long.
const CALM: Duration = Duration::from_secs(2);
/// The pool of cells may keep so much for the next ones: enough for a few at a time.
const KEPT: usize = 4 << 20;

/// The memory that all programs may have together.
pub struct Memory {
    /// Counts the memory of cells, and estimates the rest.
    pub budget: MemoryBudget,
    /// Where large cells go that are put aside. Without it they stay in memory.
    pub scratch: Option<PathBuf>,
    /// The resident size of the process, and its bound.
    pub resident: Option<Resident>,
}

/// The resident size of the process: a backstop for what the budget does not count.
#[derive(Clone, Copy)]
pub struct Resident {
    /// While the process has more, no program begins beside others.
    pub most: usize,
    /// Reads the resident size.
    pub read: fn() -> Option<usize>,
    /// Returns free memory to the system. It may take milliseconds.
    pub give_back: fn(),
}

impl Memory {
    /// Memory without any bound.
    pub fn unlimited() -> Self {
        Self { budget: MemoryBudget::unlimited(), scratch: None, resident: None }
    }
}

/// Watches the resident size.
#[derive(Default)]
pub(crate) struct Backstop {
    state: Mutex<Reading>,
    begun: AtomicU64,
    is_watched: AtomicBool,
}

#[derive(Default)]
struct Reading {
    at: Option<Instant>,
    is_over: bool,
    given_back: Option<Instant>,
}

/// The action that the resident size calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressure {
    None,
    /// Nothing new may begin beside other programs.
    Over,
    /// The same, and memory should be given back.
    GiveBack,
}

impl Backstop {
    fn pressure(&self, resident: &Resident, now: Instant) -> Pressure {
        let mut reading = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_older = |time: Option<Instant>, age| time.is_none_or(|time| now.saturating_duration_since(time) >= age);
        if is_older(reading.at, READ_AGAIN) {
            reading.at = Some(now);
            reading.is_over = (resident.read)().is_some_and(|bytes| bytes > resident.most);
        }
        match reading.is_over {
            true if is_older(reading.given_back, GIVE_BACK_AGAIN) => {
                (reading.given_back, reading.at) = (Some(now), None);
                Pressure::GiveBack
            }
            true => Pressure::Over,
            false => Pressure::None,
        }
    }
}

impl CodeMode {
    /// Takes the memory that a program needs to begin or to go on, when there is enough: `cell` bytes for its cell, and
    /// an estimate for its text.
    pub(crate) async fn allotted(
        &self,
        scope: &RunScope,
        cell: usize,
        text: usize,
        deadline: Instant,
        abort: &CancellationToken,
    ) -> Result<Allotment, RunError> {
        let budget = &self.shared.memory.budget;
        let limits = &scope.settings.limits;
        // Beside its memory, the requests of one turn are counted for the cell.
        let most = limits.memory_bytes.saturating_add(limits.arguments_bytes());
        let most = self.shared.engine.fresh_bytes().saturating_add(most);
        let host = HOST_BYTES.saturating_add(text.saturating_mul(COPIES_OF_TEXT));
        let mut allotment = budget.open(&scope.context.user.as_str().into(), host, most);
        let taking = async {
            self.held_back().await;
            allotment.grow(cell).await;
        };
        tokio::select! {
            biased;
            () = taking => {}
            () = abort.cancelled() => return Err(RunError::aborted()),
            () = tokio::time::sleep_until(deadline.into()) => return Err(RunError::no_memory(budget.bytes())),
        }
        Ok(allotment)
    }

    /// Waits while the process has more memory than it should. A program that is alone always begins.
    async fn held_back(&self) {
        let Some(resident) = &self.shared.memory.resident else { return };
        self.shared.backstop.begun.fetch_add(1, Ordering::Relaxed);
        self.watch_memory(*resident);
        loop {
            match self.shared.backstop.pressure(resident, Instant::now()) {
                Pressure::None => return,
                Pressure::GiveBack => {
                    self.shared.places.make_room(usize::MAX);
                    give_back(*resident, &self.shared.engine).await;
                }
                Pressure::Over if self.shared.memory.budget.used() == 0 => return,
                Pressure::Over => tokio::time::sleep(HELD_BACK).await,
            }
        }
    }

    /// Gives memory back to the system as soon as no program runs and none has begun for a while.
    fn watch_memory(&self, resident: Resident) {
        if self.shared.backstop.is_watched.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            while !is_calm(&shared, CALM).await {}
            give_back(resident, &shared.engine).await;
            // Threads of cells have ended by then. Each has a part of the heap to itself until it does.
            let is_over = is_calm(&shared, threads::IDLE + CALM).await;
            // From here on the next program starts a new watch.
            shared.backstop.is_watched.store(false, Ordering::Release);
            if is_over && shared.places.working() == 0 {
                give_back(resident, &shared.engine).await;
            } else {
                CodeMode { shared }.watch_memory(resident);
            }
        });
    }
}

/// Waits for so long, and returns whether no program ran at the end and none had begun meanwhile.
async fn is_calm(shared: &Shared, time: Duration) -> bool {
    let begun = shared.backstop.begun.load(Ordering::Acquire);
    tokio::time::sleep(time).await;
    shared.places.working() == 0 && shared.backstop.begun.load(Ordering::Acquire) == begun
}

async fn give_back(resident: Resident, engine: &Engine) {
    let (before, engine) = ((resident.read)(), engine.clone());
    let work = move || {
        if engine.kept_bytes() > KEPT {
            engine.give_back();
        }
        (resident.give_back)();
    };
    // It breaks down only with the runtime.
    let _ = tokio::task::spawn_blocking(work).await;
    tracing::debug!(?before, after = ?(resident.read)(), "gave memory back");
}
