//! Text for people: errors with their causes, values, sizes and times.

use std::error::Error;
use std::fmt::Write;
use std::io::{self, Write as _};
use std::time::Duration;

use pincer_sandbox::Json;

/// An error and what caused it, on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            let _ = write!(text, ": {message}");
        }
        cause = error.source();
    }
    text
}

/// A string as it is, anything else as indented JSON.
pub(crate) fn value(json: &Json) -> String {
    match json.to::<serde_json::Value>() {
        Ok(serde_json::Value::String(text)) => text,
        Ok(value) => serde_json::to_string_pretty(&value).unwrap_or_else(|_| json.to_string()),
        Err(_) => json.to_string(),
    }
}

/// `41.2 µs`, `3.41 ms`, `1.2 s`.
pub(crate) fn time(time: Duration) -> String {
    let micros = time.as_nanos() as f64 / 1000.0;
    match micros {
        _ if micros < 1000.0 => format!("{micros:.1} µs"),
        _ if micros < 1_000_000.0 => format!("{:.2} ms", micros / 1000.0),
        _ => format!("{:.2} s", micros / 1_000_000.0),
    }
}

/// `1812 bytes`, `18.1 KB`, `3.4 MB`.
pub(crate) fn bytes(count: usize) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..1_000_000 => format!("{:.1} KB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}

/// Prints to stdout. A reader that has gone away is no error of ours: `pincer exec … | head -1` must not panic.
pub(crate) fn line(text: &str) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}
