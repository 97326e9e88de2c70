//! The hooks of a runtime, by their places.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use crate::events::{
    AfterCompaction, AgentBootstrap, AgentEnd, BeforeAgentFinalize, BeforeAgentReply, BeforeAgentRun, BeforeAgentStart,
    BeforeCompaction, BeforeInstall, BeforeMessageWrite, BeforeModelResolve, BeforePromptBuild, BeforeReset, Command,
    LlmInput, LlmOutput, MessageReceived, MessageSending, MessageSent, SessionEnd, SessionStart,
};
use crate::{Ask, External, Hook, HookError, HookName, Point};

/// The settings of a hook that is another program.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name in messages.
    pub name: String,
    /// Hooks with a higher priority are asked earlier.
    pub priority: i32,
    /// The longest that it may take. If absent, as the table says.
    pub timeout: Option<Duration>,
    /// Whether its answer may add to the prompt.
    pub may_inject: bool,
}

macro_rules! places {
    ($($field:ident $event:ident,)+) => {
        /// A hook at one of the places.
        #[derive(Clone)]
        pub enum Registration {
            $(#[doc = concat!("A hook `", stringify!($field), "`.")] $event(Hook<$event>),)+
        }

        /// The hooks of a runtime, by their places. Cheap to clone as long as there are few.
        #[derive(Clone, Default)]
        pub struct Table {
            $($field: Vec<Hook<$event>>,)+
        }

        impl Registration {
            /// Returns a program as a hook. `None` for hooks that are asked about tools only: they belong to the door.
            pub fn external(hook: HookName, program: &Arc<dyn Ask>, settings: Settings) -> Option<Self> {
                match hook {
                    $(HookName::$event => Some(Self::$event(external(program, settings))),)+
                    HookName::BeforeToolCall | HookName::AfterToolCall | HookName::ToolResultPersist => None,
                }
            }
        }

        $(
            impl From<Hook<$event>> for Registration {
                fn from(hook: Hook<$event>) -> Self {
                    Self::$event(hook)
                }
            }

            impl Holds<$event> for Table {
                fn hooks(&self) -> &[Hook<$event>] {
                    &self.$field
                }
            }
        )+

        impl Table {
            /// Adds a hook.
            pub fn add(&mut self, hook: Registration) {
                match hook {
                    $(Registration::$event(hook) => insert(&mut self.$field, hook),)+
                }
            }
        }
    };
}

places! {
    message_received MessageReceived,
    command Command,
    before_reset BeforeReset,
    session_end SessionEnd,
    session_start SessionStart,
    before_agent_reply BeforeAgentReply,
    before_model_resolve BeforeModelResolve,
    before_agent_start BeforeAgentStart,
    agent_bootstrap AgentBootstrap,
    before_prompt_build BeforePromptBuild,
    before_agent_run BeforeAgentRun,
    llm_input LlmInput,
    llm_output LlmOutput,
    before_message_write BeforeMessageWrite,
    before_compaction BeforeCompaction,
    after_compaction AfterCompaction,
    before_agent_finalize BeforeAgentFinalize,
    message_sending MessageSending,
    message_sent MessageSent,
    agent_end AgentEnd,
    before_install BeforeInstall,
}

/// Has the hooks at one place.
pub trait Holds<P: Point> {
    /// Returns the hooks, those with the highest priority first.
    fn hooks(&self) -> &[Hook<P>];
}

impl Table {
    /// Returns the hooks at a place, those with the highest priority first.
    pub fn of<P: Point>(&self) -> &[Hook<P>]
    where
        Self: Holds<P>,
    {
        self.hooks()
    }

    /// Returns whether there are hooks at a place. An event for none need not be made.
    pub fn has<P: Point>(&self) -> bool
    where
        Self: Holds<P>,
    {
        !self.of::<P>().is_empty()
    }

    /// Tells all hooks at a place, at once. One that fails is logged.
    pub async fn tell<P: Point>(&self, event: &P)
    where
        Self: Holds<P>,
    {
        let told = self.of::<P>().iter().map(|hook| async move {
            if let Err(error) = hook.ask(event).await {
                warn(hook, &error);
            }
        });
        join_all(told).await;
    }
}

fn external<P: Point>(program: &Arc<dyn Ask>, settings: Settings) -> Hook<P> {
    let Settings { name, priority, timeout, may_inject } = settings;
    let hook = Hook { may_inject, ..Hook::new(name, External::<P>::new(Arc::clone(program))).priority(priority) };
    match timeout {
        Some(timeout) => hook.timeout(timeout),
        None => hook,
    }
}

/// Adds a hook behind those of the same priority.
fn insert<P: Point>(hooks: &mut Vec<Hook<P>>, hook: Hook<P>) {
    let at = hooks.partition_point(|other| other.priority >= hook.priority);
    hooks.insert(at, hook);
}

/// Logs that a hook was skipped.
pub(crate) fn warn<P: Point>(hook: &Hook<P>, error: &HookError) {
    tracing::warn!(hook = hook.name, "the hook {} is skipped: {error}", P::NAME);
}
