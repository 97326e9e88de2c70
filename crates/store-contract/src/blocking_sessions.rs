//! Sessions, runs of agents and calls of clients without a runtime.

use pincer_store::{
    Accepted, AgentRun, ApprovalId, ClientCall, Committed, Entry, EntryOutline, EntryPage, EntryText, Fence,
    FiguresPage, Frame, Millis, NewAgentRun, NewSession, Permission, RunFigures, RunId, Safety, Session, SessionCommit,
    SessionId, SessionKey, SessionPage, Stopped, StoreError,
};

use crate::Blocking;

type Done<T> = Result<T, StoreError>;

#[allow(missing_docs, reason = "each method is that of the trait of the same name")]
impl Blocking<'_> {
    pub fn create_session(&self, session: &NewSession) -> Done<Session> {
        self.0.create_session(session.clone()).wait()
    }

    pub fn draft_session(&self, session: &NewSession, owner: &str) -> Done<Session> {
        self.0.draft_session(session.clone(), &owner.into()).wait()
    }

    pub fn publish_session(&self, id: &str, fence: Fence, now: Millis) -> Done<Session> {
        self.0.publish_session(&id.into(), fence, now).wait()
    }

    pub fn run_figures(&self, page: &FiguresPage) -> Done<Vec<RunFigures>> {
        self.0.run_figures(page.clone()).wait()
    }

    pub fn figures_of_session(&self, id: &str, after: i64, limit: u32) -> Done<Vec<RunFigures>> {
        self.0.figures_of_session(&id.into(), after, limit).wait()
    }

    pub fn drafts(&self) -> Done<Vec<Session>> {
        self.0.drafts().wait()
    }

    pub fn current_session(&self, user: &str, key: &str) -> Done<Option<Session>> {
        self.0.current_session(user, &key.into()).wait()
    }

    pub fn session(&self, id: &str) -> Done<Session> {
        self.0.session(&id.into()).wait()
    }

    pub fn session_page(&self, page: &SessionPage) -> Done<Vec<Session>> {
        self.0.session_page(page.clone()).wait()
    }

    pub fn claim_session(&self, id: &str, seen: Fence, owner: &str, commit: &SessionCommit) -> Done<Fence> {
        self.0.claim_session(&id.into(), seen, &owner.into(), commit.clone()).wait()
    }

    pub fn commit_session(&self, id: &str, fence: Fence, commit: &SessionCommit) -> Done<Committed> {
        self.0.commit_session(&id.into(), fence, commit.clone(), Safety::Process).wait()
    }

    pub fn reset_session(&self, id: &str, fence: Fence, next: &str, reason: &str, now: Millis) -> Done<Session> {
        self.0.reset_session(&id.into(), fence, next.into(), reason, now).wait()
    }

    pub fn fork_session(&self, source: &str, at: u32, new: &NewSession) -> Done<Session> {
        self.0.fork_session(&source.into(), at, new.clone()).wait()
    }

    pub fn shown_tools(&self, id: &str) -> Done<Option<String>> {
        self.0.shown_tools(&id.into()).wait()
    }

    pub fn listed_skills(&self, id: &str) -> Done<Option<String>> {
        self.0.listed_skills(&id.into()).wait()
    }

    pub fn frames(&self, id: &str, after: i64, limit: u32) -> Done<Vec<Frame>> {
        self.0.frames(&id.into(), after, limit).wait()
    }

    pub fn frame_body(&self, digest: &[u8]) -> Done<Option<String>> {
        self.0.frame_body(digest).wait()
    }

    pub fn outline(&self, id: &str, page: EntryPage) -> Done<Vec<EntryOutline>> {
        self.0.outline(&id.into(), page).wait()
    }

    pub fn entry_texts(&self, id: &str, first: u32, last: u32) -> Done<Vec<EntryText>> {
        self.0.entry_texts(&id.into(), first, last).wait()
    }

    pub fn questions_asked(&self, user: &str, key: &str, between: (Millis, Millis)) -> Done<Vec<(ApprovalId, Millis)>> {
        self.0.questions_asked(user, &key.into(), between).wait()
    }

    pub fn is_begun(&self, workspace: &str) -> Done<bool> {
        self.0.is_begun(workspace).wait()
    }

    pub fn rename_session(&self, id: &str, label: Option<&str>, now: Millis) -> Done<()> {
        self.0.rename_session(&id.into(), label, now).wait()
    }

    pub fn set_session_settings(&self, user: &str, key: &str, settings: &str, now: Millis) -> Done<()> {
        self.0.set_session_settings(user, &key.into(), settings.into(), now).wait()
    }

    pub fn delete_session(&self, id: &str, fence: Fence) -> Done<()> {
        self.0.delete_session(&id.into(), fence).wait()
    }

    pub fn context(&self, id: &str) -> Done<Vec<Entry>> {
        self.0.context(&id.into()).wait()
    }

    pub fn entries(&self, id: &str, page: EntryPage) -> Done<Vec<Entry>> {
        self.0.entries(&id.into(), page).wait()
    }

    pub fn entry_named(&self, id: &str, beginning: &str) -> Done<Option<Entry>> {
        self.0.entry_named(&id.into(), beginning).wait()
    }

    pub fn search_entries(&self, user: Option<&str>, words: &[&str], limit: u32) -> Done<Vec<(SessionId, Entry)>> {
        self.0.search_entries(user, words.iter().map(ToString::to_string).collect(), limit).wait()
    }

    pub fn forget_sessions(&self, updated_before: Millis) -> Done<usize> {
        self.0.forget_sessions(updated_before).wait()
    }

    pub fn accept_run(&self, run: &NewAgentRun) -> Done<Accepted> {
        self.0.accept_run(run.clone()).wait()
    }

    pub fn agent_run(&self, id: &str) -> Done<AgentRun> {
        self.0.agent_run(&id.into()).wait()
    }

    pub fn agent_run_with_key(&self, user: &str, session: &str, key: &str) -> Done<Option<AgentRun>> {
        self.0.agent_run_with_key(user, &session.into(), key).wait()
    }

    pub fn open_runs(&self, user: &str, session: &str) -> Done<Vec<AgentRun>> {
        self.0.open_runs(user, &session.into()).wait()
    }

    pub fn sessions_to_wake(&self, now: Millis) -> Done<Vec<(String, SessionKey)>> {
        self.0.sessions_to_wake(now).wait()
    }

    pub fn sessions_with_work(&self) -> Done<Vec<(String, SessionKey)>> {
        self.0.sessions_with_work().wait()
    }

    pub fn runs_of_session(&self, id: &str, limit: u32) -> Done<Vec<AgentRun>> {
        self.0.runs_of_session(&id.into(), limit).wait()
    }

    pub fn stop_run(&self, id: &str, result: &str, now: Millis) -> Done<Stopped> {
        self.0.stop_run(&id.into(), result.into(), now).wait()
    }

    pub fn ask_client(&self, call: &ClientCall) -> Done<ClientCall> {
        self.0.ask_client(call.clone()).wait()
    }

    pub fn answer_client(&self, run: &str, id: &str, result: &str) -> Done<bool> {
        self.0.answer_client(&run.into(), id, result.into()).wait()
    }

    pub fn client_calls(&self, run: &str) -> Done<Vec<ClientCall>> {
        self.0.client_calls(&run.into()).wait()
    }

    pub fn questions_of(&self, run: &str) -> Done<Vec<String>> {
        let questions = self.0.questions_of(&run.into()).wait()?;
        Ok(questions.into_iter().map(|question| question.id.to_string()).collect())
    }

    pub fn spend(&self, run: &str, seq: u32, permission: Permission) -> Done<bool> {
        self.0.spend(&run.into(), seq, permission).wait()
    }

    pub fn runs_of_agent(&self, agent_run: &str) -> Done<Vec<RunId>> {
        self.0.runs_of_agent(&agent_run.into()).wait()
    }
}
