//! Approvals: questions to a person, stored before they are asked. The first answer wins.

use std::sync::Arc;

use crate::states::words;
use crate::{ApprovalId, Grant, GrantId, Millis, Reply, RunId, SessionKey};

/// How a question stands. Only a pending one can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalState {
    /// It has no answer yet.
    Pending,
    /// A person said yes.
    Allowed,
    /// A person said no.
    Denied,
    /// No answer came in time. Not a refusal by a person.
    Expired,
    /// What it was asked for is gone.
    Cancelled,
}

words!(ApprovalState {
    Pending = "pending",
    Allowed = "allowed",
    Denied = "denied",
    Expired = "expired",
    Cancelled = "cancelled",
});

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Allow,
    /// No.
    Deny,
    /// The question is withdrawn.
    Cancel,
}

/// A question to be stored.
#[derive(Clone, Debug)]
pub struct NewApproval {
    /// Its id.
    pub id: ApprovalId,
    /// The run that asks, if one does.
    pub run: Option<RunId>,
    /// The session it belongs to.
    pub session: SessionKey,
    /// The user for whom the call is made: an answer is for no other.
    pub user: Option<String>,
    /// The tool's id.
    pub tool: String,
    /// The number of the call within the run: an answer is for that call and no other.
    pub seq: Option<u32>,
    /// A digest of the tool and the input: an answer is for nothing else.
    pub digest: Vec<u8>,
    /// The tool's fingerprint: an answer is for the tool as it was when it was asked about.
    pub fingerprint: Option<Vec<u8>>,
    /// What is shown to the person, as JSON.
    pub request: Arc<str>,
    /// When it was asked.
    pub created_at: Millis,
    /// When it expires, if it does.
    pub expires_at: Option<Millis>,
}

/// A question as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// The run that asks, if one does.
    pub run: Option<RunId>,
    /// The session it belongs to.
    pub session: SessionKey,
    /// The user for whom the call is made. Questions of earlier versions may have none.
    pub user: Option<String>,
    /// The tool's id.
    pub tool: String,
    /// The number of the call within the run.
    pub seq: Option<u32>,
    /// A digest of the tool and the input.
    pub digest: Vec<u8>,
    /// The tool's fingerprint.
    pub fingerprint: Option<Vec<u8>>,
    /// What is shown to the person, as JSON.
    pub request: String,
    /// How it stands.
    pub state: ApprovalState,
    /// The person or process that decided it.
    pub decided_by: Option<String>,
    /// When it was asked.
    pub created_at: Millis,
    /// When it was decided. Of questions that earlier versions decided it is not known.
    pub decided_at: Option<Millis>,
    /// When it expires, if it does.
    pub expires_at: Option<Millis>,
    /// Whether its answer was used: the call it allowed may have been made.
    pub is_used: bool,
}

/// The call that a question is looked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The session it belongs to.
    pub session: SessionKey,
    /// The user for whom it is made.
    pub user: String,
    /// Its run, and its number in there.
    pub call: Option<(RunId, u32)>,
    /// The digest of its tool and input.
    pub digest: Vec<u8>,
    /// The tool's fingerprint.
    pub fingerprint: Vec<u8>,
}

/// The permission for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// It needs none.
    Free,
    /// A person's answer to this question.
    Answer(ApprovalId),
    /// A grant for so many calls.
    Counted(GrantId),
    /// Grants that hold until they are revoked; all of them are needed.
    Standing(Vec<GrantId>),
}

/// The result of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Whether this answer was the one that counted.
    pub applied: bool,
    /// The question, as it stands now.
    pub approval: Approval,
}

/// Questions and answers.
pub trait Approvals {
    /// Stores a question.
    fn ask(&self, approval: NewApproval) -> Reply<()>;
    /// Returns the question with this id.
    fn approval(&self, id: &ApprovalId) -> Reply<Approval>;
    /// Returns the questions without an answer, oldest first.
    fn pending_approvals(&self) -> Reply<Vec<Approval>>;
    /// Answers a question, and stores what the answer grants for later, in one step. Only the first answer counts, and none
    /// after its time.
    fn resolve(
        &self,
        id: &ApprovalId,
        decision: Decision,
        grants: Vec<Grant>,
        by: &str,
        now: Millis,
    ) -> Reply<Resolution>;
    /// Returns the question about this very call: the latest one of the call of a run, answered or not; without a run, one that
    /// is open or whose answer has not been used.
    fn standing_question(&self, asked: Asked, now: Millis) -> Reply<Option<Approval>>;
    /// Uses the answer to a question that belongs to no run, yes or no. Only the first use counts: `false` for every other.
    fn use_answer(&self, id: &ApprovalId) -> Reply<bool>;
    /// Returns the questions of the calls of a run that were not withdrawn, oldest first.
    fn questions_of(&self, run: &RunId) -> Reply<Vec<Approval>>;
    /// Uses up what allows a call that the journal does not note, on the disk before it is made. `false` if it is gone. A yes
    /// is for its call, also if that is made again; whether it may be is for the caller to decide, who sees that the yes was used. A
    /// question about a call that a grant allows is closed and counts as used.
    fn spend(&self, run: &RunId, seq: u32, permission: Permission) -> Reply<bool>;
    /// Closes the questions whose time is over, and returns their ids.
    fn expire_approvals(&self, now: Millis) -> Reply<Vec<ApprovalId>>;
}
