//! Asking a person before a call is made, and waiting for the answer.

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::Entry;
use pincer_store::{Approval, ApprovalState, Decision, GrantKind, Millis, NewApproval, NewGrant, StoreError, now};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::approvals::call_digest;
use crate::door::{Door, DoorStore, Failed};
use crate::hooks::{ApprovalDemand, Standing};
use crate::telling::Teller;
use crate::{Answer, Call, Context, ErrorCode, EventKind, UpdateSink};

/// How often a question is looked up that another process may have answered.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What a person is asked.
pub(crate) struct Question<'a> {
    tool: String,
    input: &'a Value,
    call: &'a Call,
    demand: &'a ApprovalDemand,
    standing: &'a Standing,
}

impl<'a> Question<'a> {
    pub fn new(
        entry: &Entry,
        input: &'a Value,
        call: &'a Call,
        demand: &'a ApprovalDemand,
        standing: &'a Standing,
    ) -> Self {
        Self { tool: entry.id.to_string(), input, call, demand, standing }
    }
}

impl Door {
    /// Asks a person, unless a grant answers for them, and waits.
    pub(crate) async fn approve(
        &self,
        question: &Question<'_>,
        context: &Context,
        teller: &Teller<'_>,
        updates: &dyn UpdateSink,
    ) -> Result<(), Failed> {
        let store_failed =
            |error: StoreError| Failed::before(ErrorCode::Store, format!("nobody could be asked: {error}"));
        let tool = question.tool.clone();
        let run = context.run.as_ref().map(|run| run.id.clone());
        let (granted_tool, standing) = (tool.clone(), question.standing.clone());
        let is_granted =
            Arc::new(move |store: &dyn DoorStore| is_granted(store, &granted_tool, run.as_deref(), &standing));
        let granted = Arc::clone(&is_granted);
        if self.stored(move |store| granted(store)).await.map_err(store_failed)? {
            return Ok(());
        }
        loop {
            let id = self.question(question, context, teller).await.map_err(store_failed)?;
            updates.asked(&id);
            let answered = self.answer_to(&id, context, Arc::clone(&is_granted)).await.map_err(store_failed)?;
            let Some(state) = answered else {
                teller.tell(EventKind::ApprovalResolved { approval: id, state: ApprovalState::Allowed.as_str() });
                return Ok(());
            };
            teller.tell(EventKind::ApprovalResolved { approval: id.clone(), state: state.as_str() });
            let refused = match state {
                ApprovalState::Allowed | ApprovalState::Denied => {
                    // Another call of the same kind may have waited for the same answer: it is for one of them.
                    if !self.stored(move |store| store.use_answer(&id)).await.map_err(store_failed)? {
                        continue;
                    }
                    if state == ApprovalState::Allowed {
                        return Ok(());
                    }
                    (ErrorCode::Denied, format!("the call of {tool} was denied"))
                }
                ApprovalState::Expired => {
                    self.stored(move |store| store.use_answer(&id)).await.map_err(store_failed)?;
                    let message = format!("nobody answered in time whether {tool} may be called");
                    (ErrorCode::ApprovalExpired, message)
                }
                // Somebody else who waited for the same answer has gone.
                ApprovalState::Cancelled if !context.abort.is_cancelled() => continue,
                ApprovalState::Pending | ApprovalState::Cancelled => {
                    (ErrorCode::Aborted, "the call was aborted while it waited for an approval".into())
                }
            };
            return Err(Failed::before(refused.0, refused.1));
        }
    }

    /// The question about this very call: one that stands already, perhaps with its answer, or a new one.
    async fn question(&self, of: &Question<'_>, context: &Context, teller: &Teller<'_>) -> Result<String, StoreError> {
        let digest = call_digest(&of.tool, of.input);
        let _asking = self.asking.lock().await;
        let run = context.run.as_ref().map(|run| run.id.clone());
        let (session, asked_run) = (context.session.clone(), run.clone());
        let standing =
            self.stored(move |store| store.standing_question(&session, asked_run.as_deref(), &digest, now()));
        if let Some(standing) = standing.await? {
            teller.tell(EventKind::ApprovalRequested { approval: standing.id.clone() });
            return Ok(standing.id);
        }
        let id = format!("ap_{}", Uuid::now_v7());
        let created_at = now();
        let expires_at = self.parts.approval_lifetime.map(|lifetime| created_at + lifetime.as_millis() as Millis);
        // Whoever decides must see what will be done: nothing is left out of the input here.
        let request = json!({
            "call": of.call.id, "tool": of.tool, "input": of.input, "line": of.call.line, "demand": of.demand,
            "grants": of.standing.keys(&of.tool),
        });
        let (asked_id, session, request) = (id.clone(), context.session.clone(), request.to_string());
        let tool = of.tool.clone();
        let asked = self.stored(move |store| {
            let (id, run, digest) = (asked_id.as_str(), run.as_deref(), digest.as_slice());
            let (session, tool, request) = (session.as_str(), tool.as_str(), request.as_str());
            store.ask(&NewApproval { id, run, session, tool, digest, request, created_at, expires_at })
        });
        asked.await?;
        teller.tell(EventKind::ApprovalRequested { approval: id.clone() });
        Ok(id)
    }

    /// Waits until a question is settled, here or in another process; an abort settles it too. `None` if it need not be answered
    /// any more, because an answer to another one grants this call too.
    async fn answer_to(
        &self,
        id: &str,
        context: &Context,
        is_granted: Arc<impl Fn(&dyn DoorStore) -> Result<bool, StoreError> + Send + Sync + 'static>,
    ) -> Result<Option<ApprovalState>, StoreError> {
        loop {
            // Registered before looking, so that an answer in between is not missed.
            let answered = self.answered.notified();
            let (asked, granted) = (id.to_owned(), Arc::clone(&is_granted));
            let state = self
                .stored(move |store| {
                    store.expire_approvals(now())?;
                    let state = store.approval(&asked)?.state;
                    if state == ApprovalState::Pending && granted(store)? {
                        // It may have been answered a moment ago, by the very answer that grants this: that one is to be used.
                        let settled = store.resolve(&asked, Decision::Cancel, &[], "a grant", now())?.approval.state;
                        return Ok((settled != ApprovalState::Cancelled).then_some(settled));
                    }
                    Ok(Some(state))
                })
                .await?;
            if state != Some(ApprovalState::Pending) {
                return Ok(state);
            }
            tokio::select! {
                biased;
                () = context.abort.cancelled() => {
                    let asked = id.to_owned();
                    let cancelled = self.stored(move |store| store.resolve(&asked, Decision::Cancel, &[], "abort", now()));
                    return cancelled.await.map(|resolution| Some(resolution.approval.state));
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
            let new = |key: &String| !there.iter().any(|grant| grant.tool == *key && grant.kind == GrantKind::Always);
            granted_always(&approval).into_iter().filter(new).map(|key| (key, GrantKind::Always)).collect()
        }
        // This call is the first of them.
        (Answer::AllowNext(count), Some(run)) if count > 1 => {
            vec![(approval.tool.clone(), GrantKind::Next { run, remaining: count - 1 })]
        }
        _ => Vec::new(),
    };
    let ids: Vec<String> = granted.iter().map(|_| format!("gr_{}", Uuid::now_v7())).collect();
    let grants: Vec<NewGrant<'_>> = granted
        .iter()
        .zip(&ids)
        .map(|((tool, kind), id)| NewGrant { id, tool, kind: kind.clone(), created_at: now() })
        .collect();
    // In one step: whoever waits for the answer must find what it grants.
    Ok(store.resolve(id, decision, &grants, by, now())?.applied)
}

/// What an answer for ever to this question grants. Nothing, if it is a question that is asked every time.
pub fn granted_always(approval: &Approval) -> Vec<String> {
    let request: Value = serde_json::from_str(&approval.request).unwrap_or_default();
    match request["grants"].as_array() {
        Some(keys) => keys.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        None => vec![approval.tool.clone()],
    }
}

/// Whether a grant answers: one for so many calls of this run, one for the tool as a whole if that is what was asked about, or
/// one for each of the parts.
fn is_granted(store: &dyn DoorStore, tool: &str, run: Option<&str>, standing: &Standing) -> Result<bool, StoreError> {
    let keys = match standing {
        Standing::Tool => return Ok(store.use_grant(tool, run)?.is_some()),
        Standing::Never => Vec::new(),
        Standing::Parts(_) => standing.keys(tool),
    };
    let standing_grants = store.grants()?;
    let always =
        |key: &String| standing_grants.iter().any(|grant| grant.tool == *key && grant.kind == GrantKind::Always);
    if !keys.is_empty() && keys.iter().all(always) {
        return Ok(true);
    }
    Ok(store.use_counted_grant(tool, run)?.is_some())
}
