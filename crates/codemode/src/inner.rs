//! What all runs of a process share.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use pincer_config::keys::Durability;
use pincer_sandbox::{Engine, MemoryBudget};
use pincer_store::{
    Approvals, Call, Clock, Commit, Fence, Journal, Listings, Millis, Runs, Safety, Snapshots, StoreError, Upkeep,
};
use pincer_tools::{Door, commit_at_once};
use tokio_util::sync::CancellationToken;

use crate::house::House;
use crate::live::Live;
use crate::memory::{Backstop, Memory};
use crate::owner::Owner;
use crate::places::Places;
use crate::scope::RunScope;
use crate::settings::Settings;
use crate::telemetry::Counting;
use crate::threads::{Company, Threads};

/// What code mode needs of a store.
pub trait CodeModeStore: Runs + Listings + Upkeep + Snapshots + Journal + Approvals + Clock + Send + Sync {}
impl<T: Runs + Listings + Upkeep + Snapshots + Journal + Approvals + Clock + Send + Sync> CodeModeStore for T {}

pub(crate) struct Inner {
    pub engine: Engine,
    pub door: Arc<Door>,
    pub store: Arc<dyn CodeModeStore>,
    pub owner: Owner,
    pub threads: Threads,
    /// A place for each cell that the engine can have at a time.
    pub places: Places,
    /// Programs wait here for the store, so that users take turns at it too.
    pub writers: Places,
    pub memory: Memory,
    /// The memory of the inputs of calls while these are made. It is apart, so that calls never wait for programs that wait for
    /// them.
    pub values: MemoryBudget,
    pub backstop: Backstop,
    pub counting: Counting,
    pub live: Live,
    pub house: Arc<House>,
    /// Programs are to be suspended as soon as they can.
    pub closing: CancellationToken,
}

impl Inner {
    /// The store blocks; the runtime must not.
    pub async fn stored<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn CodeModeStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(&self.store);
        match tokio::task::spawn_blocking(move || work(&*store)).await {
            Ok(result) => result,
            Err(broken) => match broken.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends, and its tasks with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Store time.
    pub fn now(&self) -> Millis {
        self.store.now()
    }

    /// Like [`stored`](Self::stored), when it is this caller's turn: many suspensions of one user must not delay the
    /// calls of the others.
    pub async fn stored_in_turn<T: Send + 'static>(
        &self,
        scope: &RunScope,
        work: impl FnOnce(&dyn CodeModeStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _turn = self.writers.place(&scope.party()).await;
        self.stored(work).await
    }

    /// Commits on the spot if that is possible, otherwise when it is this caller's turn.
    pub async fn committed<T: Send + 'static>(
        &self,
        scope: &RunScope,
        safety: Safety,
        work: impl Fn(&dyn CodeModeStore, Commit) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match commit_at_once(safety, |commit| work(&*self.store, commit)) {
            Some(done) => done,
            None => self.stored_in_turn(scope, move |store| work(store, safety.into())).await,
        }
    }

    /// Lets a run wait again that could not be continued now, through no fault of its own. A store that does not take that now
    /// is asked again until it does, or until the run is continued.
    pub fn give_back(self: &Arc<Self>, id: &str, fence: Fence, lifetime: Duration) {
        let (inner, id) = (Arc::clone(self), id.to_owned());
        tokio::spawn(async move {
            let mut pause = Pause::default();
            loop {
                let asked = id.clone();
                let lifetime = lifetime.as_millis() as Millis;
                match inner.stored(move |store| store.let_wait(&asked, fence, store.now() + lifetime)).await {
                    Ok(_) | Err(StoreError::Fenced { .. } | StoreError::Missing { .. }) => return,
                    Err(error) => pause.after(&format!("the run {id} could not be given back: {error}")).await,
                }
            }
        });
    }

    /// Returns whether a call that was dispatched is being made. `here` is what this process made before the call was read: a call
    /// of its own that it does not make was noted although the store reported an error, or could not be settled.
    pub fn is_made(&self, call: &Call, here: &BTreeSet<u32>) -> bool {
        match self.owner.is(&call.owner) {
            true => here.contains(&call.seq),
            false => self.owner.is_alive(&call.owner),
        }
    }

    /// Whether more than one program runs.
    pub fn company(&self) -> Company {
        match self.places.working() {
            0 | 1 => Company::Alone,
            _ => Company::Others,
        }
    }

    /// Whether somebody may stay awake while others work for it: nobody else wants the processor, and it is not the only one.
    pub fn may_stay_awake(&self) -> bool {
        static SEVERAL: LazyLock<bool> =
            LazyLock::new(|| thread::available_parallelism().is_ok_and(|count| count.get() > 1));
        *SEVERAL && self.company() == Company::Alone
    }

    /// Returns what the checkpoints of a run survive.
    pub fn safety(&self, settings: &Settings) -> Safety {
        match settings.durability {
            Durability::Calls | Durability::Parked => Safety::Process,
            Durability::EveryCall => Safety::Power,
        }
    }
}

/// The time between two attempts to store something, longer each time.
pub(crate) struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(Duration::from_millis(20))
    }
}

impl Pause {
    const LONGEST: Duration = Duration::from_secs(1);

    pub async fn after(&mut self, failure: &str) {
        tracing::warn!("{failure}; it is tried again");
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(Self::LONGEST);
    }
}
