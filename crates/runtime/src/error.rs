//! Why there is no runtime, or no scope in it.

use std::error::Error;
use std::fmt::Write;
use std::io;
use std::path::PathBuf;

use pincer_builtin::BuiltinError;
use pincer_catalog::PolicyError;
use pincer_codemode::{CodeModeResult, ErrorCode};
use pincer_config::Distrust;
use pincer_install::InstallError;
use pincer_plugins::{LoadError, ProvideError};
use pincer_tools::RegisterError;

use crate::engine::EngineError;
use crate::state::StateError;

/// Why there is no runtime, or no scope in it.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The store cannot be had.
    #[error(transparent)]
    State(#[from] StateError),
    /// The engine cannot be loaded.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A name in the config's rules, hooks or approvals is no name of a tool.
    #[error(transparent)]
    Names(#[from] PolicyError),
    /// The built-in tools cannot be had.
    #[error(transparent)]
    Builtin(#[from] BuiltinError),
    /// A plugin is wrong.
    #[error("a plugin cannot be used: {0}")]
    Plugin(#[from] LoadError),
    /// Another user could change a plugin.
    #[error("plugins are not used: {0}")]
    PluginDistrusted(#[from] Distrust),
    /// An installation that was interrupted can be neither finished nor undone.
    #[error("plugins are not used, since it is not known whether one is missing: {0}")]
    Installs(#[from] InstallError),
    /// Two tools have one id, or a schema is none.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// A plugin wants more than the config allows.
    #[error(transparent)]
    Provide(#[from] ProvideError),
    /// The config names a hook that there is not.
    #[error("plugins.entries.{plugin}.hooks.timeouts.{hook}: there is no hook `{hook}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    NoHook {
        /// The plugin.
        plugin: String,
        /// The name in the config.
        hook: String,
        /// The hook that was probably meant.
        near: Option<String>,
    },
    /// The config names a plugin that is not there.
    #[error("plugins.entries.{id}: there is no plugin `{id}`{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    NoPlugin {
        /// The name in the config.
        id: String,
        /// The plugin that was probably meant.
        near: Option<String>,
    },
    /// The workspace that Pincer has of its own cannot be made.
    #[error("the workspace {} cannot be made", path.display())]
    Workspace {
        /// Where it should be.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Confined commands are started by this program, which cannot be found.
    #[error("cannot locate the pincer executable, which confined commands need")]
    Itself(#[source] io::Error),
}

impl RuntimeError {
    /// Returns the code of a result that tells it: the config is to be mended, or the machine.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::State(_) | Self::Engine(_) => ErrorCode::RuntimeUnavailable,
            _ => ErrorCode::InvalidConfig,
        }
    }

    /// Returns the result of a program that could not begin because of it.
    pub fn refused(&self) -> CodeModeResult {
        CodeModeResult::refused(self.code(), chain(self))
    }
}

/// Returns an error and its causes on one line. A cause that the text before it has is not told again.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            let _ = write!(text, ": {message}");
        }
        cause = error.source();
    }
    text
}
