//! `pincer exec`: one cell, and what it came to.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use pincer_codemode::{CodeModeResult, Exec, Failed, TIMEOUT_MS, TIMEOUT_MS_DEFAULT};
use pincer_config::keys::CodeModeFields;
use pincer_sandbox::{Limits, Output};

use crate::print::{chain, line, note, value};
use crate::usage::{ExecArguments, PlaceArguments};
use crate::{DONE, FAILED, WRONG_USAGE, engine, settings};

pub(crate) fn run(places: &PlaceArguments, arguments: &ExecArguments) -> u8 {
    let source = match (&arguments.code, &arguments.file) {
        (Some(code), _) => Ok(code.clone()),
        (None, Some(file)) => read(file),
        (None, None) => Err("there is no program: pass -e CODE, a file, or - for standard input".into()),
    };
    let source = match source {
        Ok(source) => source,
        Err(error) => {
            note(&format!("error: {error}"));
            return WRONG_USAGE;
        }
    };
    let configured = match settings::ready(places) {
        Ok(loaded) => loaded.parsed.config.tools.code_mode.fields(),
        Err(code) => return code,
    };
    if let Some(said) = arguments.timeout_ms.filter(|said| !TIMEOUT_MS.contains(said)) {
        let (least, most) = (TIMEOUT_MS.start(), TIMEOUT_MS.end());
        let clamped = said.clamp(*least, *most);
        note(&format!("warning: --timeout-ms {said} is not within {least} to {most}: {clamped} is used"));
    }
    let timeout_ms = arguments.timeout_ms.or(configured.timeout_ms).unwrap_or(TIMEOUT_MS_DEFAULT);
    let result = match engine::load(1) {
        Ok(engine) => Exec::new(&source).timeout_ms(timeout_ms).limits(limits(&configured)).run(&engine),
        Err(error) => CodeModeResult::unavailable(chain(&error)),
    };
    if arguments.json {
        match serde_json::to_string(&result) {
            Ok(json) => line(&json),
            Err(error) => note(&format!("error: the result cannot be written as JSON: {error}")),
        }
    } else {
        show(&result, &source);
    }
    match result {
        CodeModeResult::Completed(_) => DONE,
        CodeModeResult::Failed(_) => FAILED,
    }
}

fn limits(configured: &CodeModeFields) -> Limits {
    let usual = Limits::default();
    let or = |said: Option<u64>, usual: usize| said.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usual);
    Limits {
        memory_bytes: or(configured.memory_limit_bytes, usual.memory_bytes),
        output_bytes: or(configured.max_output_bytes, usual.output_bytes),
        ..usual
    }
}

/// One byte more than a program may have.
const MOST_SOURCE: u64 = (1 << 20) + 1;

fn read(file: &Path) -> Result<String, String> {
    let (name, bytes) = if file == Path::new("-") {
        let mut bytes = Vec::new();
        ("standard input".to_owned(), io::stdin().lock().take(MOST_SOURCE).read_to_end(&mut bytes).map(|_| bytes))
    } else {
        let mut bytes = Vec::new();
        let read = fs::File::open(file).and_then(|file| file.take(MOST_SOURCE).read_to_end(&mut bytes));
        (file.display().to_string(), read.map(|_| bytes))
    };
    let bytes = bytes.map_err(|error| format!("{name} cannot be read: {error}"))?;
    if bytes.len() as u64 == MOST_SOURCE {
        return Err(format!("{name} is longer than the {} bytes that a program may have", MOST_SOURCE - 1));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("{name} is not UTF-8 text (the first bad byte is number {}): a program must be", at + 1)
    })
}

fn show(result: &CodeModeResult, source: &str) {
    let (CodeModeResult::Completed(pincer_codemode::Completed { output, .. })
    | CodeModeResult::Failed(Failed { output, .. })) = result;
    for item in output {
        match item {
            Output::Text { text } => line(text),
            Output::Json { value: json } => line(&value(json)),
        }
    }
    match result {
        CodeModeResult::Completed(done) => {
            line(&value(&done.value));
            if done.value.as_str() == "null" && !source.contains("return") {
                note("hint: the program has no `return`, so it has no value");
            }
        }
        CodeModeResult::Failed(failed) => note(&format!("error: {}", failed.error)),
    }
}
