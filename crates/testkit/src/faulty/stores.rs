//! All that a store does, each call with its class.

use pincer_store::{
    Approval, Approvals, Asked, Call, Checkpoint, Claim, Clock, Commit, Decision, Fence, Grant, Grants, Journal,
    Listings, Millis, NewApproval, NewCall, NewGrant, NewRun, Page, Park, Prune, Resolution, Room, Run, RunOverview,
    RunState, Runs, Safety, SessionCount, Snapshot, Snapshots, Standing, StoreError, ToolSet, Upkeep,
};

use super::FaultyStore;

/// For commits without a proof.
fn none<T>(_: &T) -> Option<i64> {
    None
}

/// For commits that are made with this proof.
fn with<T>(fence: Fence) -> impl FnOnce(&T) -> Option<i64> {
    move |_| Some(fence.0)
}

impl<S: Runs> Runs for FaultyStore<S> {
    fn create_run(
        &self,
        run: &NewRun<'_>,
        claim: Claim<'_>,
        checkpoint: Option<&Checkpoint<'_>>,
        commit: Commit,
    ) -> Result<Fence, StoreError> {
        let given = |fence: &Fence| Some(fence.0);
        self.commit(("create_run", Some(run.id), commit.safety), given, |store| {
            store.create_run(run, claim, checkpoint, commit)
        })
    }

    fn run(&self, id: &str) -> Result<Run, StoreError> {
        self.read("run", |store| store.run(id))
    }

    fn run_with_key(&self, caller: &str, session: &str, key: &str) -> Result<Option<Run>, StoreError> {
        self.read("run_with_key", |store| store.run_with_key(caller, session, key))
    }

    fn runs(&self, session: Option<&str>) -> Result<Vec<Run>, StoreError> {
        self.read("runs", |store| store.runs(session))
    }

    fn running(&self) -> Result<Vec<Run>, StoreError> {
        self.keep_house("running", |store| store.running())
    }

    fn let_wait(&self, id: &str, seen: Fence, expires_at: Millis) -> Result<bool, StoreError> {
        self.commit(("let_wait", Some(id), Safety::Power), none, |store| store.let_wait(id, seen, expires_at))
    }

    fn claim_run(&self, id: &str, seen: (RunState, Fence), claim: Claim<'_>) -> Result<Fence, StoreError> {
        let given = |fence: &Fence| Some(fence.0);
        self.commit(("claim_run", Some(id), Safety::Process), given, |store| store.claim_run(id, seen, claim))
    }

    fn set_tools(&self, id: &str, fence: Fence, tools: ToolSet<'_>) -> Result<(), StoreError> {
        self.commit(("set_tools", Some(id), Safety::Process), with(fence), |store| store.set_tools(id, fence, tools))
    }

    fn tool_set(&self, hash: &[u8]) -> Result<Option<String>, StoreError> {
        self.read("tool_set", |store| store.tool_set(hash))
    }

    fn finish_run(
        &self,
        id: &str,
        fence: Fence,
        state: RunState,
        result: &str,
        now: Millis,
        commit: Commit,
    ) -> Result<(), StoreError> {
        // An orphan is ended with the proof that its settler saw, which is not its own: the observer is not told of it.
        let is_orphan = state == RunState::Aborted;
        let fence_of = move |_: &()| (!is_orphan).then_some(fence.0);
        self.commit(("finish_run", Some(id), commit.safety), fence_of, |store| {
            store.finish_run(id, fence, state, result, now, commit)
        })
    }

    fn run_result(&self, id: &str) -> Result<Option<String>, StoreError> {
        self.read("run_result", |store| store.run_result(id))
    }

    fn abort_run(&self, id: &str, now: Millis) -> Result<bool, StoreError> {
        self.commit(("abort_run", Some(id), Safety::Power), none, |store| store.abort_run(id, now))
    }
}

impl<S: Listings> Listings for FaultyStore<S> {
    fn run_overviews(&self, page: &Page<'_>) -> Result<Vec<RunOverview>, StoreError> {
        self.read("run_overviews", |store| store.run_overviews(page))
    }

    fn run_overview(&self, id: &str) -> Result<RunOverview, StoreError> {
        self.read("run_overview", |store| store.run_overview(id))
    }

    fn runs_named(&self, beginning: &str) -> Result<Vec<String>, StoreError> {
        self.read("runs_named", |store| store.runs_named(beginning))
    }

    fn run_counts(&self, session: &str, caller: Option<&str>) -> Result<Vec<(RunState, u32)>, StoreError> {
        self.read("run_counts", |store| store.run_counts(session, caller))
    }

    fn sessions(&self, caller: Option<&str>) -> Result<Vec<SessionCount>, StoreError> {
        self.read("sessions", |store| store.sessions(caller))
    }

    fn standings(&self, ids: &[String]) -> Result<Vec<Standing>, StoreError> {
        self.keep_house("standings", |store| store.standings(ids))
    }
}

impl<S: Upkeep> Upkeep for FaultyStore<S> {
    fn expire_runs(&self, now: Millis) -> Result<Vec<String>, StoreError> {
        self.keep_house("expire_runs", |store| store.expire_runs(now))
    }

    fn forget_runs(&self, ended_before: Millis) -> Result<usize, StoreError> {
        self.keep_house("forget_runs", |store| store.forget_runs(ended_before))
    }

    fn next_due(&self, remembered: Millis) -> Result<Option<Millis>, StoreError> {
        self.keep_house("next_due", |store| store.next_due(remembered))
    }

    fn give_space_back(&self) -> Result<bool, StoreError> {
        self.keep_house("give_space_back", |store| store.give_space_back())
    }

    fn change_counter(&self) -> Result<i64, StoreError> {
        self.keep_house("change_counter", |store| store.change_counter())
    }
}

impl<S: Snapshots> Snapshots for FaultyStore<S> {
    fn park(&self, run: &str, fence: Fence, park: &Park<'_>) -> Result<(), StoreError> {
        self.commit(("park", Some(run), Safety::Power), with(fence), |store| store.park(run, fence, park))
    }

    fn reserve(&self, run: &str, fence: Fence, room: &Room, commit: Commit) -> Result<(), StoreError> {
        self.commit(("reserve", Some(run), commit.safety), with(fence), |store| store.reserve(run, fence, room, commit))
    }

    fn checkpoint(
        &self,
        run: &str,
        fence: Fence,
        checkpoint: &Checkpoint<'_>,
        commit: Commit,
    ) -> Result<(), StoreError> {
        self.commit(("checkpoint", Some(run), commit.safety), with(fence), |store| {
            store.checkpoint(run, fence, checkpoint, commit)
        })
    }

    fn snapshot(&self, run: &str) -> Result<Option<Snapshot>, StoreError> {
        self.read("snapshot", |store| store.snapshot(run))
    }

    fn keep_image(&self, hash: &[u8], bytes: &[u8]) -> Result<(), StoreError> {
        self.keep_house("keep_image", |store| store.keep_image(hash, bytes))
    }

    fn image(&self, hash: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.read("image", |store| store.image(hash))
    }

    fn drop_unused_images(&self, current: &[u8]) -> Result<usize, StoreError> {
        self.keep_house("drop_unused_images", |store| store.drop_unused_images(current))
    }
}

impl<S: Journal> Journal for FaultyStore<S> {
    fn dispatch(
        &self,
        run: &str,
        fence: Fence,
        owner: &str,
        call: &NewCall<'_>,
        commit: Commit,
    ) -> Result<(), StoreError> {
        self.commit(("dispatch", Some(run), commit.safety), with(fence), |store| {
            store.dispatch(run, fence, owner, call, commit)
        })
    }

    fn settle(
        &self,
        run: &str,
        owner: &str,
        seq: u32,
        outcome: &str,
        now: Millis,
        commit: Commit,
    ) -> Result<bool, StoreError> {
        self.commit(("settle", Some(run), commit.safety), none, |store| {
            store.settle(run, owner, seq, outcome, now, commit)
        })
    }

    fn disown_calls(&self, run: &str, owner: &str) -> Result<(), StoreError> {
        self.commit(("disown_calls", Some(run), Safety::Process), none, |store| store.disown_calls(run, owner))
    }

    fn calls(&self, run: &str) -> Result<Vec<Call>, StoreError> {
        self.read("calls", |store| store.calls(run))
    }

    fn call(&self, run: &str, seq: u32) -> Result<Option<Call>, StoreError> {
        self.read("call", |store| store.call(run, seq))
    }

    fn prune_calls(&self, run: &str, fence: Fence, prune: &Prune<'_>) -> Result<u64, StoreError> {
        let class = ("prune_calls", Some(run), Safety::Process);
        self.commit(class, with(fence), |store| store.prune_calls(run, fence, prune))
    }
}

impl<S: Approvals> Approvals for FaultyStore<S> {
    fn ask(&self, approval: &NewApproval<'_>) -> Result<(), StoreError> {
        self.commit(("ask", approval.run, Safety::Power), none, |store| store.ask(approval))
    }

    fn approval(&self, id: &str) -> Result<Approval, StoreError> {
        self.read("approval", |store| store.approval(id))
    }

    fn pending_approvals(&self) -> Result<Vec<Approval>, StoreError> {
        self.read("pending_approvals", |store| store.pending_approvals())
    }

    fn resolve(
        &self,
        id: &str,
        decision: Decision,
        grants: &[NewGrant<'_>],
        by: &str,
        now: Millis,
    ) -> Result<Resolution, StoreError> {
        self.commit(("resolve", None, Safety::Power), none, |store| store.resolve(id, decision, grants, by, now))
    }

    fn standing_question(&self, asked: &Asked<'_>, now: Millis) -> Result<Option<Approval>, StoreError> {
        let run = asked.call.map(|(run, _)| run);
        // It is a commit only if the time of a question is over: nothing else is on the disk afterwards.
        self.commit(("standing_question", run, Safety::Process), none, |store| store.standing_question(asked, now))
    }

    fn use_answer(&self, id: &str) -> Result<bool, StoreError> {
        self.commit(("use_answer", None, Safety::Process), none, |store| store.use_answer(id))
    }

    fn expire_approvals(&self, now: Millis) -> Result<Vec<String>, StoreError> {
        // A call that waits for an answer looks again and again.
        self.keep_house("expire_approvals", |store| store.expire_approvals(now))
    }
}

impl<S: Grants> Grants for FaultyStore<S> {
    fn grant(&self, grant: &NewGrant<'_>) -> Result<(), StoreError> {
        self.commit(("grant", None, Safety::Power), none, |store| store.grant(grant))
    }

    fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        self.read("grants", |store| store.grants())
    }

    fn revoke(&self, id: &str) -> Result<bool, StoreError> {
        self.commit(("revoke", None, Safety::Process), none, |store| store.revoke(id))
    }

    fn grants_for(
        &self,
        tool: &str,
        fingerprint: &[u8],
        user: &str,
        run: Option<&str>,
    ) -> Result<Vec<Grant>, StoreError> {
        self.read("grants_for", |store| store.grants_for(tool, fingerprint, user, run))
    }
}

impl<S: Clock> Clock for FaultyStore<S> {
    fn now(&self) -> Millis {
        self.inner().now()
    }
}
