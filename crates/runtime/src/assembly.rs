//! From the config to the one door: tools, hooks, rules.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pincer_builtin::{
    Approved, Builtin, ChannelRule, Confinement, ExecMode, ExecSettings, Guard, SandboxBounds, Settings, WebSettings,
};
use pincer_catalog::{PolicyError, nearest};
use pincer_config::keys::{self, Decision, SecretSource};
use pincer_config::{Config, Loaded, trust};
use pincer_install::read_installed;
use pincer_mcp::Servers;
use pincer_plugins::{Found, PluginProcess, PluginSettings, discover, provide};
use pincer_process::anchored;
use pincer_store_sqlite::SqliteStore;
use pincer_tools::{ApprovalRule, Door, DoorBuilder, Matcher, Redactor, RuleDecision};
use regex::Regex;

use crate::error::RuntimeError;
use crate::guarded::guarded;
use crate::hooks::{add_hooks, hook_settings, hook_words};
use crate::mcp_settings::{mcp_anchors, mcp_servers};
use crate::notice::{Notice, Observer};
use crate::options::{BuiltIn, RuntimeOptions};
use crate::sites::Sites;
use crate::workspace::{beside, prepare, workspace};

/// A door as the config describes it, and the processes that must end with it.
pub(crate) struct Assembly {
    pub door: DoorBuilder,
    pub builtin: Option<Builtin>,
    pub plugins: Vec<Arc<PluginProcess>>,
    /// The folders of the plugins in use, by their ids.
    pub skill_folders: Vec<(String, PathBuf)>,
    pub servers: Servers,
}

impl Assembly {
    /// Puts everything together. Nothing is started.
    pub(crate) fn new(options: &RuntimeOptions, sites: &Sites, store: &Arc<SqliteStore>) -> Result<Self, RuntimeError> {
        let (loaded, state) = (&options.loaded, options.state.as_path());
        let found = found_plugins(loaded, Some(state), &options.observer)?;
        let (mut door, builtin) = match options.built_in {
            BuiltIn::Registered => {
                let builtin = builtin(loaded, state, &found, sites)?;
                (builtin.register(gates(loaded, sites)?, Some(store.clone()))?, Some(builtin))
            }
            BuiltIn::LeftOut => (gates(loaded, sites)?, None),
        };
        let in_use = |found: &&Found| {
            loaded.parsed.config.plugins.entries.get(&found.manifest.id).is_none_or(|entry| entry.enabled)
        };
        let skill_folders = found.iter().filter(in_use);
        let skill_folders = skill_folders.map(|found| (found.manifest.id.clone(), found.folder.clone())).collect();
        let (added, plugins) = add_plugins(door, loaded, found, &options.observer)?;
        door = added;
        let servers = mcp_servers(loaded, Some(state), options.sampling);
        Ok(Self { door, builtin, plugins, skill_folders, servers })
    }
}

/// Adds the plugins that are turned on. Returns their processes too, none of which is started.
pub(crate) fn add_plugins(
    mut door: DoorBuilder,
    loaded: &Loaded,
    found: Vec<Found>,
    observer: &Observer,
) -> Result<(DoorBuilder, Vec<Arc<PluginProcess>>), RuntimeError> {
    let mut plugins = Vec::new();
    for found in found {
        let entry = loaded.parsed.config.plugins.entries.get(&found.manifest.id).cloned().unwrap_or_default();
        if !entry.enabled {
            continue;
        }
        let process = PluginProcess::new(&found, PluginSettings { config: entry.config, environment: entry.env });
        let provided = provide(&found, &process, &hook_settings(&found.manifest.id, &entry.hooks)?)?;
        if !provided.left_out.is_empty() {
            observer.tell(Notice::HooksLeftOut { plugin: found.manifest.id.clone(), hooks: provided.left_out });
        }
        door = door.plugin(provided.plugin)?;
        plugins.push(process);
    }
    Ok((door, plugins))
}

/// Returns the built-in tools, which cannot change what decides over them.
fn builtin(loaded: &Loaded, state: &Path, plugins: &[Found], sites: &Sites) -> Result<Builtin, RuntimeError> {
    let mut settings = settings(loaded)?;
    let workspace = settings.workspace.clone();
    prepare(&workspace, loaded).map_err(|source| RuntimeError::Workspace { path: workspace.clone(), source })?;
    let (config, held) = (loaded.clone(), state.to_owned());
    let folders: Vec<PathBuf> = plugins.iter().map(|plugin| plugin.folder.clone()).collect();
    settings.guard = Guard::new(move |choice, workspace| guarded(&config, choice, workspace, &held, &folders));
    settings.other_workspaces = sites.all();
    settings.hidden = ["secrets.json", "mcp-auth", "mcp-import.json"].map(|name| state.join(name)).into();
    Ok(Builtin::new(settings)?)
}

/// Returns all plugins, those that are turned off too. A plugin that is wrong is an error even so: it may be one that guards
/// something.
pub fn found_plugins(loaded: &Loaded, state: Option<&Path>, observer: &Observer) -> Result<Vec<Found>, RuntimeError> {
    let found = trusted_plugins(loaded, state, observer)?;
    let ids = || found.iter().map(|found| found.manifest.id.clone());
    match loaded.parsed.config.plugins.entries.keys().find(|id| !ids().any(|known| known == **id)) {
        Some(id) => {
            let near = nearest(id, ids().map(|known| (known.clone(), known)), 1).pop();
            Err(RuntimeError::NoPlugin { id: id.clone(), near })
        }
        None => Ok(found),
    }
}

/// Like [`found_plugins`], but the config may have settings for a plugin that is not there: it may be about to be installed.
pub fn trusted_plugins(loaded: &Loaded, state: Option<&Path>, observer: &Observer) -> Result<Vec<Found>, RuntimeError> {
    let named = plugin_paths(loaded);
    let usual = state.map(|state| state.join("plugins"));
    // Between two steps of an update a plugin is not in its place, and a plugin that is missing guards nothing.
    let reading = state.map(read_installed).transpose()?;
    if let Some((_, Some(recovered))) = &reading {
        tracing::warn!("an installation that was interrupted has been settled: {recovered:?}");
    }
    let found = discover(&named, usual.as_deref())?;
    for path in named.iter().chain(&usual).chain(found.iter().flat_map(trusted_paths).collect::<Vec<_>>().iter()) {
        if let Some(warning) = trust(path)? {
            observer.tell(Notice::SharedPath(warning));
        }
    }
    Ok(found)
}

/// Returns the paths that decide what a plugin does: its folder, and the files in it.
fn trusted_paths(found: &Found) -> Vec<PathBuf> {
    let files = std::fs::read_dir(&found.folder).into_iter().flatten().flatten().map(|entry| entry.path());
    std::iter::once(found.folder.clone()).chain(files).collect()
}

/// The directories in which plugins are looked for, as the config names them.
pub(crate) fn plugin_paths(loaded: &Loaded) -> Vec<PathBuf> {
    let paths = &loaded.parsed.config.plugins.paths;
    paths.iter().map(|path| beside(loaded.file.as_deref(), path)).collect()
}

/// The words of all commands that a config has Pincer start: hooks, and servers that do not say where they start.
pub(crate) fn started_words(loaded: &Loaded) -> Vec<Vec<String>> {
    let (config, anchors) = (&loaded.parsed.config, mcp_anchors(loaded));
    let hooks = config.hooks.commands().map(|command| hook_words(loaded, command));
    let servers = config.mcp.servers.values().filter(|server| server.cwd.is_none()).filter_map(|server| {
        let words: Vec<String> = std::iter::once(server.command.clone()?).chain(server.args.iter().cloned()).collect();
        Some(anchored(&words, &anchors))
    });
    let secrets = config.secrets.values().filter_map(|source| match source {
        SecretSource::Command(words) => Some(anchored(words, &anchors)),
        SecretSource::File(_) | SecretSource::Keychain(_) => None,
    });
    hooks.chain(servers).chain(secrets).collect()
}

/// The words of servers that say where they start: what lies there is theirs, but not their scripts.
pub(crate) fn placed_words(loaded: &Loaded) -> Vec<Vec<String>> {
    let beside = loaded.file.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
    let placed = loaded.parsed.config.mcp.servers.values().filter_map(|server| {
        let directory = beside.join(server.cwd.as_ref()?);
        let words: Vec<String> = std::iter::once(server.command.clone()?).chain(server.args.iter().cloned()).collect();
        Some(anchored(&words, &[directory]))
    });
    placed.collect()
}

/// Hooks and rules: what has a say before any tool.
pub(crate) fn gates(loaded: &Loaded, sites: &Sites) -> Result<DoorBuilder, PolicyError> {
    let config = &loaded.parsed.config;
    let mut door = add_hooks(Door::builder().redactor(redactor(config)), loaded, sites)?;
    for (index, rule) in config.approvals.rules.iter().enumerate() {
        let matcher = Matcher::parse(&format!("approvals.rules[{index}].match"), rule.matches.names())?;
        door = door.rule(ApprovalRule { matcher, decision: decision(rule.decision) });
    }
    if let Some(seconds) = config.approvals.expire_after_seconds {
        door = door.approval_lifetime(Duration::from_secs(seconds));
    }
    Ok(door)
}

fn settings(loaded: &Loaded) -> Result<Settings, RuntimeError> {
    let config = &loaded.parsed.config;
    let exec = &config.tools.exec;
    // On Linux by the process, not by its path: an upgrade may have put another program there.
    let itself = match cfg!(target_os = "linux") {
        true => PathBuf::from("/proc/self/exe"),
        false => std::env::current_exe().map_err(RuntimeError::Itself)?,
    };
    let approved = match exec.confine {
        false => Approved::Everything,
        true => Approved::Workspace { network: exec.network },
    };
    let sandboxed = if exec.network { SandboxBounds::Network } else { SandboxBounds::NoNetwork };
    let program = vec![itself.display().to_string(), "confine".into()];
    let confinement = Confinement { program, approved, sandboxed };
    let web = &config.tools.web;
    Ok(Settings {
        workspace: workspace(loaded),
        other_workspaces: Vec::new(),
        guard: Guard::default(),
        hidden: Vec::new(),
        exec_mode: match exec.mode {
            keys::ExecMode::Deny => ExecMode::Deny,
            keys::ExecMode::Allowlist => ExecMode::Allowlist,
            keys::ExecMode::Ask => ExecMode::Ask,
            keys::ExecMode::Full => ExecMode::Full,
        },
        exec_allow: exec.allow.clone(),
        exec: ExecSettings {
            timeout: Duration::from_millis(exec.timeout_ms),
            output_bytes: usize::try_from(exec.max_output_bytes).unwrap_or(usize::MAX),
            environment: exec.env.clone(),
            pass: exec.pass_env.clone(),
            confinement: Some(confinement),
        },
        web: WebSettings {
            timeout: Duration::from_millis(web.timeout_ms),
            body_bytes: usize::try_from(web.max_bytes).unwrap_or(usize::MAX),
            allow_hosts: web.allow_hosts.clone(),
        },
        redactor: redactor(config),
        channels: channels(config),
    })
}

/// The channels that `message` may send on.
fn channels(config: &Config) -> BTreeMap<String, ChannelRule> {
    let used = config.channels.iter().filter(|(_, channel)| channel.enabled);
    let rule = |(name, channel): (&String, &keys::Channel)| {
        let lifetime_ms = config.delivery_lifetime_ms(name);
        (name.clone(), ChannelRule { allow_to: channel.allow_to.clone(), lifetime_ms })
    };
    used.map(rule).collect()
}

/// Returns what takes secrets out of texts that are shown. The patterns have been checked with the config.
pub fn redactor(config: &Config) -> Redactor {
    let patterns = config.logging.redact_patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect();
    Redactor { patterns, ..Redactor::default() }
}

fn decision(decision: Decision) -> RuleDecision {
    match decision {
        Decision::Ask => RuleDecision::Ask,
        Decision::Allow => RuleDecision::Allow,
        Decision::Deny => RuleDecision::Deny,
    }
}
