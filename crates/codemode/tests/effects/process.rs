//! A program with all that there is, and a process to run it in.

use std::sync::Arc;
use std::time::Duration;

use pincer_codemode::{CodeMode, Durability, ExecInput, RunScope, Settings, WaitInput};
use pincer_store::{ApprovalId, Approvals, RunId};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{Answer, Door};
use serde_json::Value;

use super::{Site, scope};

/// The clock in its inputs, effects one after the other and two at once, a person, a suspension, a timer.
pub(crate) const STEPS: &str = "
await call('mark', 0);
await call('mark', 0);
await Promise.all([call('mark', 2), call('mark', 0)]);
await call('ask', 0);
await yield_control();
await sleep(3);
await call('mark', 0);
return { nonce, seen };";

/// Calls with an effect that the program makes.
pub(crate) const EFFECTS: usize = 6;

/// The beginning: a run whose first call changes nothing is stored without a checkpoint.
pub(crate) const STARTS: [&str; 2] = ["await call('look', 0);", ""];

/// Another process, as far as one can be in the same: with an owner and a runtime of its own.
pub(crate) struct Process {
    runtime: tokio::runtime::Runtime,
    mode: CodeMode,
    door: Arc<Door>,
    scope: RunScope,
}

impl Process {
    pub(crate) fn new<S>(place: &Site, store: &Arc<S>, durability: Durability) -> Self
    where
        S: pincer_codemode::CodeModeStore + pincer_store::Grants + pincer_store::ClientCalls + 'static,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (mode, door) = place.mode(store, place.leases());
        let settings = Settings { durability, ..Settings::default() }.timeout_ms(700);
        let scope = scope(&door, settings);
        Self { runtime, mode, door, scope }
    }

    pub(crate) fn exec(&self, code: &str) -> Value {
        let input = ExecInput::javascript(code);
        serde_json::to_value(self.runtime.block_on(self.mode.exec(&self.scope, input))).unwrap()
    }

    pub(crate) fn wait(&self, run: &RunId) -> Value {
        let input = WaitInput { run_id: run.clone() };
        serde_json::to_value(self.runtime.block_on(self.mode.wait(&self.scope, &input))).unwrap()
    }

    /// Says yes to everything. `false` if the store did not take an answer.
    pub(crate) fn answer(&self, pending: &SqliteStore) -> bool {
        let answer = |id: &ApprovalId| self.runtime.block_on(self.door.answer(id, Answer::AllowOnce, "test")).is_ok();
        pending.pending_approvals().wait().unwrap().iter().all(|question| answer(&question.id))
    }

    /// Ends as a process does: whatever it was at is gone, and its lock with it.
    pub(crate) fn end(self) {
        self.mode.release();
        drop((self.mode, self.door, self.scope));
        self.runtime.shutdown_timeout(Duration::from_secs(5));
    }
}
