//! Grants: answers that hold for later calls too.

use crate::{GrantId, Millis, Reply, RunId};

/// How long a grant holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantKind {
    /// Until it is revoked.
    Always,
    /// For the next calls of one run.
    Next {
        /// The run.
        run: RunId,
        /// How many are left.
        remaining: u32,
    },
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its id.
    pub id: GrantId,
    /// The tool's id.
    pub tool: String,
    /// The tool's fingerprint: the grant is for the tool as it was. Grants of earlier versions have none, and hold for every tool of this id.
    pub fingerprint: Option<Vec<u8>>,
    /// The user whose calls it is for. Grants of earlier versions have none, and are for every user's.
    pub user: Option<String>,
    /// How long it holds.
    pub kind: GrantKind,
    /// When it was given.
    pub created_at: Millis,
}

/// Standing grants.
pub trait Grants {
    /// Stores a grant.
    fn grant(&self, grant: Grant) -> Reply<()>;
    /// Returns all grants, oldest first.
    fn grants(&self) -> Reply<Vec<Grant>>;
    /// Takes a grant back; `false` if there is none with this id.
    fn revoke(&self, id: &GrantId) -> Reply<bool>;
    /// Returns the grants of a user for these tools of this fingerprint: those that hold until they are revoked, and those for
    /// the next calls of this run. Nothing is used up: [`dispatch`](crate::Journal::dispatch) does that.
    fn grants_for(
        &self,
        tools: Vec<String>,
        fingerprint: Vec<u8>,
        user: &str,
        run: Option<&RunId>,
    ) -> Reply<Vec<Grant>>;
}
