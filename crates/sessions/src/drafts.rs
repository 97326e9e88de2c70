//! Drafts that no process fills any more.

use pincer_store::{Leases, Sessions, StoreError};

/// Removes the drafts of processes that are gone, and returns how many.
pub async fn remove_dead_drafts(
    store: &(dyn Sessions + Send + Sync),
    leases: &dyn Leases,
) -> Result<usize, StoreError> {
    let mut removed = 0;
    for draft in store.drafts().await? {
        let is_filled = match &draft.owner {
            Some(owner) => owner == leases.own() || leases.is_alive(owner).await?,
            // A restoration takes the owner away.
            None => false,
        };
        if is_filled {
            continue;
        }
        match store.delete_session(&draft.id, draft.fence).await {
            Ok(()) => removed += 1,
            // Another process was faster.
            Err(StoreError::Missing { .. } | StoreError::SessionFenced { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}
