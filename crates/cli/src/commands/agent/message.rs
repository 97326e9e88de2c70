//! The message of `pincer agent`, out of its arguments and files.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pincer_agent::{Attachment, ClientTool, Priority, Request};
use serde_json::Value;

use crate::asking::somebody_is_here;
use crate::usage_agent::AgentArguments;

/// The channel of the command line.
pub(crate) const CHANNEL: &str = "cli";
/// The most bytes of a file that goes with a message.
const MOST_FILE: u64 = 16 << 20;

/// Returns the message that the arguments make.
pub(crate) fn request(arguments: &AgentArguments) -> Result<Request, String> {
    let text = match arguments.message.as_deref() {
        Some("-") => standard_input()?,
        Some(text) => text.to_owned(),
        None if arguments.files.is_empty() => standard_input()?,
        None => String::new(),
    };
    let mut request = with_settings(Request::new(text), arguments);
    for file in &arguments.files {
        let bytes = read(file)?;
        match picture(&bytes) {
            Some(kind) => {
                let data = STANDARD.encode(&bytes);
                request.images.push(Attachment { mime_type: kind.into(), data });
            }
            None => {
                let text = String::from_utf8(bytes)
                    .map_err(|_| format!("{} is neither a picture nor UTF-8 text", file.display()))?;
                request.message.push_str(&format!("\n\n<file name={:?}>\n{text}\n</file>", file.display().to_string()));
            }
        }
    }
    if let Some(file) = &arguments.client_tools {
        let bytes = read(file)?;
        request.client_tools = tools(&bytes).map_err(|error| {
            format!(
                "{}: {error}. It must be a list: [{{\"name\": …, \"description\": …, \"parameters\": {{…}}}}]",
                file.display()
            )
        })?;
    }
    Ok(request)
}

/// Adds what the arguments say about how the message is handled.
pub(crate) fn with_settings(request: Request, arguments: &AgentArguments) -> Request {
    Request {
        channel: Some(CHANNEL.into()),
        agent: arguments.agent.clone(),
        model: arguments.model.clone(),
        thinking: arguments.thinking,
        verbose: arguments.verbose.map(Into::into),
        reasoning: arguments.reasoning.map(Into::into),
        trace: arguments.trace.then_some(true),
        timeout_seconds: arguments.timeout,
        queue: arguments.queue.map(Into::into),
        disable_tools: arguments.no_tools,
        prompt_mode: arguments.prompt_mode.map(Into::into).unwrap_or_default(),
        extra_system_prompt: arguments.extra_system_prompt.clone(),
        priority: if somebody_is_here() { Priority::Foreground } else { Priority::Normal },
        ..request
    }
}

/// Reads a list of tools, in one of the forms in which they are usually written.
fn tools(bytes: &[u8]) -> Result<Vec<ClientTool>, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let list = value.get("tools").cloned().unwrap_or(value);
    let Value::Array(list) = list else { return Err("it is not a list of tools".into()) };
    let tool = |tool: Value| {
        // OpenAI's form has the tool in a member of its own.
        let tool = tool.get("function").cloned().unwrap_or(tool);
        serde_json::from_value(tool).map_err(|error| format!("one of the tools is none: {error}"))
    };
    list.into_iter().map(tool).collect()
}

/// Reads the result of a call: `CALL=JSON`, or `CALL=@FILE`.
pub(crate) fn result(text: &str) -> Result<(String, Value), String> {
    let (call, value) =
        text.split_once('=').ok_or_else(|| format!("--result {text}: write CALL=JSON, or CALL=@FILE"))?;
    let json = match value.strip_prefix('@') {
        Some(file) => String::from_utf8(read(Path::new(file))?).map_err(|_| format!("{file} is not UTF-8 text"))?,
        None => value.to_owned(),
    };
    let value = serde_json::from_str(&json).map_err(|error| format!("--result {call}: it is not JSON: {error}"))?;
    Ok((call.to_owned(), value))
}

fn standard_input() -> Result<String, String> {
    if somebody_is_here() {
        return Err("there is no message: pass -m TEXT".into());
    }
    let mut text = String::new();
    io::stdin()
        .lock()
        .take(MOST_FILE)
        .read_to_string(&mut text)
        .map_err(|error| format!("the message cannot be read from standard input: {error}"))?;
    Ok(text)
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let name = file.display();
    fs::File::open(file)
        .and_then(|file| file.take(MOST_FILE + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("{name} cannot be read: {error}"))?;
    if bytes.len() as u64 > MOST_FILE {
        return Err(format!("{name} is longer than the {MOST_FILE} bytes that a file of a message may have"));
    }
    Ok(bytes)
}

/// Returns the kind of a picture, by its first bytes.
fn picture(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
