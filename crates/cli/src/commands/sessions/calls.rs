//! The calls of a reply, as people read them: programs with their lines and calls, and results.

use console::style;
use pincer_sessions::{Block, Message, NestedCall};
use pincer_store::Entry;
use serde_json::Value;

use super::list::lasted;
use super::page::Page;

/// A call of a reply, with all that came of it.
pub(super) struct ShownCall<'e> {
    pub block: &'e Block,
    /// The calls that the program made.
    pub nested: Vec<&'e Entry>,
    pub results: Vec<ShownResult<'e>>,
}

/// The result of a call.
pub(super) struct ShownResult<'e> {
    pub message: &'e Message,
    /// A mark if it is not on the branch in use.
    pub mark: &'static str,
}

/// Returns whether a stored name of a call means the call with this id. A call whose id an earlier one has gets a longer name.
pub(super) fn is_of(name: &str, id: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_longer = |rest: &str| {
        let numbers = rest.strip_prefix('~').and_then(|rest| rest.split_once('.'));
        numbers.is_some_and(|(position, index)| is_number(position) && is_number(index))
    };
    name == id || name.strip_prefix(id).is_some_and(is_longer)
}

impl ShownCall<'_> {
    /// Adds the call with its results.
    pub(super) fn show(&self, page: &mut Page) {
        let name = page.value(self.block.name.as_deref().unwrap_or("?"));
        let arguments = self.block.arguments.as_ref().map_or("{}", |arguments| arguments.as_str());
        match self.program() {
            Some(code) => {
                page.line(1, &style(name).yellow(), &[]);
                page.code(2, &code);
            }
            None => {
                let arguments = page.value(arguments);
                page.line(1, &style(name).yellow(), &[&arguments]);
            }
        }
        self.nested.iter().for_each(|entry| nested(page, 2, entry));
        self.results.iter().for_each(|result| result.show(page));
        if self.results.is_empty() {
            page.line(2, &style("no result").dim(), &[]);
        }
    }

    /// Returns the code, if the call ran a program.
    fn program(&self) -> Option<String> {
        let arguments: Value = self.block.arguments.as_ref().and_then(|arguments| arguments.to().ok())?;
        let is_program = |result: &ShownResult<'_>| {
            result.details().is_some_and(|details| details.get("program").is_some_and(|program| !program.is_null()))
        };
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
        match self.block.name.as_deref() {
            Some("exec") if self.results.iter().any(is_program) || !self.nested.is_empty() => {
                text("code").or_else(|| text("command"))
            }
            // A shell command has the other name.
            Some("exec") => text("code"),
            _ => None,
        }
    }
}

impl ShownResult<'_> {
    fn details(&self) -> Option<Value> {
        self.message.details.as_ref().and_then(|details| details.to().ok())
    }

    pub(super) fn show(&self, page: &mut Page) {
        let word = match self.message.is_error {
            Some(true) => style("failed").red(),
            _ => style("→").green(),
        };
        let duration = self.details().and_then(|details| details.get("durationMs").and_then(Value::as_i64));
        let duration = duration.map(lasted).unwrap_or_default();
        let pictures = pictures(self.message).join(", ");
        let text = self.message.text();
        if page.is_full() && text.contains('\n') {
            page.line(2, &word, &[&pictures, &duration, self.mark]);
            page.block(3, &text);
        } else {
            let text = page.value(text.trim_end());
            page.line(2, &word, &[&text, &pictures, &duration, self.mark]);
        }
    }
}

/// Adds a call that a program made.
pub(super) fn nested(page: &mut Page, depth: usize, entry: &Entry) {
    let Ok(call) = serde_json::from_str::<NestedCall>(&entry.body) else {
        return page.line(depth, &style("a call that cannot be read").red(), &[]);
    };
    let at = call.line.map_or_else(|| "call".to_owned(), |line| format!("line {line}"));
    let (tool, input) = (page.value(&call.tool), page.value(call.input.as_str()));
    let end = match (&call.error, call.duration_ms) {
        (Some(error), _) => format!("failed: {}", page.value(error)),
        (None, Some(duration)) => lasted(duration),
        (None, None) => String::new(),
    };
    page.line(depth, &style(at).dim(), &[&tool, &input, &end]);
    if let Some(output) = call.output.filter(|_| page.is_full()) {
        let output = page.value(output.as_str());
        page.line(depth + 1, &style("→").green(), &[&output]);
    }
}

/// Returns the pictures of a message, in words.
pub(super) fn pictures(message: &Message) -> Vec<String> {
    let picture = |block: &Block| {
        let kind = block.mime_type.as_deref().unwrap_or("image");
        match (&block.data, &block.url) {
            (Some(data), _) => format!("[{kind}, {} bytes]", data.len() / 4 * 3),
            (None, url) => format!("[{kind} {}]", url.as_deref().unwrap_or_default()),
        }
    };
    message.content.iter().filter(|block| block.kind == "image").map(picture).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_with_the_id_of_an_earlier_one_has_a_longer_name() {
        for (name, id, expected) in [
            ("c", "c", true),
            ("c~12.0", "c", true),
            ("c~2", "c", false),
            ("c~2~12.0", "c", false),
            ("c~2~12.0", "c~2", true),
            ("cc", "c", false),
            ("c~.", "c", false),
        ] {
            assert_eq!(is_of(name, id), expected, "{name} {id}");
        }
    }
}
