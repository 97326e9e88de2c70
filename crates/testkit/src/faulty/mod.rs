//! A store that fails, hangs or takes its process down at the n-th call.
//!
//! [`FaultyStore`] stands in front of any store and counts the calls that commit something. A [`Fault`] says what happens at
//! which of them, and for how long:
//!
//! ```
//! use pincer_store::{Claim, NewRun, Runs, Safety, SqliteStore};
//! use pincer_testkit::faulty::{Fault, FaultyStore, Kind, Lasting};
//!
//! # let directory = std::env::temp_dir().join(format!("pincer-faulty-doc-{}", std::process::id()));
//! let store = FaultyStore::new(SqliteStore::open(&directory.join("pincer.db"))?);
//! store.plan(Fault { at: 1, kind: Kind::FailAfter, lasting: Lasting::Once, reads: false });
//! let (id, session, caller) = ("cm_1", "main", "me");
//! let run = NewRun { id, session, caller, agent_run: None, created_at: 0, key: None, tools: None };
//! let claim = Claim { owner: "process-1", safety: Safety::Process };
//! // It is reported as failed, and has happened.
//! assert!(store.create_run(&run, claim, None, Safety::Power.into()).is_err());
//! assert_eq!(store.run("cm_1")?.owner, "process-1");
//! # std::fs::remove_dir_all(directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Housekeeping, which happens whenever there is time for it, is not counted: the n-th call of one program is then the same
//! each time. It fails with all the others while a fault lasts.

mod stores;

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pincer_store::{Safety, StoreError};

/// What happens at a store call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing is stored, and the disk is said to be full.
    FailBefore,
    /// The call is done, and an I/O error is reported all the same.
    FailAfter,
    /// The first call is done and reported as failed, and from then on nothing is stored: a disk that breaks down.
    FailAfterThenBefore,
    /// The call does not return before [`FaultyStore::heal`].
    Hang,
    /// The process dies before the commit.
    DieBefore,
    /// The process dies after the commit.
    DieAfter,
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// For one call.
    Once,
    /// For all calls until [`FaultyStore::heal`].
    UntilHealed,
}

/// What happens at which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The number of the call, counted from 1 since the fault was planned.
    pub at: u64,
    /// What happens.
    pub kind: Kind,
    /// For how long.
    pub lasting: Lasting,
    /// Whether calls that only read are counted, and fail too.
    pub reads: bool,
}

/// A commit that has happened, for an observer.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    /// The method.
    pub method: &'static str,
    /// The run it was about.
    pub run: Option<&'a str>,
    /// The proof that it was made with, or that it gave.
    pub fence: Option<i64>,
    /// What it survives.
    pub safety: Safety,
}

/// Is called after each commit. No other commit happens meanwhile.
pub type Observer = Box<dyn Fn(&Commit<'_>) + Send + Sync>;

/// What a call is, to the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Commit,
    Read,
    Housekeeping,
}

#[derive(Default)]
struct State {
    fault: Option<Fault>,
    count: u64,
    /// The fault has begun.
    fired: Option<&'static str>,
    /// It goes on.
    is_on: bool,
}

/// A store in front of another one, with faults. Can be shared by threads.
pub struct FaultyStore<S> {
    inner: S,
    state: Mutex<State>,
    healed: Condvar,
    observer: Option<Observer>,
    turn: Mutex<()>,
}

/// What to do with one call.
enum Verdict {
    Go,
    FailBefore,
    FailAfter,
    DieAfter,
}

impl<S> FaultyStore<S> {
    /// Returns a store that does what `inner` does until a fault is planned.
    pub fn new(inner: S) -> Self {
        Self { inner, state: Mutex::default(), healed: Condvar::new(), observer: None, turn: Mutex::default() }
    }

    /// Lets `observer` see each commit right after it has happened.
    pub fn observed(self, observer: Observer) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Returns the store behind it.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Plans a fault in place of the one before, and counts from here.
    pub fn plan(&self, fault: Fault) {
        *self.lock() = State { fault: Some(fault), ..State::default() };
        self.healed.notify_all();
    }

    /// Ends the fault. Calls that hang go on.
    pub fn heal(&self) {
        let mut state = self.lock();
        (state.fault, state.is_on) = (None, false);
        self.healed.notify_all();
    }

    /// Returns how many calls were counted since the fault was planned.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Returns the method at which the fault began, if it has.
    pub fn fired(&self) -> Option<&'static str> {
        self.lock().fired
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call and decides on it. Hangs, or ends the process, if that is the fault.
    fn verdict(&self, method: &'static str, class: Class) -> Verdict {
        let mut state = self.lock();
        let Some(fault) = state.fault else {
            state.count += u64::from(class == Class::Commit);
            return Verdict::Go;
        };
        if class == Class::Read && !fault.reads {
            return Verdict::Go;
        }
        if class != Class::Housekeeping {
            state.count += 1;
        }
        let begins = class != Class::Housekeeping && state.count == fault.at;
        if begins {
            state.fired = Some(method);
            state.is_on = fault.lasting == Lasting::UntilHealed || fault.kind == Kind::FailAfterThenBefore;
        } else if !state.is_on {
            return Verdict::Go;
        }
        match fault.kind {
            Kind::FailAfter => Verdict::FailAfter,
            Kind::FailAfterThenBefore if begins => Verdict::FailAfter,
            Kind::FailBefore | Kind::FailAfterThenBefore => Verdict::FailBefore,
            Kind::DieBefore => die(),
            Kind::DieAfter => Verdict::DieAfter,
            Kind::Hang => {
                let is_same = |state: &mut State| state.fault == Some(fault);
                drop(self.healed.wait_while(state, is_same).unwrap_or_else(PoisonError::into_inner));
                Verdict::Go
            }
        }
    }

    /// Makes a call that only reads.
    fn read<T>(&self, method: &'static str, read: impl FnOnce(&S) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.make(method, Class::Read, || read(&self.inner))
    }

    /// Makes a call that nobody waits for.
    fn keep_house<T>(
        &self,
        method: &'static str,
        keep: impl FnOnce(&S) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.make(method, Class::Housekeeping, || keep(&self.inner))
    }

    /// Makes a call that commits, and shows it to the observer. `fence` finds the proof in what came of it.
    fn commit<T>(
        &self,
        (method, run, safety): (&'static str, Option<&str>, Safety),
        fence: impl FnOnce(&T) -> Option<i64>,
        commit: impl FnOnce(&S) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.make(method, Class::Commit, || {
            let Some(observer) = &self.observer else { return commit(&self.inner) };
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            let done = commit(&self.inner)?;
            observer(&Commit { method, run, fence: fence(&done), safety });
            Ok(done)
        })
    }

    fn make<T>(
        &self,
        method: &'static str,
        class: Class,
        call: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = || PathBuf::from("faulty");
        match self.verdict(method, class) {
            Verdict::Go => call(),
            Verdict::FailBefore => Err(StoreError::Full { path: path() }),
            Verdict::FailAfter => {
                self.done(call())?;
                Err(StoreError::Unwritable { path: path(), reason: format!("a planned fault after {method}") })
            }
            Verdict::DieAfter => {
                self.done(call())?;
                die()
            }
        }
    }

    /// Puts a fault off that was to follow a commit, if there was none: another writer was in the way.
    fn done<T>(&self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        if matches!(done, Err(StoreError::Busy { .. })) {
            let mut state = self.lock();
            (state.count, state.fired, state.is_on) = (state.count.saturating_sub(1), None, false);
        }
        done
    }
}

/// Ends the process as SIGKILL would: nothing is flushed, no destructor runs.
fn die() -> ! {
    std::process::abort()
}
