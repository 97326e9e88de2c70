//! Ends of runs that the store has not taken yet. They stay here until it does, and no caller is told before.

use std::sync::Arc;

use pincer_store::{Fence, RunEnd, RunId, Safety, StoreError};

use crate::codemode::CodeMode;
use crate::result::{CodeModeResult, ErrorCode, Failed};
use crate::shared::{Pause, Shared};

/// The end of a run that is not stored.
pub(crate) struct HeldEnd {
    pub id: RunId,
    pub fence: Fence,
    /// The end, as it is to be stored.
    pub end: RunEnd,
    /// The result that the caller is told once it is stored.
    pub result: CodeModeResult,
}

impl HeldEnd {
    /// Tries to store it.
    pub(crate) async fn store(&self, shared: &Shared) -> Result<(), StoreError> {
        let store = &shared.store;
        store.finish_run(&self.id, self.fence, self.end.clone(), store.now(), Safety::Power).await
    }

    /// Returns the result that the caller is told meanwhile.
    pub(crate) fn not_stored(&self, error: &StoreError) -> CodeModeResult {
        let error = format!(
            "the program has ended, but its end could not be stored: {error}. No call that has settled is made again; \
             continue with wait when the store works again"
        );
        CodeModeResult::Failed(Failed {
            error,
            code: Some(ErrorCode::RuntimeUnavailable),
            run_id: Some(self.id.clone()),
            retry_after_ms: None,
            output: Vec::new(),
            telemetry: self.result.telemetry().clone(),
        })
    }
}

impl CodeMode {
    /// Tries again and again to store an end.
    pub(crate) fn keep_storing(&self, held: Arc<HeldEnd>) {
        let mode = self.clone();
        tokio::spawn(async move {
            let mut pause = Pause::default();
            loop {
                pause.after(&format!("the end of the run {} is not stored", held.id)).await;
                match held.store(&mode.shared).await {
                    Ok(()) | Err(StoreError::Fenced { .. } | StoreError::Missing { .. }) => break,
                    Err(_) => {}
                }
            }
            mode.shared.live.remove_held(&held.id);
        });
    }

    /// Tells the result of a run whose end was not stored, if it can be stored now.
    pub(crate) async fn told_held(&self, held: &HeldEnd) -> CodeModeResult {
        match held.store(&self.shared).await {
            Ok(()) => {
                self.shared.live.remove_held(&held.id);
                held.result.clone()
            }
            Err(error @ (StoreError::Fenced { .. } | StoreError::Missing { .. })) => {
                self.shared.live.remove_held(&held.id);
                // The end was stored a moment ago, or the run was ended by others.
                match self.shared.store.run_result(&held.id).await {
                    Ok(Some(text)) if *text == *held.end.result => held.result.clone(),
                    _ => CodeModeResult::refused(ErrorCode::Aborted, format!("code mode execution aborted: {error}")),
                }
            }
            Err(error) => held.not_stored(&error),
        }
    }
}
