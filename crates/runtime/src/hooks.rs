//! The hooks of the config: commands that have a say, and the rights of plugins' hooks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::{PolicyError, nearest};
use pincer_config::Loaded;
use pincer_config::keys::{CommandLine, PluginHooks};
use pincer_hooks::{
    Ask, BoxFuture, CommandHook, External, HookError, HookName, OnFailure, Registration, Settings, Table,
};
use pincer_plugins::{Found, HookSettings, PluginProcess};
use pincer_process::{anchored, anchored_line};
use pincer_tools::hooks::{Hook, PersistHook};
use pincer_tools::{DoorBuilder, Matcher};
use serde_json::Value;

use crate::assembly::{add_plugins, found_plugins, gates, trusted_plugins};
use crate::error::RuntimeError;
use crate::guarded::is_in_the_open;
use crate::notice::Observer;
use crate::sites::Sites;
use crate::state::usual_state_directory;
use crate::workspace::workspace;

/// The hooks of a config and its plugins, for commands that open no runtime.
pub struct ConfiguredHooks {
    table: Arc<Table>,
    plugins: Vec<Arc<PluginProcess>>,
}

impl ConfiguredHooks {
    /// Reads the hooks of a config. No plugin is started before one of its hooks is asked.
    pub fn load(loaded: &Loaded, state: Option<&Path>, observer: &Observer) -> Result<Self, RuntimeError> {
        Self::of(found_plugins(loaded, state, observer)?, loaded, state, observer)
    }

    /// Like [`ConfiguredHooks::load`], but the config may have settings for a plugin that is not there: it may be about to be installed.
    pub fn for_installs(loaded: &Loaded, state: Option<&Path>, observer: &Observer) -> Result<Self, RuntimeError> {
        Self::of(trusted_plugins(loaded, state, observer)?, loaded, state, observer)
    }

    fn of(found: Vec<Found>, loaded: &Loaded, state: Option<&Path>, observer: &Observer) -> Result<Self, RuntimeError> {
        let directory = state.map(Path::to_owned).or_else(usual_state_directory).unwrap_or_default();
        let gates = gates(loaded, &Sites::new(loaded, &directory))?;
        let (door, plugins) = add_plugins(gates, loaded, found, observer)?;
        Ok(Self { table: door.hooks(), plugins })
    }

    /// Returns the hooks.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Ends the plugins that were started.
    pub async fn end(&self) {
        for plugin in &self.plugins {
            plugin.end().await;
        }
    }
}

/// Adds the hooks of the config to a door.
pub(crate) fn add_hooks(mut door: DoorBuilder, loaded: &Loaded, sites: &Sites) -> Result<DoorBuilder, PolicyError> {
    let hooks = &loaded.parsed.config.hooks;
    let workspaces: Vec<PathBuf> = std::iter::once(workspace(loaded)).chain(sites.all()).collect();
    let program = |command: &CommandLine| {
        let command = hook_words(loaded, command);
        let is_in_the_open = workspaces.iter().any(|workspace| is_in_the_open(&command, workspace));
        CommandHook { command, is_in_the_open }
    };
    for (hook, commands) in hooks.about_tools() {
        for (index, command) in commands.iter().enumerate() {
            let name = format!("hooks.{hook}[{index}]");
            let matcher = Matcher::parse(&format!("{name}.matcher"), command.matcher.names())?;
            let asked: Arc<dyn Ask> = Arc::new(program(&command.command));
            let (priority, timeout) = (command.priority, command.timeout_ms.map(Duration::from_millis));
            door = match HookName::named(hook) {
                Some(HookName::BeforeToolCall) => door.hook(Hook {
                    name,
                    matcher,
                    priority,
                    timeout: timeout.unwrap_or(HookName::BeforeToolCall.spec().timeout),
                    hook: Arc::new(External::new(asked)),
                }),
                Some(HookName::AfterToolCall) => door.observer(pincer_tools::hooks::Observer {
                    matcher,
                    timeout: timeout.unwrap_or(HookName::AfterToolCall.spec().timeout),
                    hook: Arc::new(External::new(asked)),
                }),
                _ => {
                    let hook = pincer_hooks::Hook::new(name, External::new(asked)).priority(priority);
                    door.persisting(PersistHook {
                        matcher,
                        hook: match timeout {
                            Some(timeout) => hook.timeout(timeout),
                            None => hook,
                        },
                    })
                }
            };
        }
    }
    for (hook, commands) in hooks.others() {
        for (index, command) in commands.iter().enumerate() {
            let settings = Settings {
                name: format!("hooks.{hook}[{index}]"),
                priority: command.priority,
                timeout: command.timeout_ms.map(Duration::from_millis),
                may_inject: true,
            };
            let asked: Arc<dyn Ask> = match single_command(hook) {
                Some(action) => Arc::new(OneCommand { action: action.to_owned(), program: program(&command.command) }),
                None => Arc::new(program(&command.command)),
            };
            let place = if single_command(hook).is_some() { HookName::Command } else { named(hook) };
            if let Some(registration) = Registration::external(place, &asked, settings) {
                door = door.other_hook(registration);
            }
        }
    }
    Ok(door)
}

/// Returns the command that a hook such as `command:new` is about.
fn single_command(hook: &str) -> Option<&str> {
    hook.strip_prefix("command:").filter(|action| *action != "*")
}

/// Returns the place of a key of the config. A test compares the keys with the table.
fn named(hook: &str) -> HookName {
    HookName::named(hook).unwrap_or(HookName::Command)
}

/// A hook that is told of one command only.
struct OneCommand {
    action: String,
    program: CommandHook,
}

impl Ask for OneCommand {
    fn ask<'a>(&'a self, hook: HookName, event: Value) -> BoxFuture<'a, Result<Option<Value>, HookError>> {
        match event["action"] == self.action.as_str() {
            true => self.program.ask(hook, event),
            false => Box::pin(std::future::ready(Ok(None))),
        }
    }

    fn tell<'a>(&'a self, hook: HookName, event: Value) -> BoxFuture<'a, Result<(), HookError>> {
        match event["action"] == self.action.as_str() {
            true => self.program.tell(hook, event),
            false => Box::pin(std::future::ready(Ok(()))),
        }
    }
}

/// The program of a hook of the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookProgram {
    /// Its place in the config: `hooks.before_tool_call[0]`.
    pub at: String,
    /// The effect of its failure.
    pub on_failure: OnFailure,
    /// The program, as it is started. A line for the shell is started by the shell.
    pub program: String,
}

/// Returns the programs of the hooks of the config, without starting any.
pub fn hook_programs(loaded: &Loaded) -> Vec<HookProgram> {
    let hooks = &loaded.parsed.config.hooks;
    let about_tools = hooks.about_tools();
    let about_tools = about_tools
        .iter()
        .flat_map(|(name, hooks)| hooks.iter().enumerate().map(move |(index, hook)| (*name, index, &hook.command)));
    let others = hooks.others();
    let others = others
        .iter()
        .flat_map(|(name, hooks)| hooks.iter().enumerate().map(move |(index, hook)| (*name, index, &hook.command)));
    let program = |(name, index, command): (&str, usize, &CommandLine)| HookProgram {
        at: format!("hooks.{name}[{index}]"),
        on_failure: named(name).spec().on_failure,
        program: hook_words(loaded, command).into_iter().next().unwrap_or_default(),
    };
    about_tools.chain(others).map(program).collect()
}

/// Returns the words of a hook. It starts elsewhere, so its relative paths are made absolute: as seen from here, or from the config.
pub(crate) fn hook_words(loaded: &Loaded, command: &CommandLine) -> Vec<String> {
    let beside = loaded.file.as_deref().and_then(Path::parent).map(Path::to_owned);
    let places: Vec<PathBuf> = std::env::current_dir().ok().into_iter().chain(beside).collect();
    match command {
        CommandLine::Words(words) => anchored(words, &places),
        CommandLine::Shell(line) => CommandLine::Shell(anchored_line(line, &places)).words(),
    }
}

/// Returns what the user has settled for the hooks of a plugin.
pub(crate) fn hook_settings(plugin: &str, keys: &PluginHooks) -> Result<HookSettings, RuntimeError> {
    let timeout = |(name, millis): (&String, &u64)| match HookName::named(name) {
        Some(hook) => Ok((hook, Duration::from_millis(*millis))),
        None => {
            let names = HookName::ALL.iter().map(|hook| (hook.to_string(), hook.to_string()));
            let near = nearest(name, names, 1).pop();
            Err(RuntimeError::NoHook { plugin: plugin.to_owned(), hook: name.clone(), near })
        }
    };
    Ok(HookSettings {
        timeout: keys.timeout_ms.map(Duration::from_millis),
        timeouts: keys.timeouts.iter().map(timeout).collect::<Result<_, _>>()?,
        allow_conversation_access: keys.allow_conversation_access,
        allow_prompt_injection: keys.allow_prompt_injection.unwrap_or(true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_has_a_key_for_each_hook_of_the_table_and_no_other() {
        let hooks = pincer_config::keys::Hooks::default();
        let about_tools = hooks.about_tools().map(|(name, _)| name);
        let others = hooks.others().into_iter().map(|(name, _)| name);
        let mut keys: Vec<&str> =
            about_tools.into_iter().chain(others).filter(|name| single_command(name).is_none()).collect();
        let mut names: Vec<&str> = HookName::ALL.iter().map(|hook| hook.as_str()).collect();
        keys.sort_unstable();
        names.sort_unstable();
        assert_eq!(keys, names);
    }
}
