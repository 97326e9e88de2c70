//! Notices of the runtime to its front while it works. A front draws it, logs it or leaves it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use pincer_hooks::HookName;
use pincer_sandbox::{CacheProblem, Progress};

use crate::error::chain;

/// Something that the runtime tells while it works. [`Display`](fmt::Display) is the sentence for a person.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// A step of the engine's first start on this machine, which takes seconds.
    EngineStep(Progress),
    /// The engine is loaded, or failed to: no step follows.
    EngineStepsOver,
    /// The engine works, but its cache does not: the next start takes as long.
    EngineCache(String),
    /// A group can change a file or directory that decides what Pincer does.
    SharedPath(String),
    /// Hooks of a plugin are not used, because the config does not allow them.
    HooksLeftOut {
        /// The plugin.
        plugin: String,
        /// The hooks.
        hooks: Vec<HookName>,
    },
    /// The trail of calls cannot be written. Told once.
    AuditTrail {
        /// The trail.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Programs cannot run here, so a model is shown `tool_search`, `tool_describe` and `tool_call` in place of `tool_search_code`.
    NoPrograms {
        /// Why.
        why: String,
    },
    /// A server had not started when it was needed: its tools are left out.
    ServerStarting {
        /// The server's name in the config.
        name: String,
    },
    /// A server that was asked for its tools is down.
    ServerDown {
        /// The server's name in the config.
        name: String,
        /// What it did, as the end of a sentence.
        why: String,
    },
}

impl Notice {
    pub(crate) fn cache(problem: &CacheProblem) -> Self {
        Self::EngineCache(chain(problem))
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EngineStep(step) => write!(f, "{step} (only the first time) …"),
            Self::EngineStepsOver => f.write_str("the JavaScript engine is loaded"),
            Self::EngineCache(text) | Self::SharedPath(text) => f.write_str(text),
            Self::HooksLeftOut { plugin, hooks } => {
                let names = hooks.iter().map(|hook| hook.as_str()).collect::<Vec<_>>().join(", ");
                write!(
                    f,
                    "hooks of the plugin {plugin} are not used ({names}): `plugins.entries.{plugin}.hooks` has \
                     `allowConversationAccess` and `allowPromptInjection`"
                )
            }
            Self::AuditTrail { file, source } => {
                write!(f, "calls cannot be noted in {}: {source}", file.display())
            }
            Self::NoPrograms { why } => {
                write!(
                    f,
                    "programs cannot run here, so tools.toolSearch works in the mode \"tools\" in place of \"code\": {why}"
                )
            }
            Self::ServerStarting { name } => {
                write!(f, "the MCP server {name} is still starting: its tools are left out")
            }
            Self::ServerDown { name, why } => write!(f, "the MCP server {name} is down: it {why}"),
        }
    }
}

/// Takes notices, from any thread. It must not block.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(Notice) + Send + Sync>);

impl Observer {
    /// Calls `take` for each notice.
    pub fn new(take: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub(crate) fn tell(&self, notice: Notice) {
        (self.0)(notice);
    }
}

/// Drops all notices.
impl Default for Observer {
    fn default() -> Self {
        Self::new(drop)
    }
}
