//! A plugin's process: started when it is needed, and again when it has fallen.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use pincer_process::{Group, Start, clean_environment};
use pincer_tools::{ToolError, UpdateSink};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::channel::Listeners;
use crate::connection::{Broken, Connection};
use crate::wire::{PROTOCOL_VERSION, RpcError};
use crate::{Found, Manifest, ManifestChannel};

/// The time that a process has to answer `initialize`.
const GREETING: Duration = Duration::from_secs(10);
/// The time before the second start after a fall; twice as long before each further one.
const FIRST_DELAY: Duration = Duration::from_millis(200);
const LONGEST_DELAY: Duration = Duration::from_secs(10);

/// What the user has settled for a plugin.
#[derive(Clone, Debug, Default)]
pub struct PluginSettings {
    /// What it is told when it starts.
    pub config: Map<String, Value>,
    /// Variables of its environment.
    pub environment: BTreeMap<String, String>,
}

/// The process of a plugin.
pub struct PluginProcess {
    id: String,
    folder: PathBuf,
    /// The folder as it was when its manifest was read.
    identity: Option<Identity>,
    command: Vec<String>,
    settings: PluginSettings,
    channels: Vec<ManifestChannel>,
    listeners: Listeners,
    state: Mutex<State>,
    /// How often it has fallen since it last did something.
    falls: AtomicU32,
}

/// Tells a folder from another one that is put in its place.
#[derive(PartialEq)]
struct Identity {
    device: u64,
    inode: u64,
    /// The number of a folder that is gone may be used again.
    born: Option<SystemTime>,
}

impl Identity {
    fn of(folder: &Path) -> Option<Self> {
        let metadata = fs::metadata(folder).ok()?;
        Some(Self { device: metadata.dev(), inode: metadata.ino(), born: metadata.created().ok() })
    }
}

#[derive(Default)]
struct State {
    running: Option<Arc<Connection>>,
    not_before: Option<Instant>,
}

/// The reason why the process was not started, as a sentence that begins behind the plugin's name.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("cannot be started ({command}): {source}")]
    NotStarted { command: String, source: io::Error },
    #[error("was updated or removed after this process had begun: start Pincer again to use what is there now")]
    Replaced,
    #[error("did not answer `initialize` within {} s", GREETING.as_secs())]
    Late,
    #[error(transparent)]
    Over(#[from] Broken),
    #[error("refused to start: {0}")]
    Refused(String),
    #[error("speaks protocol version {0}; {PROTOCOL_VERSION} is needed")]
    Version(Value),
}

/// The reason why a request came to nothing.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// It could not be made.
    NotMade(String),
    /// The process fell while it was being done.
    Fell(String),
    /// The plugin says no.
    Refused(RpcError),
}

impl From<Failure> for ToolError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotMade(message) => ToolError::before(message),
            Failure::Fell(message) => ToolError::unknown(message),
            Failure::Refused(error) => error.into_tool_error(),
        }
    }
}

impl PluginProcess {
    /// Returns the process of a plugin. Nothing is started yet.
    pub fn new(found: &Found, settings: PluginSettings) -> Arc<Self> {
        let Found { folder, manifest: Manifest { id, command, channels, .. } } = found.clone();
        let (listeners, state, falls) = (Listeners::default(), Mutex::default(), AtomicU32::new(0));
        let identity = Identity::of(&folder);
        Arc::new(Self { id, folder, identity, command, settings, channels, listeners, state, falls })
    }

    /// Returns the plugin's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns whether the folder is gone, or another one is in its place. Then the process is never started again: the manifest that
    /// was read is not that of the files that are there now.
    pub fn is_replaced(&self) -> bool {
        Identity::of(&self.folder) != self.identity
    }

    /// Returns the channels that the manifest declares.
    pub fn channels(&self) -> &[ManifestChannel] {
        &self.channels
    }

    pub(crate) fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// Returns the running process; a new one if there is none.
    pub(crate) async fn connected(&self) -> Result<Arc<Connection>, Failure> {
        self.connection().await.map_err(|error| Failure::NotMade(self.says(&error.to_string())))
    }

    /// Ends the process, and everything it has started, if it runs.
    pub async fn end(&self) {
        let running = self.state.lock().await.running.take();
        if let Some(connection) = running {
            connection.end().await;
        }
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        params: Value,
        updates: Option<Arc<dyn UpdateSink>>,
    ) -> Result<Value, Failure> {
        let connection = self.connected().await?;
        match connection.request(method, params, updates).await {
            Ok(Ok(value)) => {
                self.falls.store(0, Ordering::Relaxed);
                Ok(value)
            }
            Ok(Err(error)) => {
                self.falls.store(0, Ordering::Relaxed);
                Err(Failure::Refused(RpcError { message: self.says(&format!("says: {}", error.message)), ..error }))
            }
            Err(Broken(why)) => Err(Failure::Fell(self.says(&why))),
        }
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        if let Ok(connection) = self.connection().await {
            connection.notify(method, params).await;
        }
    }

    /// Returns a sentence that begins with the name of the plugin.
    pub(crate) fn says(&self, what: &str) -> String {
        format!("the plugin {} {what}", self.id)
    }

    /// Returns the running process; a new one if there is none.
    async fn connection(&self) -> Result<Arc<Connection>, StartError> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.running {
            if connection.broken().is_none() {
                return Ok(Arc::clone(connection));
            }
            state.running = None;
            self.fell(&mut state);
        }
        if let Some(not_before) = state.not_before {
            tokio::time::sleep_until(not_before).await;
        }
        match self.start().await {
            Ok(connection) => {
                state.running = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) => {
                self.fell(&mut state);
                Err(error)
            }
        }
    }

    /// The first time it is started again at once, then later and later.
    fn fell(&self, state: &mut State) {
        let falls = self.falls.fetch_add(1, Ordering::Relaxed);
        let delay = if falls == 0 { Duration::ZERO } else { FIRST_DELAY * 2_u32.saturating_pow((falls - 1).min(10)) };
        state.not_before = Some(Instant::now() + delay.min(LONGEST_DELAY));
    }

    async fn start(&self) -> Result<Arc<Connection>, StartError> {
        if self.is_replaced() {
            return Err(StartError::Replaced);
        }
        let mut words = self.command.clone();
        if let Some(program) = words.first_mut()
            && program.contains('/')
        {
            *program = self.folder.join(&*program).display().to_string();
        }
        let mut environment = clean_environment(&[]);
        environment.extend(self.settings.environment.clone());
        let start = Start { words: &words, directory: self.folder.clone(), environment, stdin: Stdio::piped() };
        let not_started = |source| StartError::NotStarted { command: words.join(" "), source };
        let group = Group::start(start).map_err(not_started)?;
        let listeners = (!self.channels.is_empty()).then(|| self.listeners.clone());
        let connection = Arc::new(Connection::new(group, listeners));
        let hello = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "plugin": self.id,
            "config": self.settings.config,
            "host": { "name": "pincer", "version": env!("CARGO_PKG_VERSION") },
        });
        let greeted = tokio::time::timeout(GREETING, connection.request("initialize", hello, None)).await;
        let answer = match greeted {
            Err(_) => Err(StartError::Late),
            Ok(Err(broken)) => Err(broken.into()),
            Ok(Ok(Err(error))) => Err(StartError::Refused(error.message)),
            Ok(Ok(Ok(answer))) => Ok(answer),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                connection.end().await;
                return Err(error);
            }
        };
        // Nothing else that it says of itself is looked at: the manifest is what is trusted.
        let version = &answer["protocolVersion"];
        if *version != PROTOCOL_VERSION {
            connection.end().await;
            return Err(StartError::Version(version.clone()));
        }
        Ok(connection)
    }
}

/// Returns the error of a wrong answer: the call was made, and its effect is unknown.
pub(crate) fn wrong(message: String) -> ToolError {
    ToolError::unknown(message)
}
