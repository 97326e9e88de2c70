//! A store without a runtime, one call after the other, with plain texts for ids.

use std::sync::Arc;

use pincer_store::{
    Approval, ApprovalId, Asked, Call, Checkpoint, Claim, Decision, Fence, Grant, Millis, NewApproval, NewCall, NewRun,
    Page, Park, Prune, Remembered, Resolution, Resumption, Room, Run, RunEnd, RunId, RunOverview, RunState, Safety,
    SessionCount, SessionKey, Snapshot, Standing, Store, StoreError, ToolSet,
};

type Done<T> = Result<T, StoreError>;

/// A store whose calls block.
#[derive(Clone, Copy)]
pub struct Blocking<'a>(pub &'a dyn Store);

#[allow(missing_docs, reason = "each method is that of the trait of the same name")]
impl Blocking<'_> {
    pub fn create_run(
        &self,
        run: &NewRun,
        claim: Claim,
        checkpoint: Option<&Checkpoint>,
        safety: Safety,
    ) -> Done<Fence> {
        self.0.create_run(run.clone(), claim, checkpoint.cloned(), safety).wait()
    }

    pub fn run(&self, id: &str) -> Done<Run> {
        self.0.run(&id.into()).wait()
    }

    pub fn run_with_key(&self, user: &str, session: &str, key: &str) -> Done<Option<Run>> {
        self.0.run_with_key(user, &session.into(), key).wait()
    }

    pub fn runs(&self, session: Option<&str>) -> Done<Vec<Run>> {
        self.0.runs(session.map(SessionKey::from).as_ref()).wait()
    }

    pub fn running(&self) -> Done<Vec<Run>> {
        self.0.running().wait()
    }

    pub fn let_wait(&self, id: &str, seen: Fence, expires_at: Millis) -> Done<bool> {
        self.0.let_wait(&id.into(), seen, expires_at).wait()
    }

    pub fn claim_run(&self, id: &str, seen: (RunState, Fence), claim: Claim) -> Done<Fence> {
        self.0.claim_run(&id.into(), seen, claim).wait()
    }

    pub fn set_tools(&self, id: &str, fence: Fence, tools: ToolSet) -> Done<()> {
        self.0.set_tools(&id.into(), fence, tools).wait()
    }

    pub fn finish_run(
        &self,
        id: &str,
        fence: Fence,
        state: RunState,
        result: &str,
        now: Millis,
        safety: Safety,
    ) -> Done<()> {
        self.0.finish_run(&id.into(), fence, RunEnd::new(state, result), now, safety).wait()
    }

    pub fn run_result(&self, id: &str) -> Done<Option<String>> {
        self.0.run_result(&id.into()).wait()
    }

    pub fn park(&self, id: &str, fence: Fence, park: &Park) -> Done<()> {
        self.0.park(&id.into(), fence, park.clone()).wait()
    }

    pub fn reserve(&self, id: &str, fence: Fence, room: &Room, safety: Safety) -> Done<()> {
        self.0.reserve(&id.into(), fence, *room, safety).wait()
    }

    pub fn checkpoint(&self, id: &str, fence: Fence, checkpoint: &Checkpoint, safety: Safety) -> Done<()> {
        self.0.checkpoint(&id.into(), fence, checkpoint.clone(), safety).wait()
    }

    pub fn snapshot(&self, id: &str) -> Done<Option<Snapshot>> {
        self.0.snapshot(&id.into()).wait()
    }

    pub fn resumption(&self, id: &str) -> Done<Resumption> {
        self.0.resumption(&id.into()).wait()
    }

    pub fn keep_image(&self, hash: &[u8; 32], bytes: &[u8]) -> Done<()> {
        self.0.keep_image(*hash, bytes.into()).wait()
    }

    pub fn image(&self, hash: &[u8; 32]) -> Done<Option<Vec<u8>>> {
        self.0.image(*hash).wait()
    }

    pub fn drop_unused_images(&self, current: &[u8; 32]) -> Done<usize> {
        self.0.drop_unused_images(*current).wait()
    }

    pub fn dispatch(&self, id: &str, fence: Fence, owner: &str, call: &NewCall, safety: Safety) -> Done<()> {
        self.0.dispatch(&id.into(), fence, &owner.into(), call.clone(), safety).wait()
    }

    pub fn settle(&self, id: &str, owner: &str, seq: u32, outcome: &str, now: Millis, safety: Safety) -> Done<bool> {
        self.0.settle(&id.into(), &owner.into(), seq, Arc::new(outcome.into()), now, safety).wait()
    }

    pub fn disown_calls(&self, id: &str, owner: &str) -> Done<()> {
        self.0.disown_calls(&id.into(), &owner.into()).wait()
    }

    pub fn calls(&self, id: &str) -> Done<Vec<Call>> {
        self.0.calls(&id.into()).wait()
    }

    pub fn call(&self, id: &str, seq: u32) -> Done<Option<Call>> {
        self.0.call(&id.into(), seq).wait()
    }

    pub fn prune_calls(&self, id: &str, fence: Fence, prune: &Prune) -> Done<u64> {
        self.0.prune_calls(&id.into(), fence, prune.clone()).wait()
    }

    pub fn ask(&self, approval: &NewApproval) -> Done<()> {
        self.0.ask(approval.clone()).wait()
    }

    pub fn approval(&self, id: &str) -> Done<Approval> {
        self.0.approval(&id.into()).wait()
    }

    pub fn pending_approvals(&self) -> Done<Vec<Approval>> {
        self.0.pending_approvals().wait()
    }

    pub fn resolve(&self, id: &str, decision: Decision, grants: &[Grant], by: &str, now: Millis) -> Done<Resolution> {
        self.0.resolve(&id.into(), decision, grants.to_vec(), by, now).wait()
    }

    pub fn standing_question(&self, asked: &Asked, now: Millis) -> Done<Option<Approval>> {
        self.0.standing_question(asked.clone(), now).wait()
    }

    pub fn use_answer(&self, id: &str) -> Done<bool> {
        self.0.use_answer(&id.into()).wait()
    }

    pub fn expire_approvals(&self, now: Millis) -> Done<Vec<ApprovalId>> {
        self.0.expire_approvals(now).wait()
    }

    pub fn grant(&self, grant: &Grant) -> Done<()> {
        self.0.grant(grant.clone()).wait()
    }

    pub fn grants(&self) -> Done<Vec<Grant>> {
        self.0.grants().wait()
    }

    pub fn revoke(&self, id: &str) -> Done<bool> {
        self.0.revoke(&id.into()).wait()
    }

    pub fn grants_for(&self, tool: &str, fingerprint: &[u8], user: &str, run: Option<&str>) -> Done<Vec<Grant>> {
        self.0.grants_for(vec![tool.into()], fingerprint.into(), user, run.map(RunId::from).as_ref()).wait()
    }

    pub fn reserve_key(&self, scope: &str, key: &str, digest: &[u8], now: Millis) -> Done<Remembered> {
        self.0.reserve_key(scope, key, digest, now).wait()
    }

    pub fn answer_key(&self, scope: &str, key: &str, answer: &str) -> Done<()> {
        self.0.answer_key(scope, key, answer).wait()
    }

    pub fn forget_keys(&self, before: Millis) -> Done<usize> {
        self.0.forget_keys(before).wait()
    }

    pub fn run_overviews(&self, page: &Page) -> Done<Vec<RunOverview>> {
        self.0.run_overviews(page.clone()).wait()
    }

    pub fn run_overview(&self, id: &str) -> Done<RunOverview> {
        self.0.run_overview(&id.into()).wait()
    }

    pub fn runs_named(&self, beginning: &str) -> Done<Vec<RunId>> {
        self.0.runs_named(beginning).wait()
    }

    pub fn run_counts(&self, session: &str, user: Option<&str>) -> Done<Vec<(RunState, u32)>> {
        self.0.run_counts(&session.into(), user).wait()
    }

    pub fn sessions(&self, user: Option<&str>) -> Done<Vec<SessionCount>> {
        self.0.sessions(user).wait()
    }

    pub fn standings(&self, ids: &[&str]) -> Done<Vec<Standing>> {
        self.0.standings(ids.iter().map(|id| RunId::from(*id)).collect()).wait()
    }

    pub fn expire_runs(&self, now: Millis) -> Done<Vec<RunId>> {
        self.0.expire_runs(now).wait()
    }

    pub fn forget_runs(&self, ended_before: Millis) -> Done<usize> {
        self.0.forget_runs(ended_before).wait()
    }

    pub fn next_due(&self, remembered: Millis) -> Done<Option<Millis>> {
        self.0.next_due(remembered).wait()
    }

    pub fn give_space_back(&self) -> Done<bool> {
        self.0.give_space_back().wait()
    }

    pub fn abort_run(&self, id: &str, now: Millis) -> Done<bool> {
        self.0.abort_run(&id.into(), now).wait().map(|(aborted, _)| aborted)
    }

    pub fn now(&self) -> Millis {
        self.0.now()
    }
}
