//! From the text that a model wrote to the text that the engine runs.

use std::borrow::Cow;

use pincer_source::{Prepared, SourceError, prepare};

use crate::input::ExecInput;
use crate::outcome::RunError;
use crate::result::ErrorCode;
use crate::scope::RunScope;

/// Returns the text that the engine runs.
pub(crate) fn prepared(input: &ExecInput, scope: &RunScope) -> Result<Prepared, RunError> {
    if !scope.settings.languages.contains(&input.language) {
        return Err(RunError::failed(
            ErrorCode::UnsupportedLanguage,
            format!("code mode {} input is disabled by tools.codeMode.languages.", input.kind()),
        ));
    }
    let limit = scope.settings.limits.source_bytes;
    if input.code.len() > limit {
        return Err(RunError::of_error(&pincer_sandbox::Error::SourceTooLong { bytes: input.code.len(), limit }));
    }
    let code = without_fence(&input.code);
    prepare(&code, input.language.into()).map_err(|error| {
        let code = match &error {
            SourceError::Syntax(_) if looks_like_typescript(&code) => {
                let hint = "if this is TypeScript, say so: language: \"typescript\"";
                return RunError::failed(ErrorCode::InvalidInput, format!("{error}\n{hint}"));
            }
            SourceError::Syntax(_) => ErrorCode::InvalidInput,
            SourceError::TypeScript(_) => ErrorCode::TypescriptTransformFailed,
            SourceError::ModuleAccess { .. } => ErrorCode::ModuleAccessDenied,
            SourceError::Shell { command } => return RunError::failed(ErrorCode::InvalidInput, shell(command, scope)),
        };
        RunError::failed(code, error.to_string())
    })
}

/// Blanks the Markdown fence around a program, as models like to write it: the lines stay where they are.
pub(crate) fn without_fence(code: &str) -> Cow<'_, str> {
    const FENCE: &str = "```";
    let text = code.trim();
    let shared = text.strip_prefix(FENCE).and_then(|text| text.strip_suffix(FENCE));
    match shared.and_then(|shared| shared.split_once('\n')) {
        Some((tag, program)) if tag.trim().chars().all(char::is_alphanumeric) && !program.contains(FENCE) => {
            let before = code.len() - code.trim_start().len();
            let lines = code[..before].matches('\n').count() + 1;
            Cow::Owned("\n".repeat(lines) + program)
        }
        _ => Cow::Borrowed(code),
    }
}

/// Returns whether a text that is no JavaScript looks like TypeScript. Only for a hint: nothing is parsed.
fn looks_like_typescript(code: &str) -> bool {
    const SIGNS: [&str; 14] = [
        ": string",
        ": number",
        ": boolean",
        ": any",
        ": unknown",
        ": void",
        "[]>",
        "Record<",
        "Array<",
        "Promise<",
        "interface ",
        "enum ",
        " as const",
        " as any",
    ];
    SIGNS.iter().any(|sign| code.contains(sign))
}

/// What a tool stands for that runs command lines.
const SHELL: &str = "sh";

fn shell(command: &str, scope: &RunScope) -> String {
    let how = match scope.tools.instead_of(SHELL) {
        Some(tool) => {
            let (id, command) = (&tool.id, serde_json::Value::from(command));
            format!("a command is run by the tool {id}: await tools.call(\"{id}\", {{ command: {command} }})")
        }
        None => "this run has no tool that runs commands".into(),
    };
    format!("this tool runs JavaScript, not shell commands like `{command}`; {how}")
}
