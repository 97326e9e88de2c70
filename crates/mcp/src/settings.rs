//! The settings of a server: how it is reached, and how it is used. The config's keys become these in `runtime`.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::is_glob_match;
use pincer_process::{anchored, holds};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::ResolveError;

/// The settings of a server.
///
/// They have secrets in them, and so no `Debug`.
#[derive(Clone)]
pub struct ServerSettings {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
    /// Whether these settings are complete.
    pub readiness: Readiness,
    /// The directories that it is told to work in, as absolute paths. It is told of no others.
    pub roots: Vec<PathBuf>,
    /// How long it may take to start, or to be connected to, and to list its tools.
    pub connect_timeout: Duration,
    /// How long a call may take.
    pub call_timeout: Duration,
    /// Which of its tools there are.
    pub tools: ToolFilter,
    /// Patterns for the names of tools that change nothing, by the operator's knowledge.
    pub read_only: Vec<String>,
    /// What happens when it asks for a model's answer.
    pub sampling: Sampling,
    /// What happens when it asks the user something.
    pub elicitation: Elicitation,
    /// The texts that no message about it may have in it, the longest first.
    pub secrets: Vec<String>,
    /// Tells it from other servers of the same name: differs whenever another server may be meant. Only a digest of it is stored.
    ///
    /// It is not made of the other fields, because listings of earlier versions are found by its digest: it must not change when
    /// types here do.
    pub identity: Value,
}

/// How a server is reached.
#[derive(Clone)]
pub enum Reach {
    /// A program, on its standard input and output.
    Program(Launch),
    /// An address, over HTTP.
    Address(Address),
}

/// How a server that is a program is started.
#[derive(Clone)]
pub struct Launch {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables of its environment, beside the harmless ones of ours.
    pub environment: BTreeMap<String, String>,
    /// Where it starts.
    pub directory: Directory,
}

/// The directory in which a program starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Directory {
    /// The one that the operator names. It must be there, and the command is taken as it is.
    Named(PathBuf),
    /// One of its own, apart from the workspace. It is made if it is not there.
    Own {
        /// The directory.
        path: PathBuf,
        /// The directories from which relative paths in the command are seen.
        anchors: Vec<PathBuf>,
        /// Where programs can put files.
        workspace: PathBuf,
    },
}

/// Where a server is reached over HTTP.
#[derive(Clone, Default)]
pub struct Address {
    /// The address. [`Remote::new`](crate::Remote::new) checks it.
    pub url: String,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// A bearer token. Without one, headers alone, and what a login has stored.
    pub token: Option<String>,
    /// How to log in.
    pub oauth: OAuth,
    /// Which HTTP it speaks.
    pub speaks: Speaks,
}

/// How to log in to a server with OAuth.
#[derive(Clone, Default)]
pub struct OAuth {
    /// The id of a client that is registered already. Without one, Pincer registers itself.
    pub client_id: Option<String>,
    /// The secret of that client, if it has one.
    pub client_secret: Option<String>,
    /// What to ask for, if not what the server says.
    pub scopes: Vec<String>,
    /// The port of this machine to which the browser returns. A free one if absent.
    pub redirect_port: Option<u16>,
}

/// Which HTTP a server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speaks {
    /// Streamable HTTP.
    Streamable,
    /// The HTTP of old servers: one stream of events, and posts beside it.
    Events,
    /// Unknown: streamable HTTP if it can, otherwise that of old servers.
    #[default]
    Either,
}

/// Whether the settings of a server are complete.
#[derive(Clone)]
pub enum Readiness {
    /// They are.
    Ready,
    /// Secrets are missing in them, which are looked up whenever the server is started.
    NeedsSecrets(Arc<Resolve>),
    /// They name something that is not there. The reason is a sentence that begins behind the server's name.
    Unusable(String),
}

/// Returns the settings of a server with its secrets in place, within this time. It may block. The error is a sentence that begins
/// behind the server's name.
pub type Resolve = dyn Fn(Duration) -> Result<ServerSettings, Box<dyn Error + Send + Sync>> + Send + Sync;

/// Which of a server's tools there are. Names as the server spells them; `*` is any text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Only these, if there are any here.
    pub allow: Vec<String>,
    /// Not these.
    pub deny: Vec<String>,
}

/// What happens when a server asks for a model's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// It is refused.
    Refuse,
    /// It is passed to the caller, if that can do it.
    Pass,
}

/// What happens when a server asks the user something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elicitation {
    /// It is declined.
    Refuse,
    /// The caller is asked, with the server's name. Without a caller it is declined.
    Ask,
}

impl ServerSettings {
    /// Returns how it is reached, in a word: `stdio`, `http`, `sse`.
    pub fn transport(&self) -> &'static str {
        match &self.reach {
            Reach::Program(_) => "stdio",
            Reach::Address(Address { speaks: Speaks::Events, .. }) => "sse",
            Reach::Address(Address { speaks: Speaks::Streamable | Speaks::Either, .. }) => "http",
        }
    }

    /// Returns why it cannot be used although the config is right, in a sentence that begins behind its name.
    pub(crate) fn unusable(&self) -> Option<&str> {
        match &self.readiness {
            Readiness::Unusable(why) => Some(why),
            Readiness::Ready | Readiness::NeedsSecrets(_) => None,
        }
    }

    /// Returns a copy with all secrets in place, which are looked up within this time. It may block.
    pub fn resolved(&self, within: Duration) -> Result<Self, ResolveError> {
        match &self.readiness {
            Readiness::Ready => Ok(self.clone()),
            Readiness::NeedsSecrets(resolve) => Ok(resolve(within)?),
            Readiness::Unusable(why) => Err(ResolveError::Unusable(why.clone())),
        }
    }

    /// Returns the digest of its identity: what is stored of one server is not used for another. Secrets are part of it and cannot
    /// be told from it.
    pub fn digest(&self) -> String {
        let digest = Sha256::digest(pincer_json::canonical(&self.identity));
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns whether the operator says that a tool of this name changes nothing.
    pub(crate) fn is_read_only(&self, tool: &str) -> bool {
        self.read_only.iter().any(|pattern| is_glob_match(pattern, tool))
    }

    /// Returns whether the filter leaves a tool of this name.
    pub(crate) fn admits(&self, tool: &str) -> bool {
        let ToolFilter { allow, deny } = &self.tools;
        let any = |patterns: &[String]| patterns.iter().any(|pattern| is_glob_match(pattern, tool));
        (allow.is_empty() || any(allow)) && !any(deny)
    }
}

impl Launch {
    /// Returns program and arguments as they are started now: which files are there decides how relative paths are read.
    pub(crate) fn words(&self) -> Vec<String> {
        let words: Vec<String> = std::iter::once(&self.command).chain(&self.arguments).cloned().collect();
        match &self.directory {
            Directory::Named(_) => words,
            Directory::Own { anchors, .. } => anchored(&words, anchors),
        }
    }

    /// Returns the variables of its environment when it is started with these words.
    pub(crate) fn environment(&self, words: &[String]) -> BTreeMap<String, String> {
        let mut environment = self.environment.clone();
        let scripts = words.iter().map(Path::new).filter(|file| file.is_file());
        let mut directories = scripts.filter_map(Path::parent);
        if let Directory::Own { workspace, .. } = &self.directory
            && directories.any(|directory| holds(directory, workspace))
        {
            // Programs can put files beside its script, which Python would take for its modules.
            environment.entry("PYTHONSAFEPATH".into()).or_insert_with(|| "1".into());
        }
        environment
    }
}

impl Directory {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Named(path) | Self::Own { path, .. } => path,
        }
    }
}
