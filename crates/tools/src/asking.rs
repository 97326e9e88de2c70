//! Asks a person before a call is made, and waits for the answer.

use std::time::Duration;

use pincer_json::Payload;
use pincer_store::{
    ApprovalId, ApprovalState, Asked, Decision, Grant, GrantId, GrantKind, Millis, NewApproval, Permission, RunId,
    StoreError,
};
use serde_json::Value;
use uuid::Uuid;

use crate::approval_request::ApprovalRequest;
use crate::approvals::call_digest;
use crate::door::{Door, DoorStore, Failed};
use crate::hooks::{ApprovalDemand, Standing};
use crate::telling::Teller;
use crate::{Answer, Call, Context, ErrorCode, EventKind, Fingerprint, UpdateSink};

/// The time between two look-ups of a question that another process may have answered.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// How often it is looked up if nothing tells of a change.
pub(crate) const LOOK_ANYWAY: Duration = Duration::from_secs(5);

/// A question to a person.
pub(crate) struct Question<'a> {
    pub tool: String,
    pub fingerprint: Fingerprint,
    pub input: &'a Payload,
    pub call: &'a Call,
    pub demand: &'a ApprovalDemand,
    pub standing: &'a Standing,
}

/// The way in which a question was settled.
pub(crate) enum Settled {
    /// By its answer, its time, or because it was withdrawn.
    As(ApprovalState),
    /// By a grant that came with the answer to another one.
    Granted(Permission),
}

impl Door {
    /// Asks a person, unless a grant answers for them, and waits. Returns what allows the call.
    pub(crate) async fn approve(
        &self,
        question: &Question<'_>,
        context: &Context,
        teller: &Teller<'_>,
        updates: &dyn UpdateSink,
    ) -> Result<Permission, Failed> {
        let store_failed =
            |error: StoreError| Failed::before(ErrorCode::Store, format!("no person could be asked: {error}"));
        let tool = question.tool.clone();
        let run = context.known_run();
        let is_bound = run.is_some();
        let keys = keys(question.standing, &tool, context);
        let granting = Granting { keys, fingerprint: question.fingerprint, user: context.user.clone(), run };
        if let Some(permission) = granting.find(self.store()).await.map_err(store_failed)?
            && (matches!(permission, Permission::Standing(_))
                || !self.is_answered(question, context).await.map_err(store_failed)?)
        {
            return Ok(permission);
        }
        self.stored_up_to(question.call.seq, context, updates).await?;
        loop {
            let id = self.question(question, context, teller).await.map_err(store_failed)?;
            updates.asked(&id);
            let state = match self.answer_to(&id, context, Some(&granting)).await.map_err(store_failed)? {
                Settled::As(state) => state,
                Settled::Granted(permission) => {
                    teller.tell(EventKind::ApprovalResolved { approval: id, state: ApprovalState::Allowed.as_str() });
                    return Ok(permission);
                }
            };
            teller.tell(EventKind::ApprovalResolved { approval: id.clone(), state: state.as_str() });
            if !is_bound && matches!(state, ApprovalState::Allowed | ApprovalState::Denied) {
                // Another call of the same kind may have waited for the same answer: it is for one of them.
                if !self.store().use_answer(&id).await.map_err(store_failed)? {
                    continue;
                }
            }
            let refused = match state {
                ApprovalState::Allowed if is_bound => return Ok(Permission::Answer(id)),
                ApprovalState::Allowed => return Ok(Permission::Free),
                ApprovalState::Denied => (ErrorCode::Denied, format!("the call of {tool} was denied")),
                ApprovalState::Expired => {
                    let message = format!("no person answered in time whether {tool} may be called");
                    (ErrorCode::ApprovalExpired, message)
                }
                // Another call that waited for the same answer has gone.
                ApprovalState::Cancelled if !context.abort.is_cancelled() && !is_bound => continue,
                ApprovalState::Pending | ApprovalState::Cancelled => {
                    (ErrorCode::Aborted, "the call was aborted while it waited for an approval".into())
                }
            };
            return Err(Failed::before(refused.0, refused.1));
        }
    }

    /// Waits until the program is stored up to this call: a question that a person has seen must outlive this process together
    /// with what asked it.
    pub(crate) async fn stored_up_to(
        &self,
        seq: u32,
        context: &Context,
        updates: &dyn UpdateSink,
    ) -> Result<(), Failed> {
        let Some(run) = context.run.as_ref().filter(|run| !run.covers(seq)) else { return Ok(()) };
        updates.needs_checkpoint();
        tokio::select! {
            biased;
            () = context.abort.cancelled() => {
                Err(Failed::before(ErrorCode::Aborted, "the call was aborted before it started"))
            }
            () = run.covered(seq) => Ok(()),
        }
    }

    /// Returns whether this very call has its answer. Then it does not use up what that answer grants to the next ones.
    async fn is_answered(&self, of: &Question<'_>, context: &Context) -> Result<bool, StoreError> {
        let Some(run) = context.known_run() else { return Ok(false) };
        let asked = asked(of, context, Some((run, of.call.seq)));
        let standing = self.store().standing_question(asked, self.store().now()).await?;
        Ok(standing.is_some_and(|question| question.state != ApprovalState::Pending))
    }

    /// Returns the question about this very call: one that stands already, perhaps with its answer, or a new one.
    async fn question(
        &self,
        of: &Question<'_>,
        context: &Context,
        teller: &Teller<'_>,
    ) -> Result<ApprovalId, StoreError> {
        let _asking = self.asking.lock().await;
        let call = context.known_run().map(|run| (run, of.call.seq));
        let asked = asked(of, context, call.clone());
        if let Some(standing) = self.store().standing_question(asked, self.store().now()).await? {
            teller.tell(EventKind::ApprovalRequested { approval: standing.id.clone() });
            return Ok(standing.id);
        }
        let id = self.ask(of, context, call.map(|(run, seq)| (run, Some(seq)))).await?;
        teller.tell(EventKind::ApprovalRequested { approval: id.clone() });
        Ok(id)
    }

    /// Stores a new question: about a call of a run, about a run as a whole, or about a call of none.
    pub(crate) async fn ask(
        &self,
        of: &Question<'_>,
        context: &Context,
        call: Option<(RunId, Option<u32>)>,
    ) -> Result<ApprovalId, StoreError> {
        let (digest, request) = {
            // It was read before the hooks were asked.
            let input = of.input.as_value().unwrap_or_default();
            let (digest, keys) = (digest(&of.tool, &input, context), keys(of.standing, &of.tool, context));
            let request = ApprovalRequest::new(of.call, &of.tool, input.into_owned(), of.demand, keys);
            (digest, request.asked_by(workspace(&of.tool, context), sender(context)).to_json())
        };
        let id = ApprovalId::from(format!("ap_{}", Uuid::now_v7()));
        let created_at = self.store().now();
        let lifetime = self.parts.approval_lifetime.map(|lifetime| lifetime.as_millis() as Millis);
        let (run, seq) = call.map_or((None, None), |(run, seq)| (Some(run), seq));
        let asked = self.store().ask(NewApproval {
            id: id.clone(),
            run,
            session: context.session.clone(),
            user: Some(context.user.clone()),
            tool: of.tool.clone(),
            seq,
            digest: digest.into(),
            fingerprint: Some(of.fingerprint.0.into()),
            request: request.into(),
            created_at,
            expires_at: lifetime.map(|lifetime| created_at + lifetime),
        });
        asked.await?;
        Ok(id)
    }

    /// Waits until a question is settled, here or in another process; an abort settles it too.
    pub(crate) async fn answer_to(
        &self,
        id: &ApprovalId,
        context: &Context,
        granting: Option<&Granting>,
    ) -> Result<Settled, StoreError> {
        let mut elsewhere = self.store().watch(LOOK_AGAIN);
        loop {
            // Registered before looking, so that an answer in between is not missed.
            let answered = self.answered.notified();
            let expires_at = match self.settlement(id, granting).await? {
                Settlement::Settled(settled) => return Ok(settled),
                Settlement::Open { expires_at } => expires_at,
            };
            let expired = async {
                match expires_at {
                    Some(at) => tokio::time::sleep(until(at, self.store().now())).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = context.abort.cancelled() => {
                    let cancelled = self.store().resolve(id, Decision::Cancel, Vec::new(), "abort", self.store().now());
                    let cancelled = cancelled.await;
                    // An equal call may wait for the same answer.
                    self.answered.notify_waiters();
                    return cancelled.map(|resolution| Settled::As(resolution.approval.state));
                }
                () = answered => {}
                () = elsewhere.changed() => {}
                () = tokio::time::sleep(LOOK_ANYWAY) => {}
                () = expired => {}
            }
        }
    }

    /// Looks whether a question is settled. A grant that came with the answer to another question settles it.
    async fn settlement(&self, id: &ApprovalId, granting: Option<&Granting>) -> Result<Settlement, StoreError> {
        let store = self.store();
        let mut approval = store.approval(id).await?;
        if approval.state == ApprovalState::Pending && approval.expires_at.is_some_and(|at| at <= store.now()) {
            store.expire_approvals(store.now()).await?;
            approval = store.approval(id).await?;
        }
        if approval.state != ApprovalState::Pending {
            return Ok(Settlement::Settled(Settled::As(approval.state)));
        }
        let Some(granting) = granting else { return Ok(Settlement::Open { expires_at: approval.expires_at }) };
        let Some(permission) = granting.find(store).await? else {
            return Ok(Settlement::Open { expires_at: approval.expires_at });
        };
        // It may have been answered a moment ago, by the very answer that grants this: that one is to be used.
        let resolved = store.resolve(id, Decision::Cancel, Vec::new(), "a grant", store.now()).await?;
        Ok(Settlement::Settled(match resolved.approval.state {
            ApprovalState::Cancelled => Settled::Granted(permission),
            settled => Settled::As(settled),
        }))
    }

    /// Answers a question. `false` if it was settled before.
    pub async fn answer(&self, approval: &ApprovalId, answer: Answer, by: &str) -> Result<bool, StoreError> {
        let applied = answer_question(self.store(), approval, answer, by).await;
        // Also after a failure: the answer may be stored all the same.
        self.answered.notify_waiters();
        applied
    }
}

/// The time until a moment of store time.
fn until(at: Millis, now: Millis) -> Duration {
    Duration::from_millis(u64::try_from(at - now).unwrap_or(0))
}

/// Returns the call that a question is looked for. The input was read before the hooks were asked.
fn asked(of: &Question<'_>, context: &Context, call: Option<(RunId, u32)>) -> Asked {
    Asked {
        session: context.session.clone(),
        user: context.user.clone(),
        call,
        digest: digest(&of.tool, &of.input.as_value().unwrap_or_default(), context).into(),
        fingerprint: of.fingerprint.0.into(),
    }
}

/// The beginning of the ids of tools whose calls mean something else in each workspace.
const IN_WORKSPACE: &str = "openclaw:core:";

/// Returns the workspace that a question and its answer are about, unless it is the usual one.
fn workspace(tool: &str, context: &Context) -> Option<String> {
    let path = context.site.workspace.path().filter(|_| tool.starts_with(IN_WORKSPACE))?;
    Some(path.display().to_string())
}

/// Returns the sender of a channel for whom a call is made. The user's own calls have none.
fn sender(context: &Context) -> Option<&str> {
    context.sender.as_deref().filter(|sender| *sender != context.user)
}

/// Returns the words behind a name that tell where a call is made, and for whom.
fn scope(tool: &str, context: &Context) -> String {
    let workspace = workspace(tool, context).map(|workspace| format!(" in {workspace:?}"));
    let sender = sender(context).map(|sender| format!(" for {sender:?}"));
    workspace.unwrap_or_default() + &sender.unwrap_or_default()
}

/// Returns the digest of a call. The same input is another call in another workspace, and for another sender.
fn digest(tool: &str, input: &Value, context: &Context) -> [u8; 32] {
    call_digest(&(tool.to_owned() + &scope(tool, context)), input)
}

/// Returns the keys that an answer for ever grants. An answer about one workspace or one sender grants nothing to another.
fn keys(standing: &Standing, tool: &str, context: &Context) -> Vec<String> {
    let scope = scope(tool, context);
    standing.keys(tool).into_iter().map(|key| key + &scope).collect()
}

/// How a question stands.
enum Settlement {
    Settled(Settled),
    Open { expires_at: Option<Millis> },
}

/// The grants that could answer a question.
pub(crate) struct Granting {
    pub keys: Vec<String>,
    pub fingerprint: Fingerprint,
    pub user: String,
    pub run: Option<RunId>,
}

impl Granting {
    /// Returns the grant that answers, if there is one: for the tool as a whole if that is what was asked about, for each of the
    /// parts, or for so many calls like this one in this run.
    pub(crate) async fn find(&self, store: &dyn DoorStore) -> Result<Option<Permission>, StoreError> {
        let fingerprint = || self.fingerprint.0.to_vec();
        let found = store.grants_for(self.keys.clone(), fingerprint(), &self.user, None).await?;
        let is_always = |grant: &&Grant| grant.kind == GrantKind::Always;
        let always = self.keys.iter().filter_map(|key| {
            let grant = found.iter().filter(is_always).find(|grant| grant.tool == *key)?;
            Some(grant.id.clone())
        });
        let always: Vec<GrantId> = always.collect();
        // A standing grant first: it costs nothing.
        if !self.keys.is_empty() && always.len() == self.keys.len() {
            return Ok(Some(Permission::Standing(always)));
        }
        let Some(key) = Standing::counted_key(&self.keys) else { return Ok(None) };
        let counted = store.grants_for(vec![key], fingerprint(), &self.user, self.run.as_ref()).await?;
        let counted = counted.into_iter().find(|grant| matches!(grant.kind, GrantKind::Next { .. }));
        Ok(counted.map(|grant| Permission::Counted(grant.id)))
    }
}

/// Settles a question and stores what the answer grants beyond this call; `false` if it was settled before. Any process may,
/// also one without a door.
pub async fn answer_question(
    store: &dyn DoorStore,
    id: &ApprovalId,
    answer: Answer,
    by: &str,
) -> Result<bool, StoreError> {
    let decision = if answer == Answer::Deny { Decision::Deny } else { Decision::Allow };
    let approval = store.approval(id).await?;
    let request = ApprovalRequest::of(&approval);
    let granted: Vec<(String, GrantKind)> = match (answer, approval.run.clone()) {
        (Answer::AllowAlways, _) => {
            let there = store.grants().await?;
            let same = |grant: &Grant| {
                grant.kind == GrantKind::Always
                    && grant.fingerprint == approval.fingerprint
                    && grant.user == approval.user
            };
            let new = |key: &str| !there.iter().any(|grant| grant.tool == key && same(grant));
            request.grants().iter().filter(|key| new(key)).map(|key| (key.clone(), GrantKind::Always)).collect()
        }
        // This call is the first of them.
        (Answer::AllowNext(count), Some(run)) if count > 1 => {
            let key = Standing::counted_key(request.grants());
            key.map(|key| (key, GrantKind::Next { run, remaining: count - 1 })).into_iter().collect()
        }
        _ => Vec::new(),
    };
    let grants = granted.into_iter().map(|(tool, kind)| Grant {
        id: format!("gr_{}", Uuid::now_v7()).into(),
        tool,
        fingerprint: approval.fingerprint.clone(),
        user: approval.user.clone(),
        kind,
        created_at: store.now(),
    });
    // In one step: a call that waits for the answer must find what it grants.
    Ok(store.resolve(id, decision, grants.collect(), by, store.now()).await?.applied)
}
