//! A store that fails, hangs or takes its process down at the n-th call.
//!
//! [`FaultyStore`] stands in front of any store and counts the calls that commit something. A [`Fault`] says what happens at
//! which of them, and for how long:
//!
//! ```
//! use pincer_store::{Claim, NewRun, Runs, Safety};
//! use pincer_store_sqlite::SqliteStore;
//! use pincer_testkit::faulty::{Fault, FaultyStore, Kind, Lasting};
//!
//! # let directory = std::env::temp_dir().join(format!("pincer-faulty-doc-{}", std::process::id()));
//! let store = FaultyStore::new(SqliteStore::open(&directory.join("pincer.db"))?);
//! store.plan(Fault { at: 1, kind: Kind::FailAfter, lasting: Lasting::Once, reads: false });
//! let (id, session, user) = ("cm_1".into(), "main".into(), "me".into());
//! let run = NewRun { id, session, user, agent_run: None, created_at: 0, key: None, tools: None, recorded: None };
//! let claim = Claim { owner: "process-1".into(), safety: Safety::Process };
//! // It is reported as failed, and has happened.
//! assert!(store.create_run(run, claim, None, Safety::Power).wait().is_err());
//! assert_eq!(store.run(&"cm_1".into()).wait()?.owner, "process-1");
//! # std::fs::remove_dir_all(directory)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Housekeeping, which happens whenever there is time for it, is not counted: the n-th call of one program is then the same
//! each time. It fails with all the others while a fault lasts.

mod stores;

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use pincer_store::{Reply, RunId, Safety, StoreError};
use pincer_store_sqlite::SqliteError;
use tokio::sync::oneshot;

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
    pub run: Option<&'a RunId>,
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
pub struct FaultyStore<S>(Arc<Shared<S>>);

struct Shared<S> {
    inner: S,
    state: Mutex<State>,
    healed: Condvar,
    observer: Mutex<Option<Arc<Observer>>>,
    turn: Mutex<()>,
}

/// What to do with one call.
enum Verdict {
    Go,
    FailBefore,
    FailAfter,
    DieAfter,
    /// Nothing, until this fault is healed.
    Hang(Fault),
}

impl<S> FaultyStore<S> {
    /// Returns a store that does what `inner` does until a fault is planned.
    pub fn new(inner: S) -> Self {
        let (state, turn, observer) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self(Arc::new(Shared { inner, state, healed: Condvar::new(), observer, turn }))
    }

    /// Lets `observer` see each commit right after it has happened.
    pub fn observed(self, observer: Observer) -> Self {
        *self.0.observer.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(observer));
        self
    }

    /// Returns the store behind it.
    pub fn inner(&self) -> &S {
        &self.0.inner
    }

    /// Plans a fault in place of the one before, and counts from here.
    pub fn plan(&self, fault: Fault) {
        *self.lock() = State { fault: Some(fault), ..State::default() };
        self.0.healed.notify_all();
    }

    /// Ends the fault. Calls that hang go on.
    pub fn heal(&self) {
        let mut state = self.lock();
        (state.fault, state.is_on) = (None, false);
        self.0.healed.notify_all();
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
        self.0.lock()
    }

    /// Counts a call and decides on it. Ends the process, if that is the fault.
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
            Kind::Hang => Verdict::Hang(fault),
        }
    }
}

impl<S: Send + Sync + 'static> FaultyStore<S> {
    /// Makes a call that only reads.
    fn read<T: Send + 'static>(
        &self,
        method: &'static str,
        read: impl FnOnce(&S) -> Reply<T> + Send + 'static,
    ) -> Reply<T> {
        self.make(method, Class::Read, move |shared| read(&shared.inner))
    }

    /// Makes a call of housekeeping.
    fn keep_house<T: Send + 'static>(
        &self,
        method: &'static str,
        keep: impl FnOnce(&S) -> Reply<T> + Send + 'static,
    ) -> Reply<T> {
        self.make(method, Class::Housekeeping, move |shared| keep(&shared.inner))
    }

    /// Makes a call that commits, and shows it to the observer. `fence` finds the proof in what came of it.
    fn commit<T: Send + 'static>(
        &self,
        (method, run, safety): (&'static str, Option<RunId>, Safety),
        fence: impl FnOnce(&T) -> Option<i64> + Send + 'static,
        commit: impl FnOnce(&S) -> Reply<T> + Send + 'static,
    ) -> Reply<T> {
        self.make(method, Class::Commit, move |shared| {
            let observer = shared.observer.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(observer) = observer else { return commit(&shared.inner) };
            let _turn = shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
            let done = commit(&shared.inner).wait();
            if let Ok(done) = &done {
                observer(&Commit { method, run: run.as_ref(), fence: fence(done), safety });
            }
            Reply::ready(done)
        })
    }

    fn make<T: Send + 'static>(
        &self,
        method: &'static str,
        class: Class,
        call: impl FnOnce(&Shared<S>) -> Reply<T> + Send + 'static,
    ) -> Reply<T> {
        let path = || PathBuf::from("faulty");
        match self.verdict(method, class) {
            Verdict::Go => call(&self.0),
            Verdict::FailBefore => Reply::ready(Err(SqliteError::Full { path: path() }.into())),
            Verdict::FailAfter => {
                let reason = format!("a planned fault after {method}");
                let failed: StoreError = SqliteError::Unwritable { path: path(), reason }.into();
                Reply::ready(call(&self.0).wait().and(Err(failed)))
            }
            Verdict::DieAfter => match call(&self.0).wait() {
                Ok(_) => die(),
                Err(error) => Reply::ready(Err(error)),
            },
            Verdict::Hang(fault) => {
                let (tell, told) = oneshot::channel();
                let shared = Arc::clone(&self.0);
                thread::spawn(move || {
                    let is_same = |state: &mut State| state.fault == Some(fault);
                    let state = shared.lock();
                    drop(shared.healed.wait_while(state, is_same).unwrap_or_else(PoisonError::into_inner));
                    let _ = tell.send(call(&shared).wait());
                });
                Reply::later(async move {
                    match told.await {
                        Ok(done) => done,
                        Err(_) => std::future::pending().await,
                    }
                })
            }
        }
    }
}

impl<S> Shared<S> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the process as SIGKILL would: nothing is flushed, no destructor runs.
fn die() -> ! {
    std::process::abort()
}
