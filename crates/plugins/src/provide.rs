//! A plugin as the door takes it: its tools, hooks and namespaces, all of which speak to its process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::PolicyError;
use pincer_hooks::{Ask, External, HookError, HookName, Kind, OnFailure, Reach, Registration, Settings};
use pincer_tools::hooks::{Hook, Observer, PersistHook};
use pincer_tools::{BoxFuture, Matcher, Payload, Plugin, Tool, ToolCall, ToolError};
use serde_json::{Value, json};

use crate::manifest::ManifestHook;
use crate::process::{Failure, PluginProcess, wrong};
use crate::{Found, Manifest};

/// The settings of the user for the hooks of a plugin.
#[derive(Clone, Debug, Default)]
pub struct HookSettings {
    /// The longest that each may take, whatever the manifest says.
    pub timeout: Option<Duration>,
    /// The same for single hooks.
    pub timeouts: BTreeMap<HookName, Duration>,
    /// Whether hooks that read conversations are used. If absent, it is not settled.
    pub allow_conversation_access: Option<bool>,
    /// Whether hooks that add to the prompt are used.
    pub allow_prompt_injection: bool,
}

/// The reason why a plugin cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProvideError {
    /// A matcher cannot be read.
    #[error(transparent)]
    Matcher(#[from] PolicyError),
    /// A gate must not be left out in silence.
    #[error(
        "the plugin {plugin} wants to guard runs ({hook}), which reads conversations, and that is not allowed yet: set \
         `plugins.entries.{plugin}.hooks.allowConversationAccess` to true, or to false to use the plugin without it"
    )]
    Undecided {
        /// The plugin.
        plugin: String,
        /// The hook.
        hook: HookName,
    },
}

/// A plugin as [`Door::register`](pincer_tools::Door::register) takes it.
pub struct Provided {
    /// All that it brings.
    pub plugin: Plugin,
    /// Hooks that are not used because the user has not allowed them.
    pub left_out: Vec<HookName>,
}

/// Makes of a plugin what [`Door::register`](pincer_tools::Door::register) takes.
pub fn provide(found: &Found, process: &Arc<PluginProcess>, settings: &HookSettings) -> Result<Provided, ProvideError> {
    let manifest = &found.manifest;
    let mut plugin = Plugin::new(manifest.id.clone());
    for (entry, tool) in manifest.entries().into_iter().zip(&manifest.tools) {
        let timeout = Duration::from_millis(tool.timeout_ms);
        let tool = PluginTool { process: Arc::clone(process), name: tool.name.clone(), timeout };
        plugin.tools.push((entry, Arc::new(tool)));
    }
    let left_out = add_hooks(&mut plugin, manifest, process, settings)?;
    // Checked when the manifest was read.
    plugin.namespaces = manifest.namespaces.iter().filter_map(|namespace| namespace.made().ok()).collect();
    Ok(Provided { plugin, left_out })
}

/// Adds the hooks of a plugin that the user allows. Returns the others.
fn add_hooks(
    plugin: &mut Plugin,
    manifest: &Manifest,
    process: &Arc<PluginProcess>,
    settings: &HookSettings,
) -> Result<Vec<HookName>, ProvideError> {
    let program: Arc<dyn Ask> = Arc::new(PluginHook(Arc::clone(process)));
    let name = format!("of the plugin {}", manifest.id);
    let mut left_out = Vec::new();
    for (index, hook) in manifest.hooks.iter().enumerate() {
        let ManifestHook { event, priority, timeout_ms, .. } = *hook;
        let spec = event.spec();
        let is_allowed = match spec.reach {
            Reach::Plain => true,
            Reach::Conversation => settings.allow_conversation_access == Some(true),
            Reach::Prompt => settings.allow_prompt_injection,
        };
        if !is_allowed {
            if spec.kind == Kind::Gate
                && spec.on_failure == OnFailure::Block
                && settings.allow_conversation_access.is_none()
            {
                return Err(ProvideError::Undecided { plugin: manifest.id.clone(), hook: event });
            }
            left_out.push(event);
            continue;
        }
        let of_manifest = timeout_ms.map(Duration::from_millis);
        let timeout = settings.timeouts.get(&event).copied().or(settings.timeout).or(of_manifest);
        let matcher = || Matcher::parse(&format!("hooks[{index}].matcher"), &hook.matcher);
        let usual = timeout.unwrap_or(spec.timeout);
        match event {
            HookName::BeforeToolCall => plugin.hooks.push(Hook {
                name: name.clone(),
                matcher: matcher()?,
                priority,
                timeout: usual,
                hook: Arc::new(External::new(Arc::clone(&program))),
            }),
            HookName::AfterToolCall => plugin.observers.push(Observer {
                matcher: matcher()?,
                timeout: usual,
                hook: Arc::new(External::new(Arc::clone(&program))),
            }),
            HookName::ToolResultPersist => plugin.persisting.push(PersistHook {
                matcher: matcher()?,
                hook: pincer_hooks::Hook::new(name.clone(), External::new(Arc::clone(&program)))
                    .priority(priority)
                    .timeout(usual),
            }),
            other => {
                let settings =
                    Settings { name: name.clone(), priority, timeout, may_inject: settings.allow_prompt_injection };
                plugin.others.extend(Registration::external(other, &program, settings));
            }
        }
    }
    Ok(left_out)
}

struct PluginTool {
    process: Arc<PluginProcess>,
    name: String,
    timeout: Duration,
}

impl Tool for PluginTool {
    fn call(&self, call: ToolCall) -> BoxFuture<'_, Result<Payload, ToolError>> {
        Box::pin(async move {
            let context = &call.context;
            let params = json!({
                "name": self.name,
                "input": call.input,
                "context": {
                    "session": context.session,
                    "agent": context.agent,
                    "sender": context.sender,
                    "channel": context.channel,
                    "runId": context.run.as_ref().map(|run| run.id()),
                    "callId": context.parent_call,
                },
            });
            let answered = tokio::select! {
                biased;
                // The request is dropped, and the plugin told so.
                () = call.abort.cancelled() => return Err(ToolError::unknown("the call was aborted")),
                answered = self.process.request("tool/call", params, Some(call.updates)) => answered?,
            };
            match answered {
                Value::Object(mut members) if members.contains_key("value") => {
                    Ok(members.remove("value").unwrap_or_default().into())
                }
                other => {
                    let shown: String = other.to_string().chars().take(120).collect();
                    let what = format!("answered the call of {} with `{shown}` instead of {{\"value\": …}}", self.name);
                    Err(wrong(self.process.says(&what)))
                }
            }
        })
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.timeout)
    }
}

struct PluginHook(Arc<PluginProcess>);

impl Ask for PluginHook {
    fn ask<'a>(&'a self, hook: HookName, event: Value) -> BoxFuture<'a, Result<Option<Value>, HookError>> {
        Box::pin(async move {
            let answer = self.0.request(&format!("hook/{hook}"), event, None).await;
            answer.map(Some).map_err(|failure| match failure {
                Failure::NotMade(why) => HookError::Start(why.into()),
                Failure::Fell(why) => HookError::Answer(why.into()),
                Failure::Refused(error) => HookError::Answer(error.message.into()),
            })
        })
    }

    fn tell<'a>(&'a self, hook: HookName, event: Value) -> BoxFuture<'a, Result<(), HookError>> {
        Box::pin(async move {
            self.0.notify(&format!("hook/{hook}"), event).await;
            Ok(())
        })
    }
}
