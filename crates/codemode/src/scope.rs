//! For whom a program runs: with which tools, under which limits, and who may continue it.

use std::sync::Arc;

use pincer_store::{AgentRunId, Run};
use pincer_tools::{Context, UpdateSink};
use tokio_util::sync::CancellationToken;

use crate::guest::Guest;
use crate::round_robin::Party;
use crate::settings::Settings;
use crate::skills::SkillTexts;
use crate::tools::RunTools;

/// For whom a program runs. Cheap to clone.
#[derive(Clone)]
pub struct RunScope {
    /// The tools it has.
    pub tools: Arc<RunTools>,
    /// What it may use.
    pub settings: Settings,
    /// The globals of its programs.
    pub guest: Guest,
    /// Session, user, agent and sender, as its calls carry them. Only this user may continue it, in this session. `parent_call` is the id of the `exec` itself. `abort` ends the
    /// program while it runs, or while a call of it goes on here. One that is suspended without any is data, and is ended by
    /// [`CodeMode::abort`](crate::CodeMode::abort).
    pub context: Context,
    /// Whether somebody is there to answer questions.
    pub people: People,
    /// Whom tools ask that want something of their caller. It is told which questions the program waits for, also more than once.
    pub listener: Arc<dyn UpdateSink>,
    /// The skills of the agent's run that it is part of.
    pub skills: Option<Arc<dyn SkillTexts>>,
    /// Cancelled when whoever was there has left: then nobody is waited for any more.
    pub left: CancellationToken,
}

/// Whether somebody is there to answer questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum People {
    /// Nobody: a program that waits for an answer is suspended at once.
    Absent,
    /// Somebody looks at it: it waits for them, and the time that takes is not counted.
    Present,
}

impl RunScope {
    /// Whose turn a place for its cell is.
    pub(crate) fn party(&self) -> Party {
        Party { user: self.context.user.as_str().into(), session: self.context.session.as_str().into() }
    }

    /// For a program that is part of no agent's run, with nobody there.
    pub fn new(tools: Arc<RunTools>, settings: Settings, context: Context) -> Self {
        let (listener, left) = (Arc::new(()), CancellationToken::new());
        let guest = Guest::default();
        Self { tools, settings, guest, context, people: People::Absent, listener, skills: None, left }
    }

    /// The run of an agent that the program is part of, if it is part of one. Only that may continue it.
    pub(crate) fn agent_run(&self) -> Option<&str> {
        self.context.agent_run.as_ref().map(AgentRunId::as_str)
    }

    /// The same for another user.
    #[must_use]
    pub fn by(self, user: impl Into<String>) -> Self {
        Self { context: Context { user: user.into(), ..self.context }, ..self }
    }

    /// Why a run is none of this scope's, if it is not. Who has no identity is nobody.
    pub(crate) fn refusal(&self, run: &Run) -> Option<&'static str> {
        match () {
            () if run.user != self.context.user => Some("code mode run belongs to a different caller."),
            () if run.session != self.context.session => {
                Some("code mode run belongs to a different session: continue it in the one that began it.")
            }
            () if run.agent_run.as_deref() != self.agent_run() => {
                Some("code mode run belongs to a different agent run.")
            }
            () => None,
        }
    }
}
