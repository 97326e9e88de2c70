//! The clients we know, and where their configs are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::file::read_text;
use crate::parse::parse;
use crate::{ClientError, toml};

/// A client whose config we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// Claude Desktop.
    ClaudeDesktop,
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// VS Code.
    VsCode,
    /// Codex.
    Codex,
}

impl Client {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::ClaudeDesktop, Self::ClaudeCode, Self::Cursor, Self::VsCode, Self::Codex];

    /// What it is called in a command line.
    pub fn id(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Codex => "codex",
        }
    }

    /// What it calls itself.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Codex => "Codex",
        }
    }

    /// The client with this [`Client::id`].
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.id() == id)
    }

    /// The key under which it keeps servers.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::VsCode => "servers",
            Self::Codex => "mcp_servers",
            _ => "mcpServers",
        }
    }

    pub(crate) fn format(self) -> Format {
        if self == Self::Codex { Format::Toml } else { Format::Json }
    }
}

/// What kind of system the files are those of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// Linux, and what is like it.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl System {
    /// The one this program was built for.
    pub fn here() -> Self {
        if cfg!(windows) {
            Self::Windows
        } else if cfg!(target_os = "macos") {
            Self::MacOs
        } else {
            Self::Linux
        }
    }
}

/// Where we are: nothing is looked up behind the caller's back.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The home directory.
    pub home: PathBuf,
    /// The directory whose project files count; absolute.
    pub directory: PathBuf,
    /// Which places are usual.
    pub system: System,
    /// The environment.
    pub variables: BTreeMap<String, String>,
}

impl Surroundings {
    /// With an empty environment.
    pub fn new(home: impl Into<PathBuf>, directory: impl Into<PathBuf>, system: System) -> Self {
        Self { home: home.into(), directory: directory.into(), system, variables: BTreeMap::new() }
    }

    /// A directory that a variable may name. An empty variable, or one with a relative path, names none.
    fn named(&self, variable: &str) -> Option<PathBuf> {
        let named = self.variables.get(variable).map(PathBuf::from)?;
        (named.is_absolute() || self.system == System::Windows && !named.as_os_str().is_empty()).then_some(named)
    }

    /// Where applications keep their settings.
    fn settings(&self) -> PathBuf {
        match self.system {
            System::MacOs => self.home.join("Library/Application Support"),
            System::Windows => self.named("APPDATA").unwrap_or_else(|| self.home.join("AppData").join("Roaming")),
            System::Linux => self.named("XDG_CONFIG_HOME").unwrap_or_else(|| self.home.join(".config")),
        }
    }
}

/// For whom the servers of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// For all that the user does.
    User,
    /// For whoever works in a directory, where the file is.
    Project,
    /// For the user in one directory, in a file of the user.
    Local,
    /// Somebody has named the file.
    Given,
}

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON, perhaps with comments.
    Json,
    /// TOML.
    Toml,
}

/// A file in which servers may stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFile {
    /// Whose it is, if that can be told.
    pub client: Option<Client>,
    /// Where it is. It need not exist.
    pub path: PathBuf,
    /// For whom its servers are.
    pub reach: Reach,
    /// How it is written.
    pub format: Format,
    /// The keys that lead to the servers; none if the whole file is a map of them.
    pub keys: Vec<String>,
}

impl ClientFile {
    fn of(client: Client, path: PathBuf, reach: Reach) -> Self {
        let keys = vec![client.key().to_owned()];
        Self { client: Some(client), path, reach, format: client.format(), keys }
    }

    /// Whether there is such a file, or at least a link that should lead to it.
    pub fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// The servers within what the file says; `None` if it has none.
    pub(crate) fn servers<'v>(&self, whole: &'v Value) -> Result<Option<&'v Map<String, Value>>, ClientError> {
        let mut here = whole;
        for (index, key) in self.keys.iter().enumerate() {
            let members = here.as_object().ok_or_else(|| self.not_servers(index))?;
            let Some(member) = members.get(key) else { return Ok(None) };
            here = member;
        }
        here.as_object().map(Some).ok_or_else(|| self.not_servers(self.keys.len()))
    }

    fn not_servers(&self, keys: usize) -> ClientError {
        let path = if keys == 0 { "it".into() } else { format!("`{}`", self.keys[..keys].join(".")) };
        ClientError::NotServers { file: self.path.clone(), path }
    }
}

/// Where the configs of all clients are, whether they exist or not.
pub fn known_files(around: &Surroundings) -> Vec<ClientFile> {
    Client::ALL.into_iter().flat_map(|client| files_of(client, around)).collect()
}

/// Where the configs of a client are: those of the user first.
pub fn files_of(client: Client, around: &Surroundings) -> Vec<ClientFile> {
    let (home, directory) = (&around.home, &around.directory);
    let user = |path| ClientFile::of(client, path, Reach::User);
    let project = |path: &str| ClientFile::of(client, directory.join(path), Reach::Project);
    match client {
        Client::ClaudeDesktop => vec![user(around.settings().join("Claude").join("claude_desktop_config.json"))],
        Client::ClaudeCode => {
            let file = around.named("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.clone()).join(".claude.json");
            let local = local(file.clone(), directory);
            [Some(user(file)), local, Some(project(".mcp.json"))].into_iter().flatten().collect()
        }
        Client::Cursor => vec![user(home.join(".cursor").join("mcp.json")), project(".cursor/mcp.json")],
        Client::VsCode => {
            vec![user(around.settings().join("Code").join("User").join("mcp.json")), project(".vscode/mcp.json")]
        }
        Client::Codex => {
            let folder = around.named("CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
            vec![user(folder.join("config.toml")), project(".codex/config.toml")]
        }
    }
}

/// Claude Code's servers for one directory, which stand in the user's file. A directory that is not UTF-8 cannot be a key there.
fn local(file: PathBuf, directory: &Path) -> Option<ClientFile> {
    let keys = vec!["projects".to_owned(), directory.to_str()?.to_owned(), "mcpServers".to_owned()];
    Some(ClientFile { keys, reach: Reach::Local, ..ClientFile::of(Client::ClaudeCode, file, Reach::Local) })
}

/// What a file is that somebody names, by what stands in it. One file may have servers in two places.
pub fn recognise(path: &Path, around: &Surroundings) -> Result<Vec<ClientFile>, ClientError> {
    let text = read_text(path)?;
    let file = |client, format, keys: &[&str]| {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        ClientFile { client, path: path.to_owned(), reach: Reach::Given, format, keys }
    };
    let codex = || file(Some(Client::Codex), Format::Toml, &["mcp_servers"]);
    let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let whole = match parse(path, if is_toml { Format::Toml } else { Format::Json }, &text) {
        Ok(whole) => whole,
        // A name may say nothing of what is in the file.
        Err(_) if !is_toml && toml::value(&text).is_ok_and(|value| value.get("mcp_servers").is_some()) => {
            return Ok(vec![codex()]);
        }
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    if is_toml {
        if whole.get("mcp_servers").is_some() {
            found.push(codex());
        }
    } else if whole.get("mcpServers").is_some() || whole.get("projects").is_some() {
        let client = named_after(path);
        found.push(file(client, Format::Json, &["mcpServers"]));
        let local = around
            .directory
            .to_str()
            .map(|directory| file(client, Format::Json, &["projects", directory, "mcpServers"]));
        found.extend(local);
        found.retain(|file| matches!(file.servers(&whole), Ok(Some(_)) | Err(_)));
    } else if whole.get("servers").is_some_and(|servers| servers.is_object()) && !is_map_of_servers(&whole) {
        found.push(file(Some(Client::VsCode), Format::Json, &["servers"]));
    } else if is_map_of_servers(&whole) {
        found.push(file(named_after(path), Format::Json, &[]));
    }
    if found.is_empty() { Err(ClientError::Unrecognised { file: path.to_owned() }) } else { Ok(found) }
}

fn is_map_of_servers(value: &Value) -> bool {
    let is_server = |value: &Value| ["command", "url"].iter().any(|key| value.get(key).is_some());
    value.as_object().is_some_and(|members| !members.is_empty() && members.values().all(is_server))
}

fn named_after(path: &Path) -> Option<Client> {
    let name = |path: Option<&Path>| Some(path?.file_name()?.to_str()?.to_owned());
    match (name(Some(path))?.as_str(), name(path.parent()).as_deref()) {
        ("claude_desktop_config.json", _) => Some(Client::ClaudeDesktop),
        (".mcp.json" | ".claude.json", _) => Some(Client::ClaudeCode),
        ("mcp.json", Some(".cursor")) => Some(Client::Cursor),
        ("mcp.json", Some(".vscode")) => Some(Client::VsCode),
        _ => None,
    }
}
