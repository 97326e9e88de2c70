//! What all runs of a process share.

use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use pincer_config::keys::Durability;
use pincer_sandbox::Engine;
use pincer_store::{Approvals, Fence, Journal, Millis, Runs, Safety, Snapshots, StoreError, now};
use pincer_tools::Door;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::live::Live;
use crate::owner::Owner;
use crate::settings::Settings;
use crate::telemetry::Counting;
use crate::threads::{Company, Threads};

/// What code mode needs of a store.
pub trait CodeModeStore: Runs + Snapshots + Journal + Approvals + Send + Sync {}
impl<T: Runs + Snapshots + Journal + Approvals + Send + Sync> CodeModeStore for T {}

pub(crate) struct Inner {
    pub engine: Engine,
    pub door: Arc<Door>,
    pub store: Arc<dyn CodeModeStore>,
    pub owner: Owner,
    pub threads: Threads,
    /// A place for each cell that the engine can have at a time.
    pub cells: Arc<Semaphore>,
    pub live_cells: usize,
    pub counting: Counting,
    pub live: Live,
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
                // The runtime ends, and whoever waits with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Lets a run wait again that could not be continued now, through no fault of its own.
    pub async fn give_back(&self, id: &str, fence: Fence, lifetime: Duration) {
        let asked = id.to_owned();
        let expires_at = now() + lifetime.as_millis() as Millis;
        // If that fails too it is still this process's, and whoever waits for it next finds it so.
        if let Err(error) = self.stored(move |store| store.let_wait(&asked, fence, expires_at)).await {
            tracing::warn!("the run {id} could not be given back: {error}");
        }
    }

    /// Whether more than one program runs.
    pub fn company(&self) -> Company {
        match self.live_cells.saturating_sub(self.cells.available_permits()) {
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

    /// What notes of calls must survive.
    pub fn safety(&self, settings: &Settings) -> Safety {
        match settings.durability {
            Durability::Parked => Safety::Process,
            Durability::EveryCall => Safety::Power,
        }
    }
}
