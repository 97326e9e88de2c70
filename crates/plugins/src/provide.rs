//! A plugin as the door takes it: its tools, hooks and namespaces, all of which speak to its process.

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::PolicyError;
use pincer_tools::hooks::{
    AfterHook, AfterToolCall, BeforeHook, BeforeToolCall, BeforeVerdict, Hook, HookError, Observer,
};
use pincer_tools::{BoxFuture, Matcher, Payload, Plugin, Tool, ToolCall, ToolError};
use serde_json::{Value, json};

use crate::manifest::HookEvent;
use crate::process::{Failure, PluginProcess, wrong};
use crate::{Found, Manifest};

/// Makes of a plugin what [`Door::register`](pincer_tools::Door::register) takes. `hook_timeout` is the user's, if there is one.
pub fn provide(
    found: &Found,
    process: &Arc<PluginProcess>,
    hook_timeout: Option<Duration>,
) -> Result<Plugin, PolicyError> {
    let manifest = &found.manifest;
    let mut plugin = Plugin::new(manifest.id.clone());
    for (entry, tool) in manifest.entries().into_iter().zip(&manifest.tools) {
        let timeout = Duration::from_millis(tool.timeout_ms);
        let tool = PluginTool { process: Arc::clone(process), name: tool.name.clone(), timeout };
        plugin.tools.push((entry, Arc::new(tool)));
    }
    add_hooks(&mut plugin, manifest, process, hook_timeout)?;
    // Checked when the manifest was read.
    plugin.namespaces = manifest.namespaces.iter().filter_map(|namespace| namespace.made().ok()).collect();
    Ok(plugin)
}

fn add_hooks(
    plugin: &mut Plugin,
    manifest: &Manifest,
    process: &Arc<PluginProcess>,
    timeout: Option<Duration>,
) -> Result<(), PolicyError> {
    for (index, hook) in manifest.hooks.iter().enumerate() {
        let matcher = Matcher::parse(&format!("hooks[{index}].matcher"), &hook.matcher)?;
        let timeout = timeout.unwrap_or(Duration::from_millis(hook.timeout_ms));
        let asked = Arc::new(PluginHook(Arc::clone(process)));
        match hook.event {
            HookEvent::BeforeToolCall => {
                let name = format!("of the plugin {}", manifest.id);
                plugin.hooks.push(Hook { name, matcher, priority: hook.priority, timeout, hook: asked });
            }
            HookEvent::AfterToolCall => plugin.observers.push(Observer { matcher, timeout, hook: asked }),
        }
    }
    Ok(())
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

impl BeforeHook for PluginHook {
    fn before_tool_call<'a>(&'a self, event: &'a BeforeToolCall) -> BoxFuture<'a, Result<BeforeVerdict, HookError>> {
        Box::pin(async move {
            let event = serde_json::to_value(event).map_err(|error| HookError::Start(error.into()))?;
            let answer =
                self.0.request("hook/before_tool_call", event, None).await.map_err(|failure| match failure {
                    Failure::NotMade(why) => HookError::Start(why.into()),
                    Failure::Fell(why) => HookError::Answer(why.into()),
                    Failure::Refused(error) => HookError::Answer(error.message.into()),
                })?;
            if answer.is_null() {
                return Ok(BeforeVerdict::default());
            }
            serde_json::from_value(answer).map_err(|error| HookError::Answer(error.into()))
        })
    }
}

impl AfterHook for PluginHook {
    fn after_tool_call<'a>(&'a self, event: &'a AfterToolCall) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Ok(event) = serde_json::to_value(event) {
                self.0.notify("hook/after_tool_call", event).await;
            }
        })
    }
}
