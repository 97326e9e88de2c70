//! What all runs of a process share.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use pincer_sandbox::{Engine, MemoryBudget};
use pincer_store::{
    Approvals, Call, Changes, Clock, Fence, Journal, Leases, Listings, Millis, OwnerId, RunId, Runs, Safety, Snapshots,
    StoreError, Upkeep,
};
use pincer_tools::Door;
use tokio_util::sync::CancellationToken;

use crate::housekeeping::Housekeeping;
use crate::live::Live;
use crate::memory::{Backstop, Memory};
use crate::places::{Place, Places};
use crate::scope::RunScope;
use crate::settings::{Durability, Settings};
use crate::telemetry::Counting;
use crate::threads::{Company, Threads};

/// What code mode needs of a store.
pub trait CodeModeStore:
    Runs + Listings + Upkeep + Snapshots + Journal + Approvals + Clock + Changes + Send + Sync
{
}
impl<T: Runs + Listings + Upkeep + Snapshots + Journal + Approvals + Clock + Changes + Send + Sync> CodeModeStore
    for T
{
}

pub(crate) struct Shared {
    pub engine: Engine,
    pub door: Arc<Door>,
    pub store: Arc<dyn CodeModeStore>,
    pub leases: Arc<dyn Leases>,
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
    pub house: Arc<Housekeeping>,
    /// Programs are to be suspended as soon as they can.
    pub closing: CancellationToken,
}

impl Shared {
    /// Store time.
    pub(crate) fn now(&self) -> Millis {
        self.store.now()
    }

    /// Waits for this user's turn at what takes long to store: many suspensions of one user must not delay those of the others.
    pub(crate) async fn turn_to_write(&self, scope: &RunScope) -> Place {
        self.writers.place(&scope.party()).await
    }

    /// Lets a run wait again that could not be continued now, through no fault of its own. A store that does not take that now
    /// is asked again until it does, or until the run is continued.
    pub(crate) fn give_back(self: &Arc<Self>, id: &RunId, fence: Fence, lifetime: Duration) {
        let (shared, id) = (Arc::clone(self), id.clone());
        tokio::spawn(async move {
            let mut pause = Pause::default();
            loop {
                let until = shared.now() + lifetime.as_millis() as Millis;
                match shared.store.let_wait(&id, fence, until).await {
                    Ok(_) | Err(StoreError::Fenced { .. } | StoreError::Missing { .. }) => return,
                    Err(error) => pause.after(&format!("the run {id} could not be given back: {error}")).await,
                }
            }
        });
    }

    /// Returns whether a call that was dispatched is being made. `here` is what this process made before the call was read: a call
    /// of its own that it does not make was noted although the store reported an error, or could not be settled.
    pub(crate) async fn is_made(&self, call: &Call, here: &BTreeSet<u32>) -> bool {
        match self.leases.own() == &call.owner {
            true => here.contains(&call.seq),
            false => self.is_alive(&call.owner).await,
        }
    }

    /// Returns whether a process is alive. One of which that cannot be told is not taken for dead.
    pub(crate) async fn is_alive(&self, owner: &OwnerId) -> bool {
        self.leases.is_alive(owner).await.unwrap_or(true)
    }

    /// Whether more than one program runs.
    pub(crate) fn company(&self) -> Company {
        match self.places.working() {
            0 | 1 => Company::Alone,
            _ => Company::Others,
        }
    }

    /// Whether somebody may stay awake while others work for it: nobody else wants the processor, and it is not the only one.
    pub(crate) fn may_stay_awake(&self) -> bool {
        static SEVERAL: LazyLock<bool> =
            LazyLock::new(|| thread::available_parallelism().is_ok_and(|count| count.get() > 1));
        *SEVERAL && self.company() == Company::Alone
    }

    /// Returns what the checkpoints of a run survive.
    pub(crate) fn safety(&self, settings: &Settings) -> Safety {
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

    pub(crate) async fn after(&mut self, failure: &str) {
        tracing::warn!("{failure}; it is tried again");
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(Self::LONGEST);
    }
}
