//! Runs as they are listed: state, age, size, and what they wait for.

use pincer_store::{Listings, Millis, Page, Reply, RunId, RunOverview, SessionKey};
use serde::Serialize;

use crate::frontier::Frontier;
use crate::result::{PendingToolCall, WaitReason};
use crate::unbegun::Unbegun;

/// A run as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// What `wait` must be given.
    pub run_id: RunId,
    /// The session it belongs to.
    pub session: SessionKey,
    /// `running`, `waiting`, `completed`, `failed`, `expired` or `aborted`.
    pub state: &'static str,
    /// Why it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<WaitReason>,
    /// When it began, in milliseconds since 1970.
    pub created_at: Millis,
    /// When it can no longer be continued.
    pub expires_at: Option<Millis>,
    /// How large it is as it is stored.
    pub snapshot_bytes: u32,
    /// What it waits for.
    pub pending: Vec<PendingToolCall>,
}

/// Returns one page of runs, the oldest first.
pub fn overviews(store: &(impl Listings + ?Sized), page: Page) -> Reply<Vec<Overview>> {
    store.run_overviews(page).map(|runs| Ok(runs?.into_iter().map(shown).collect()))
}

/// Returns one run as it is listed.
pub fn overview(store: &(impl Listings + ?Sized), id: &RunId) -> Reply<Overview> {
    store.run_overview(id).map(|run| run.map(shown))
}

fn shown(RunOverview { run, snapshot_bytes, detail }: RunOverview) -> Overview {
    let waits = run.state == pincer_store::RunState::Waiting;
    let detail = detail.filter(|_| waits);
    let frontier = detail.as_deref().and_then(|detail| Frontier::parse(detail).ok());
    let unbegun = detail.as_deref().filter(|_| frontier.is_none()).and_then(Unbegun::parse);
    let begun = frontier.as_ref().map(Frontier::pending).unwrap_or_default();
    Overview {
        reason: frontier.as_ref().map(Frontier::reason).or(unbegun.as_ref().map(|_| WaitReason::PendingTools)),
        pending: unbegun.as_ref().map_or(begun, Unbegun::pending),
        run_id: run.id,
        session: run.session,
        state: run.state.as_str(),
        created_at: run.created_at,
        expires_at: run.expires_at,
        snapshot_bytes: snapshot_bytes.unwrap_or_default(),
    }
}
