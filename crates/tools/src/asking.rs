//! Asking a person before a call is made, and waiting for the answer.

use std::sync::Arc;
use std::time::Duration;

use pincer_json::Payload;
use pincer_store::{
    Approval, ApprovalState, Asked, Decision, Grant, GrantKind, Millis, NewApproval, NewGrant, StoreError,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::approvals::call_digest;
use crate::door::{Door, DoorStore, Failed};
use crate::hooks::{ApprovalDemand, Standing};
use crate::journal::Allowed;
use crate::telling::Teller;
use crate::{Answer, Call, Context, ErrorCode, EventKind, Fingerprint, UpdateSink};

/// How often a question is looked up that another process may have answered.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What a person is asked.
pub(crate) struct Question<'a> {
    pub tool: String,
    pub fingerprint: Fingerprint,
    pub input: &'a Payload,
    pub call: &'a Call,
    pub demand: &'a ApprovalDemand,
    pub standing: &'a Standing,
}

/// How a question was settled.
pub(crate) enum Settled {
    /// By its answer, its time, or because it was withdrawn.
    As(ApprovalState),
    /// By a grant that came with the answer to another one.
    Granted(Allowed),
}

impl Door {
    /// Asks a person, unless a grant answers for them, and waits. Returns what allows the call.
    pub(crate) async fn approve(
        &self,
        question: &Question<'_>,
        context: &Context,
        teller: &Teller<'_>,
        updates: &dyn UpdateSink,
    ) -> Result<Allowed, Failed> {
        let store_failed =
            |error: StoreError| Failed::before(ErrorCode::Store, format!("no person could be asked: {error}"));
        let tool = question.tool.clone();
        let run = context.run.as_ref().map(|run| run.id().to_owned());
        let is_bound = run.is_some();
        let (asked_tool, fingerprint, standing) = (tool.clone(), question.fingerprint, question.standing.clone());
        let user = context.user.clone();
        let grant = Arc::new(move |store: &dyn DoorStore| {
            let keys = standing.keys(&asked_tool);
            grant_for(store, &keys, fingerprint, &user, run.as_deref())
        });
        let look = Arc::clone(&grant);
        if let Some(allowed) = self.stored(move |store| look(store)).await.map_err(store_failed)?
            && (matches!(allowed, Allowed::Standing(_))
                || !self.is_answered(question, context).await.map_err(store_failed)?)
        {
            return Ok(allowed);
        }
        self.stored_up_to(question.call.seq, context, updates).await?;
        loop {
            let id = self.question(question, context, teller).await.map_err(store_failed)?;
            updates.asked(&id);
            let state = match self.answer_to(&id, context, Arc::clone(&grant)).await.map_err(store_failed)? {
                Settled::As(state) => state,
                Settled::Granted(allowed) => {
                    teller.tell(EventKind::ApprovalResolved { approval: id, state: ApprovalState::Allowed.as_str() });
                    return Ok(allowed);
                }
            };
            teller.tell(EventKind::ApprovalResolved { approval: id.clone(), state: state.as_str() });
            if !is_bound && matches!(state, ApprovalState::Allowed | ApprovalState::Denied) {
                // Another call of the same kind may have waited for the same answer: it is for one of them.
                let asked = id.clone();
                if !self.stored(move |store| store.use_answer(&asked)).await.map_err(store_failed)? {
                    continue;
                }
            }
            let refused = match state {
                ApprovalState::Allowed if is_bound => return Ok(Allowed::Answer(id)),
                ApprovalState::Allowed => return Ok(Allowed::Free),
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
    async fn stored_up_to(&self, seq: u32, context: &Context, updates: &dyn UpdateSink) -> Result<(), Failed> {
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
        let Some(run) = context.run.as_ref().map(|run| run.id().to_owned()) else { return Ok(false) };
        let digest = call_digest(&of.tool, &of.input.as_value().unwrap_or_default());
        let (session, user) = (context.session.clone(), context.user.clone());
        let (seq, fingerprint) = (of.call.seq, of.fingerprint.0);
        let standing = self.stored(move |store| {
            let call = Some((run.as_str(), seq));
            store.standing_question(
                &Asked { session: &session, user: &user, call, digest: &digest, fingerprint: &fingerprint },
                store.now(),
            )
        });
        Ok(standing.await?.is_some_and(|question| question.state != ApprovalState::Pending))
    }

    /// Returns the question about this very call: one that stands already, perhaps with its answer, or a new one.
    async fn question(&self, of: &Question<'_>, context: &Context, teller: &Teller<'_>) -> Result<String, StoreError> {
        // It was read before the hooks were asked.
        let digest = call_digest(&of.tool, &of.input.as_value().unwrap_or_default());
        let fingerprint = of.fingerprint.0;
        let _asking = self.asking.lock().await;
        let call = context.run.as_ref().map(|run| (run.id().to_owned(), of.call.seq));
        let (session, user, asked_call) = (context.session.clone(), context.user.clone(), call.clone());
        let standing = self.stored(move |store| {
            let call = asked_call.as_ref().map(|(run, seq)| (run.as_str(), *seq));
            let asked = Asked { session: &session, user: &user, call, digest: &digest, fingerprint: &fingerprint };
            store.standing_question(&asked, store.now())
        });
        if let Some(standing) = standing.await? {
            teller.tell(EventKind::ApprovalRequested { approval: standing.id.clone() });
            return Ok(standing.id);
        }
        let id = self.ask(of, context, call.as_ref().map(|(run, seq)| (run.as_str(), Some(*seq)))).await?;
        teller.tell(EventKind::ApprovalRequested { approval: id.clone() });
        Ok(id)
    }

    /// Stores a new question: about a call of a run, about a run as a whole, or about a call of none.
    pub(crate) async fn ask(
        &self,
        of: &Question<'_>,
        context: &Context,
        call: Option<(&str, Option<u32>)>,
    ) -> Result<String, StoreError> {
        // A person who decides must see what will be done: nothing is left out of the input here.
        let (digest, request) = {
            // It was read before the hooks were asked.
            let input = of.input.as_value().unwrap_or_default();
            let request = json!({
                "call": of.call.id, "tool": of.tool, "input": input, "line": of.call.line, "demand": of.demand,
                "grants": of.standing.keys(&of.tool),
            });
            (call_digest(&of.tool, &input), request.to_string())
        };
        let id = format!("ap_{}", Uuid::now_v7());
        let (lifetime, fingerprint) = (self.parts.approval_lifetime, of.fingerprint.0);
        let (asked_id, session, user) = (id.clone(), context.session.clone(), context.user.clone());
        let (tool, run, seq) = (of.tool.clone(), call.map(|(run, _)| run.to_owned()), call.and_then(|(_, seq)| seq));
        let asked = self.stored(move |store| {
            let created_at = store.now();
            store.ask(&NewApproval {
                id: &asked_id,
                run: run.as_deref(),
                session: &session,
                user: Some(&user),
                tool: &tool,
                seq,
                digest: &digest,
                fingerprint: Some(&fingerprint),
                request: &request,
                created_at,
                expires_at: lifetime.map(|lifetime| created_at + lifetime.as_millis() as Millis),
            })
        });
        asked.await?;
        Ok(id)
    }

    /// Waits until a question is settled, here or in another process; an abort settles it too.
    pub(crate) async fn answer_to(
        &self,
        id: &str,
        context: &Context,
        grant: Arc<impl Fn(&dyn DoorStore) -> Result<Option<Allowed>, StoreError> + Send + Sync + 'static>,
    ) -> Result<Settled, StoreError> {
        loop {
            // Registered before looking, so that an answer in between is not missed.
            let answered = self.answered.notified();
            let (asked, granted) = (id.to_owned(), Arc::clone(&grant));
            let settled = self
                .stored(move |store| {
                    store.expire_approvals(store.now())?;
                    let state = store.approval(&asked)?.state;
                    if state == ApprovalState::Pending
                        && let Some(allowed) = granted(store)?
                    {
                        // It may have been answered a moment ago, by the very answer that grants this: that one is to be used.
                        let resolved = store.resolve(&asked, Decision::Cancel, &[], "a grant", store.now())?;
                        return Ok(match resolved.approval.state {
                            ApprovalState::Cancelled => Settled::Granted(allowed),
                            settled => Settled::As(settled),
                        });
                    }
                    Ok(Settled::As(state))
                })
                .await?;
            if !matches!(settled, Settled::As(ApprovalState::Pending)) {
                return Ok(settled);
            }
            tokio::select! {
                biased;
                () = context.abort.cancelled() => {
                    let asked = id.to_owned();
                    let cancelled =
                        self.stored(move |store| store.resolve(&asked, Decision::Cancel, &[], "abort", store.now()));
                    return cancelled.await.map(|resolution| Settled::As(resolution.approval.state));
                }
                () = answered => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// Answers a question. `false` if it was settled before.
    pub async fn answer(&self, approval: &str, answer: Answer, by: &str) -> Result<bool, StoreError> {
        let (id, by) = (approval.to_owned(), by.to_owned());
        let applied = self.stored(move |store| answer_question(store, &id, answer, &by)).await?;
        self.answered.notify_waiters();
        Ok(applied)
    }
}

/// Settles a question and stores what the answer grants beyond this call; `false` if it was settled before. Any process may,
/// also one without a door.
pub fn answer_question(store: &dyn DoorStore, id: &str, answer: Answer, by: &str) -> Result<bool, StoreError> {
    let decision = if answer == Answer::Deny { Decision::Deny } else { Decision::Allow };
    let approval = store.approval(id)?;
    let granted: Vec<(String, GrantKind)> = match (answer, approval.run.clone()) {
        (Answer::AllowAlways, _) => {
            let there = store.grants()?;
            let same = |grant: &Grant| {
                grant.kind == GrantKind::Always
                    && grant.fingerprint == approval.fingerprint
                    && grant.user == approval.user
            };
            let new = |key: &String| !there.iter().any(|grant| grant.tool == *key && same(grant));
            granted_always(&approval).into_iter().filter(new).map(|key| (key, GrantKind::Always)).collect()
        }
        // This call is the first of them.
        (Answer::AllowNext(count), Some(run)) if count > 1 => {
            let key = Standing::counted_key(&granted_always(&approval));
            key.map(|key| (key, GrantKind::Next { run, remaining: count - 1 })).into_iter().collect()
        }
        _ => Vec::new(),
    };
    let ids: Vec<String> = granted.iter().map(|_| format!("gr_{}", Uuid::now_v7())).collect();
    let grants: Vec<NewGrant<'_>> = granted
        .iter()
        .zip(&ids)
        .map(|((tool, kind), id)| {
            let (kind, fingerprint) = (kind.clone(), approval.fingerprint.as_deref());
            NewGrant { id, tool, fingerprint, user: approval.user.as_deref(), kind, created_at: store.now() }
        })
        .collect();
    // In one step: whoever waits for the answer must find what it grants.
    Ok(store.resolve(id, decision, &grants, by, store.now())?.applied)
}

/// Returns what an answer for ever to this question grants. Nothing, if it is a question that is asked every time.
pub fn granted_always(approval: &Approval) -> Vec<String> {
    let request: Value = serde_json::from_str(&approval.request).unwrap_or_default();
    match request["grants"].as_array() {
        Some(keys) => keys.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None => vec![approval.tool.clone()],
    }
}

/// Returns the grant that answers, if there is one: for the tool as a whole if that is what was asked about, for each of the
/// parts, or for so many calls like this one in this run.
pub(crate) fn grant_for(
    store: &dyn DoorStore,
    keys: &[String],
    fingerprint: Fingerprint,
    user: &str,
    run: Option<&str>,
) -> Result<Option<Allowed>, StoreError> {
    let mut always = Vec::new();
    for key in keys {
        let found = store.grants_for(key, &fingerprint.0, user, None)?;
        always.extend(found.into_iter().find(|grant| grant.kind == GrantKind::Always).map(|grant| grant.id));
    }
    // A standing grant first: it costs nothing.
    if !keys.is_empty() && always.len() == keys.len() {
        return Ok(Some(Allowed::Standing(always)));
    }
    let Some(key) = Standing::counted_key(keys) else { return Ok(None) };
    let counted = store.grants_for(&key, &fingerprint.0, user, run)?;
    let counted = counted.into_iter().find(|grant| matches!(grant.kind, GrantKind::Next { .. }));
    Ok(counted.map(|grant| Allowed::Counted(grant.id)))
}
