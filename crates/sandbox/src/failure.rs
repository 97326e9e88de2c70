//! Reads what the guest says of its own failure, and finds the program's line in a guest stack.

use serde::Deserialize;

use crate::bridge::Stop;
use crate::program::FILE_NAME;
use crate::{Failure, FailureKind, Json, RequestId, Site};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    kind: FailureKind,
    name: String,
    message: String,
    stack: String,
    request: Option<u32>,
    /// JSON in a string.
    error: Option<String>,
}

const FRAMES: usize = 50;

impl Failure {
    /// One that the host describes, because the guest no longer can.
    pub(crate) fn of_program(message: String) -> Self {
        let (kind, name, stack) = (FailureKind::Thrown, "Error".into(), String::new());
        Self { kind, name, message, stack, site: None, request: None }
    }
}

pub(crate) fn parse_failure(json: &Json) -> Result<Failure, Stop> {
    let wire: Wire = json.to().map_err(|_| Stop::Spoilt("its failure cannot be read".into()))?;
    let stack: Vec<&str> = wire.stack.lines().filter(|line| line.contains(FILE_NAME)).take(FRAMES).collect();
    let error = wire.error.and_then(|json| Json::parse(json).ok());
    Ok(Failure {
        kind: wire.kind,
        name: wire.name,
        message: wire.message,
        site: site_of(&wire.stack),
        stack: stack.join("\n"),
        request: wire.request.map(RequestId).zip(error),
    })
}

/// The innermost frame of the program itself: `    at name (cell.js:3:14)`.
pub(crate) fn site_of(stack: &str) -> Option<Site> {
    stack.lines().find_map(|line| {
        let (_, place) = line.rsplit_once(FILE_NAME)?;
        let mut numbers = place.trim_end_matches(')').strip_prefix(':')?.split(':').map(str::parse);
        match (numbers.next(), numbers.next(), numbers.next()) {
            // The engine has no line for the function that makes the fields of a class.
            (Some(Ok(line)), Some(Ok(column)), None) if line > 0 => Some(Site { line, column }),
            _ => None,
        }
    })
}

const LINE_ENDS: [char; 4] = ['\n', '\r', '\u{2028}', '\u{2029}'];

/// As JavaScript counts them.
fn lines_of(source: &str) -> u32 {
    source.replace("\r\n", "\n").split(LINE_ENDS).count() as u32
}

/// A program that ends too early, or whose brackets do not match, fails on the line behind it, which is ours. For its author that is its own end.
pub(crate) fn keep_within(source: &str, failure: &mut Failure) {
    let lines = lines_of(source);
    if failure.kind == FailureKind::Syntax && failure.site.is_some_and(|site| site.line > lines) {
        let last = source.rsplit(LINE_ENDS).next().unwrap_or_default();
        failure.site = Some(Site { line: lines, column: last.encode_utf16().count() as u32 + 1 });
        failure.message = "the program ends in the middle of something, or a bracket in it does not match".into();
        failure.stack.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_frame_of_the_program_is_the_site() {
        let stack = "    at request (<pincer>:9:1)\n    at f (cell.js:3:14)\n    at <anonymous> (cell.js:7:2)\n";
        assert_eq!(site_of(stack), Some(Site { line: 3, column: 14 }));
        assert_eq!(site_of("    at cell.js:1:9\n"), Some(Site { line: 1, column: 9 }));
        assert_eq!(site_of("    at f (cell.js)\n    at f (cell.js:x:1)\n    at f (cell.js:-1:1)"), None);
        assert_eq!(
            site_of("    at <anonymous> (cell.js:0:1)\n    at A (cell.js:3:1)"),
            Some(Site { line: 3, column: 1 })
        );
        assert_eq!(site_of(""), None);
    }
}
