//! All that a store does, each call with its class.

use std::sync::Arc;
use std::time::Duration;

use pincer_store::{
    AgentRunId, Approval, ApprovalId, Approvals, Asked, Call, ChangeWatch, Changes, Checkpoint, Claim, ClientCall,
    ClientCalls, Clock, Decision, Fence, Grant, GrantId, Grants, Journal, Listings, Millis, NewApproval, NewCall,
    NewRun, OwnerId, Page, Park, Permission, Prune, RecordedRuns, Recordings, Reply, Resolution, Resumption, Room, Run,
    RunEnd, RunId, RunOverview, RunState, Runs, Safety, SessionCount, SessionKey, Snapshot, Snapshots, Standing,
    StoredRecording, ToolSet, Upkeep,
};

use super::FaultyStore;

/// For commits without a proof.
fn none<T>(_: &T) -> Option<i64> {
    None
}

/// For commits that are made with this proof.
fn with<T>(fence: Fence) -> impl FnOnce(&T) -> Option<i64> + Send {
    move |_| Some(fence.0)
}

/// For commits that give a proof.
fn given(fence: &Fence) -> Option<i64> {
    Some(fence.0)
}

impl<S: Runs + Send + Sync + 'static> Runs for FaultyStore<S> {
    fn create_run(&self, run: NewRun, claim: Claim, checkpoint: Option<Checkpoint>, safety: Safety) -> Reply<Fence> {
        self.commit(("create_run", Some(run.id.clone()), safety), given, move |store| {
            store.create_run(run, claim, checkpoint, safety)
        })
    }

    fn run(&self, id: &RunId) -> Reply<Run> {
        let id = id.clone();
        self.read("run", move |store| store.run(&id))
    }

    fn run_with_key(&self, user: &str, session: &SessionKey, key: &str) -> Reply<Option<Run>> {
        let (user, session, key) = (user.to_owned(), session.clone(), key.to_owned());
        self.read("run_with_key", move |store| store.run_with_key(&user, &session, &key))
    }

    fn runs(&self, session: Option<&SessionKey>) -> Reply<Vec<Run>> {
        let session = session.cloned();
        self.read("runs", move |store| store.runs(session.as_ref()))
    }

    fn runs_of_agent(&self, agent_run: &AgentRunId) -> Reply<Vec<RunId>> {
        let agent_run = agent_run.clone();
        self.read("runs_of_agent", move |store| store.runs_of_agent(&agent_run))
    }

    fn running(&self) -> Reply<Vec<Run>> {
        self.keep_house("running", |store| store.running())
    }

    fn let_wait(&self, id: &RunId, seen: Fence, expires_at: Millis) -> Reply<bool> {
        let id = id.clone();
        self.commit(("let_wait", Some(id.clone()), Safety::Power), none, move |store| {
            store.let_wait(&id, seen, expires_at)
        })
    }

    fn claim_run(&self, id: &RunId, seen: (RunState, Fence), claim: Claim) -> Reply<Fence> {
        let id = id.clone();
        self.commit(("claim_run", Some(id.clone()), Safety::Process), given, move |store| {
            store.claim_run(&id, seen, claim)
        })
    }

    fn set_tools(&self, id: &RunId, fence: Fence, tools: ToolSet) -> Reply<()> {
        let id = id.clone();
        self.commit(("set_tools", Some(id.clone()), Safety::Process), with(fence), move |store| {
            store.set_tools(&id, fence, tools)
        })
    }

    fn finish_run(&self, id: &RunId, fence: Fence, end: RunEnd, now: Millis, safety: Safety) -> Reply<()> {
        let id = id.clone();
        // An orphan is ended with the proof that its settler saw, which is not its own: the observer is not told of it.
        let is_orphan = end.state == RunState::Aborted;
        let fence_of = move |_: &()| (!is_orphan).then_some(fence.0);
        self.commit(("finish_run", Some(id.clone()), safety), fence_of, move |store| {
            store.finish_run(&id, fence, end, now, safety)
        })
    }

    fn run_result(&self, id: &RunId) -> Reply<Option<String>> {
        let id = id.clone();
        self.read("run_result", move |store| store.run_result(&id))
    }

    fn abort_run(&self, id: &RunId, now: Millis) -> Reply<(bool, RunState)> {
        let id = id.clone();
        self.commit(("abort_run", Some(id.clone()), Safety::Power), none, move |store| store.abort_run(&id, now))
    }
}

impl<S: Listings + Send + Sync + 'static> Listings for FaultyStore<S> {
    fn run_overviews(&self, page: Page) -> Reply<Vec<RunOverview>> {
        self.read("run_overviews", move |store| store.run_overviews(page))
    }

    fn run_overview(&self, id: &RunId) -> Reply<RunOverview> {
        let id = id.clone();
        self.read("run_overview", move |store| store.run_overview(&id))
    }

    fn runs_named(&self, beginning: &str) -> Reply<Vec<RunId>> {
        let beginning = beginning.to_owned();
        self.read("runs_named", move |store| store.runs_named(&beginning))
    }

    fn run_counts(&self, session: &SessionKey, user: Option<&str>) -> Reply<Vec<(RunState, u32)>> {
        let (session, user) = (session.clone(), user.map(str::to_owned));
        self.read("run_counts", move |store| store.run_counts(&session, user.as_deref()))
    }

    fn sessions(&self, user: Option<&str>) -> Reply<Vec<SessionCount>> {
        let user = user.map(str::to_owned);
        self.read("sessions", move |store| store.sessions(user.as_deref()))
    }

    fn standings(&self, ids: Vec<RunId>) -> Reply<Vec<Standing>> {
        self.keep_house("standings", move |store| store.standings(ids))
    }
}

impl<S: Upkeep + Send + Sync + 'static> Upkeep for FaultyStore<S> {
    fn expire_runs(&self, now: Millis) -> Reply<Vec<RunId>> {
        self.keep_house("expire_runs", move |store| store.expire_runs(now))
    }

    fn forget_runs(&self, ended_before: Millis) -> Reply<usize> {
        self.keep_house("forget_runs", move |store| store.forget_runs(ended_before))
    }

    fn next_due(&self, remembered: Millis) -> Reply<Option<Millis>> {
        self.keep_house("next_due", move |store| store.next_due(remembered))
    }

    fn give_space_back(&self) -> Reply<bool> {
        self.keep_house("give_space_back", |store| store.give_space_back())
    }
}

impl<S: Recordings + Send + Sync + 'static> Recordings for FaultyStore<S> {
    fn recording(&self, run: &RunId) -> Reply<StoredRecording> {
        let run = run.clone();
        self.read("recording", move |store| store.recording(&run))
    }

    fn recorded_runs(&self, of: RecordedRuns) -> Reply<Vec<RunId>> {
        self.read("recorded_runs", move |store| store.recorded_runs(of))
    }
}

impl<S: Snapshots + Send + Sync + 'static> Snapshots for FaultyStore<S> {
    fn park(&self, run: &RunId, fence: Fence, park: Park) -> Reply<()> {
        let run = run.clone();
        self.commit(("park", Some(run.clone()), Safety::Power), with(fence), move |store| store.park(&run, fence, park))
    }

    fn reserve(&self, run: &RunId, fence: Fence, room: Room, safety: Safety) -> Reply<()> {
        let run = run.clone();
        self.commit(("reserve", Some(run.clone()), safety), with(fence), move |store| {
            store.reserve(&run, fence, room, safety)
        })
    }

    fn checkpoint(&self, run: &RunId, fence: Fence, checkpoint: Checkpoint, safety: Safety) -> Reply<()> {
        let run = run.clone();
        self.commit(("checkpoint", Some(run.clone()), safety), with(fence), move |store| {
            store.checkpoint(&run, fence, checkpoint, safety)
        })
    }

    fn snapshot(&self, run: &RunId) -> Reply<Option<Snapshot>> {
        let run = run.clone();
        self.read("snapshot", move |store| store.snapshot(&run))
    }

    fn resumption(&self, run: &RunId) -> Reply<Resumption> {
        let run = run.clone();
        self.read("resumption", move |store| store.resumption(&run))
    }

    fn keep_image(&self, hash: [u8; 32], bytes: Vec<u8>) -> Reply<()> {
        self.keep_house("keep_image", move |store| store.keep_image(hash, bytes))
    }

    fn image(&self, hash: [u8; 32]) -> Reply<Option<Vec<u8>>> {
        self.read("image", move |store| store.image(hash))
    }

    fn drop_unused_images(&self, current: [u8; 32]) -> Reply<usize> {
        self.keep_house("drop_unused_images", move |store| store.drop_unused_images(current))
    }
}

impl<S: Journal + Send + Sync + 'static> Journal for FaultyStore<S> {
    fn dispatch(&self, run: &RunId, fence: Fence, owner: &OwnerId, call: NewCall, safety: Safety) -> Reply<()> {
        let (run, owner) = (run.clone(), owner.clone());
        self.commit(("dispatch", Some(run.clone()), safety), with(fence), move |store| {
            store.dispatch(&run, fence, &owner, call, safety)
        })
    }

    fn settle(
        &self,
        run: &RunId,
        owner: &OwnerId,
        seq: u32,
        outcome: Arc<String>,
        now: Millis,
        safety: Safety,
    ) -> Reply<bool> {
        let (run, owner) = (run.clone(), owner.clone());
        self.commit(("settle", Some(run.clone()), safety), none, move |store| {
            store.settle(&run, &owner, seq, outcome, now, safety)
        })
    }

    fn disown_calls(&self, run: &RunId, owner: &OwnerId) -> Reply<()> {
        let (run, owner) = (run.clone(), owner.clone());
        self.commit(("disown_calls", Some(run.clone()), Safety::Process), none, move |store| {
            store.disown_calls(&run, &owner)
        })
    }

    fn calls(&self, run: &RunId) -> Reply<Vec<Call>> {
        let run = run.clone();
        self.read("calls", move |store| store.calls(&run))
    }

    fn call(&self, run: &RunId, seq: u32) -> Reply<Option<Call>> {
        let run = run.clone();
        self.read("call", move |store| store.call(&run, seq))
    }

    fn prune_calls(&self, run: &RunId, fence: Fence, prune: Prune) -> Reply<u64> {
        let run = run.clone();
        self.commit(("prune_calls", Some(run.clone()), Safety::Process), with(fence), move |store| {
            store.prune_calls(&run, fence, prune)
        })
    }
}

impl<S: Approvals + Send + Sync + 'static> Approvals for FaultyStore<S> {
    fn ask(&self, approval: NewApproval) -> Reply<()> {
        self.commit(("ask", approval.run.clone(), Safety::Power), none, move |store| store.ask(approval))
    }

    fn approval(&self, id: &ApprovalId) -> Reply<Approval> {
        let id = id.clone();
        self.read("approval", move |store| store.approval(&id))
    }

    fn pending_approvals(&self) -> Reply<Vec<Approval>> {
        self.read("pending_approvals", |store| store.pending_approvals())
    }

    fn resolve(
        &self,
        id: &ApprovalId,
        decision: Decision,
        grants: Vec<Grant>,
        by: &str,
        now: Millis,
    ) -> Reply<Resolution> {
        let (id, by) = (id.clone(), by.to_owned());
        self.commit(("resolve", None, Safety::Power), none, move |store| store.resolve(&id, decision, grants, &by, now))
    }

    fn standing_question(&self, asked: Asked, now: Millis) -> Reply<Option<Approval>> {
        let run = asked.call.as_ref().map(|(run, _)| run.clone());
        // It is a commit only if the time of a question is over: nothing else is on the disk afterwards.
        self.commit(("standing_question", run, Safety::Process), none, move |store| store.standing_question(asked, now))
    }

    fn use_answer(&self, id: &ApprovalId) -> Reply<bool> {
        let id = id.clone();
        self.commit(("use_answer", None, Safety::Process), none, move |store| store.use_answer(&id))
    }

    fn questions_of(&self, run: &RunId) -> Reply<Vec<Approval>> {
        let run = run.clone();
        self.read("questions_of", move |store| store.questions_of(&run))
    }

    fn spend(&self, run: &RunId, seq: u32, permission: Permission) -> Reply<bool> {
        let run = run.clone();
        self.commit(("spend", Some(run.clone()), Safety::Power), none, move |store| store.spend(&run, seq, permission))
    }

    fn expire_approvals(&self, now: Millis) -> Reply<Vec<ApprovalId>> {
        // A call that waits for an answer looks again and again.
        self.keep_house("expire_approvals", move |store| store.expire_approvals(now))
    }
}

impl<S: Grants + Send + Sync + 'static> Grants for FaultyStore<S> {
    fn grant(&self, grant: Grant) -> Reply<()> {
        self.commit(("grant", None, Safety::Power), none, move |store| store.grant(grant))
    }

    fn grants(&self) -> Reply<Vec<Grant>> {
        self.read("grants", |store| store.grants())
    }

    fn revoke(&self, id: &GrantId) -> Reply<bool> {
        let id = id.clone();
        self.commit(("revoke", None, Safety::Process), none, move |store| store.revoke(&id))
    }

    fn grants_for(
        &self,
        tools: Vec<String>,
        fingerprint: Vec<u8>,
        user: &str,
        run: Option<&RunId>,
    ) -> Reply<Vec<Grant>> {
        let (user, run) = (user.to_owned(), run.cloned());
        self.read("grants_for", move |store| store.grants_for(tools, fingerprint, &user, run.as_ref()))
    }
}

impl<S: Clock> Clock for FaultyStore<S> {
    fn now(&self) -> Millis {
        self.inner().now()
    }
}

impl<S: Changes> Changes for FaultyStore<S> {
    fn watch(&self, within: Duration) -> Box<dyn ChangeWatch> {
        self.inner().watch(within)
    }
}

impl<S: ClientCalls + Send + Sync + 'static> ClientCalls for FaultyStore<S> {
    fn ask_client(&self, call: ClientCall) -> Reply<ClientCall> {
        self.commit(("ask_client", None, Safety::Power), none, move |store| store.ask_client(call))
    }

    fn answer_client(&self, run: &AgentRunId, id: &str, result: Arc<str>) -> Reply<bool> {
        let (run, id) = (run.clone(), id.to_owned());
        self.commit(("answer_client", None, Safety::Power), none, move |store| store.answer_client(&run, &id, result))
    }

    fn client_calls(&self, run: &AgentRunId) -> Reply<Vec<ClientCall>> {
        let run = run.clone();
        self.read("client_calls", move |store| store.client_calls(&run))
    }
}
