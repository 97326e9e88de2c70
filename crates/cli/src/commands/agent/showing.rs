//! `pincer agent --show-prompt`: the instructions of a message that is not sent.

use pincer_agent::{Part, Request, ShownPrompt};
use serde_json::{Value, json};

use super::{Form, Here, refused};
use crate::print::{harmless, line};

/// The bytes and tokens of a text.
#[derive(Clone, Copy, Default)]
struct Size {
    bytes: usize,
    tokens: usize,
}

impl Size {
    fn of(text: &str) -> Self {
        Self { bytes: text.len(), tokens: tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len() }
    }

    fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, tokens: self.tokens + other.tokens }
    }
}

impl Here {
    /// Prints the instructions of a message. Nothing is sent and nothing is stored.
    pub(super) async fn show_prompt(&self, request: Request, form: Form) -> Result<u8, u8> {
        let shown = self.agent.show_prompt(&self.user, &self.key, &request).await.map_err(|error| refused(&error))?;
        match form {
            Form::Text => text(&shown),
            Form::Json | Form::Events => line(&document(&shown, self.key.as_str()).to_string()),
        }
        Ok(crate::DONE)
    }
}

/// Returns the definitions of the tools, as they go into a request.
fn tools(shown: &ShownPrompt) -> Size {
    let tool = |tool: &pincer_model::Tool| json!({ "name": tool.name, "description": tool.description, "inputSchema": tool.parameters });
    let tools: Vec<Value> = shown.tools.iter().map(tool).collect();
    if tools.is_empty() { Size::default() } else { Size::of(&Value::from(tools).to_string()) }
}

fn document(shown: &ShownPrompt, session: &str) -> Value {
    let part = |part: &Part| {
        let size = Size::of(&part.text);
        let mut document = json!({ "part": part.part, "bytes": size.bytes, "tokens": size.tokens, "text": part.text });
        if let Some(file) = &part.file {
            document["file"] = json!(file);
        }
        document
    };
    let prompt = &shown.prompt;
    let parts: Vec<Value> = prompt.parts.iter().chain(&prompt.suffix).map(part).collect();
    let total =
        prompt.parts.iter().chain(&prompt.suffix).map(|part| Size::of(&part.text)).fold(tools(shown), Size::and);
    json!({
        "session": session,
        "model": shown.model,
        "workspace": shown.workspace,
        "parts": parts,
        "boundaryAfter": prompt.parts.len(),
        "tools": { "count": shown.tools.len(), "bytes": tools(shown).bytes, "tokens": tools(shown).tokens },
        "total": { "bytes": total.bytes, "tokens": total.tokens },
    })
}

fn text(shown: &ShownPrompt) {
    let row = |name: &str, size: Size| line(&format!("{name:<32}{:>10}{:>10}", size.bytes, size.tokens));
    let name = |part: &Part| match &part.file {
        Some(file) => format!("{} {file}", part.part.as_str()),
        None => part.part.as_str().to_owned(),
    };
    let prompt = &shown.prompt;
    line(&format!("{:<32}{:>10}{:>10}", "part", "bytes", "tokens"));
    let definitions = tools(shown);
    row(&format!("definitions of {} tools", shown.tools.len()), definitions);
    let mut total = definitions;
    for part in &prompt.parts {
        row(&name(part), Size::of(&part.text));
        total = total.and(Size::of(&part.text));
    }
    line("---- cache boundary: the text before it is the same in every request of the session ----");
    if let Some(part) = &prompt.suffix {
        row(&name(part), Size::of(&part.text));
        total = total.and(Size::of(&part.text));
    }
    row("total", total);
    for part in prompt.parts.iter().chain(&prompt.suffix) {
        line(&format!("\n==== {} ====", name(part)));
        line(&part.text.lines().map(harmless).collect::<Vec<_>>().join("\n"));
    }
}
