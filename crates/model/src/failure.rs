//! Finds the meaning of a provider's error by its status, its headers and its words.

use std::time::{Duration, SystemTime};

use pincer_http::excerpt;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::error::{ErrorKind, ModelError, Retry};
use crate::limits::MOST_RAW_CHARS;

/// Waits that a provider asks for are believed up to this.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Words of messages about a conversation that is too long, in lower case.
const OVERFLOWS: [&str; 13] = [
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "context_window_exceeded",
    "exceed_context_size",
    "prompt is too long",
    "input is too long",
    "input length and `max_tokens` exceed",
    "maximum prompt length",
    "too many tokens",
    "request_too_large",
    "reduce the length of the messages",
];

/// Returns the error that an answer with a status other than success stands for.
pub(crate) fn answered(status: u16, headers: &HeaderMap, body: &[u8]) -> ModelError {
    let told = Told::read(&String::from_utf8_lossy(body));
    let kind = told.kind().filter(|kind| fits(*kind, status)).unwrap_or_else(|| by_status(status));
    let mut error = ModelError::new(kind, told.message(Some(status)));
    error.status = Some(status);
    if let Some(retry) = wished(headers) {
        error.retry = retry;
    }
    if error.retry.is_right()
        && let Some(after) = wait(headers, SystemTime::now())
    {
        error.retry = Retry::After(after.min(LONGEST_WAIT));
    }
    error
}

/// Returns the error that an event in the middle of a stream stands for.
pub(crate) fn in_stream(error: &str) -> ModelError {
    let told = Told::read(error);
    let kind = told.kind().unwrap_or(ErrorKind::Overloaded);
    ModelError::new(kind, told.message(None))
}

/// A word of the provider outweighs the status only where it says more of the same.
fn fits(kind: ErrorKind, status: u16) -> bool {
    match kind {
        ErrorKind::ContextOverflow { .. } => matches!(status, 400 | 413 | 422 | 500),
        ErrorKind::Quota => matches!(status, 400 | 402 | 403 | 429),
        ErrorKind::NotFound => matches!(status, 400 | 404 | 422),
        ErrorKind::RateLimit => matches!(status, 400 | 403 | 429 | 503),
        ErrorKind::Overloaded => status == 429 || status >= 500,
        ErrorKind::Authentication => matches!(status, 400 | 401 | 403),
        ErrorKind::Refusal => status < 500,
        _ => false,
    }
}

fn by_status(status: u16) -> ErrorKind {
    match status {
        401 | 403 | 407 => ErrorKind::Authentication,
        402 => ErrorKind::Quota,
        404 | 405 | 410 => ErrorKind::NotFound,
        429 => ErrorKind::RateLimit,
        408 | 409 | 425 => ErrorKind::Network,
        500.. => ErrorKind::Overloaded,
        _ => ErrorKind::BadRequest,
    }
}

/// The words of a provider about an error.
struct Told {
    message: String,
    /// `type` and `code`, in lower case.
    words: String,
    used: Option<u64>,
    limit: Option<u64>,
}

impl Told {
    /// Reads an error in any of the known forms.
    fn read(text: &str) -> Self {
        let value: Value = serde_json::from_str(text).unwrap_or(Value::Null);
        // Some put it into a list.
        let value = value.get(0).unwrap_or(&value);
        let error = match &value["error"] {
            Value::Null => value,
            error => error,
        };
        let text_of = |value: &Value| value.as_str().map(str::to_owned);
        let message = text_of(error)
            .or_else(|| text_of(&error["message"]))
            .or_else(|| text_of(&error["detail"]))
            .or_else(|| text_of(&value["message"]))
            .or_else(|| text_of(&value["detail"]));
        let word = |key: &str| match &error[key] {
            Value::String(word) => word.to_lowercase(),
            Value::Number(number) => number.to_string(),
            _ => String::new(),
        };
        let words = format!("{} {} {}", word("type"), word("code"), word("status"));
        let number = |key: &str| error[key].as_u64();
        let (used, limit) = (number("n_prompt_tokens"), number("n_ctx"));
        let message = message.unwrap_or_else(|| if value.is_null() { text.to_owned() } else { error.to_string() });
        Self { message, words, used, limit }
    }

    fn kind(&self) -> Option<ErrorKind> {
        let message = self.message.to_lowercase();
        let has = |word: &str| self.words.contains(word);
        let says = |word: &str| message.contains(word);
        let is_overflow = OVERFLOWS.iter().any(|word| has(word) || says(word)) && !has("rate_limit");
        if is_overflow {
            let (used, limit) = numbers(&message);
            return Some(ErrorKind::ContextOverflow { used: self.used.or(used), limit: self.limit.or(limit) });
        }
        if has("insufficient_quota") || has("billing") || says("credit balance") || says("insufficient balance") {
            return Some(ErrorKind::Quota);
        }
        if has("overloaded") || has("server_error") || has("api_error") || has("unavailable") {
            return Some(ErrorKind::Overloaded);
        }
        if has("rate_limit") || has("resource_exhausted") || has("too_many_requests") || has("429") {
            return Some(ErrorKind::RateLimit);
        }
        if has("model_not_found") || has("not_found_error") || says("model") && says("does not exist") {
            return Some(ErrorKind::NotFound);
        }
        if has("authentication") || has("invalid_api_key") || has("permission_error") || says("api key not valid") {
            return Some(ErrorKind::Authentication);
        }
        if has("content_filter") || has("content_policy") || has("safety") {
            return Some(ErrorKind::Refusal);
        }
        if has("timeout") {
            return Some(ErrorKind::Overloaded);
        }
        if has("invalid_request") || has("invalid_prompt") || has("bad_request") {
            return Some(ErrorKind::BadRequest);
        }
        None
    }

    fn message(&self, status: Option<u16>) -> String {
        let said = excerpt(&self.message, MOST_RAW_CHARS);
        match (status, said.is_empty()) {
            (Some(status), true) => format!("the provider answered with status {status} and no explanation"),
            (Some(status), false) => format!("the provider answered with status {status}: {said}"),
            (None, true) => "the provider ended the reply with an error".to_owned(),
            (None, false) => format!("the provider ended the reply with an error: {said}"),
        }
    }
}

/// The tokens of a request and of a window, from a sentence with both in it. The larger one is the request's.
fn numbers(message: &str) -> (Option<u64>, Option<u64>) {
    let digits = message.replace(',', "");
    let numbers = digits.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u64>().ok());
    // Smaller ones are versions, codes and prices.
    let mut numbers: Vec<u64> = numbers.filter(|number| (256..100_000_000).contains(number)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    match numbers.as_slice() {
        [] => (None, None),
        [one] => (None, Some(*one)),
        [.., limit, used] => (Some(*used), Some(*limit)),
    }
}

/// Whether the provider itself says that a retry is right.
fn wished(headers: &HeaderMap) -> Option<Retry> {
    match headers.get("x-should-retry")?.to_str().ok()? {
        "true" => Some(Retry::Backoff),
        "false" => Some(Retry::No),
        _ => None,
    }
}

/// The wait that headers ask for.
fn wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|value| value.parse::<f64>().ok()) {
        return seconds(milliseconds / 1000.0);
    }
    if let Some(after) = text("retry-after") {
        let at = || pincer_http::parse_date(after).map(|at| at.duration_since(now).unwrap_or_default());
        return after.parse::<f64>().ok().and_then(seconds).or_else(at);
    }
    // Only what is used up has to be waited for.
    let is_empty = |name: String| text(&name).and_then(|left| left.parse::<f64>().ok()).is_some_and(|left| left < 1.0);
    let openai = ["requests", "tokens"].into_iter().filter(|what| is_empty(format!("x-ratelimit-remaining-{what}")));
    let openai = openai.filter_map(|what| text(&format!("x-ratelimit-reset-{what}")).and_then(span));
    let kinds = ["requests", "tokens", "input-tokens", "output-tokens"].into_iter();
    let anthropic = kinds.filter(|what| is_empty(format!("anthropic-ratelimit-{what}-remaining")));
    let anthropic = anthropic.filter_map(|what| {
        let at = pincer_http::parse_timestamp(text(&format!("anthropic-ratelimit-{what}-reset"))?)?;
        Some(at.duration_since(now).unwrap_or_default())
    });
    openai.chain(anthropic).max()
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

/// `6m0s`, `1.5s`, `120ms`.
fn span(text: &str) -> Option<Duration> {
    let mut whole = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let factor = match &rest[..unit] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        whole = whole.checked_add(seconds(number * factor)?)?;
        rest = &rest[unit..];
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, body: &str) -> ErrorKind {
        answered(status, &HeaderMap::new(), body.as_bytes()).kind
    }

    #[test]
    fn every_kind_is_known_by_what_real_providers_say() {
        let overflow = |used, limit| ErrorKind::ContextOverflow { used, limit };
        for (status, body, expected) in [
            (
                401,
                r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
                ErrorKind::Authentication,
            ),
            (
                401,
                r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
                ErrorKind::Authentication,
            ),
            (
                400,
                r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#,
                ErrorKind::Authentication,
            ),
            (
                404,
                r#"{"error":{"message":"The model `x` does not exist","type":"invalid_request_error","code":"model_not_found"}}"#,
                ErrorKind::NotFound,
            ),
            (404, "not found", ErrorKind::NotFound),
            (
                429,
                r#"{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}"#,
                ErrorKind::RateLimit,
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota"}}"#,
                ErrorKind::Quota,
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
                ErrorKind::Quota,
            ),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                ErrorKind::Overloaded,
            ),
            (503, "", ErrorKind::Overloaded),
            (500, r#"{"error":{"message":"boom","type":"server_error"}}"#, ErrorKind::Overloaded),
            (
                400,
                r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.","code":"context_length_exceeded"}}"#,
                overflow(Some(9001), Some(8192)),
            ),
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}"#,
                overflow(Some(213_462), Some(200_000)),
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":1222,"n_ctx":512}}"#,
                overflow(Some(1222), Some(512)),
            ),
            (400, r#"{"error":{"message":"Invalid 'tools'","type":"invalid_request_error"}}"#, ErrorKind::BadRequest),
            (422, r#"{"detail":[{"msg":"extra fields"}]}"#, ErrorKind::BadRequest),
            (400, r#"{"error":{"message":"flagged","code":"content_filter"}}"#, ErrorKind::Refusal),
            (402, "{}", ErrorKind::Quota),
        ] {
            assert_eq!(kind(status, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn a_provider_says_when_to_come_back() {
        let retry = |status: u16, headers: &[(&'static str, &str)]| {
            let headers =
                headers.iter().map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
            answered(status, &headers.collect(), b"").retry
        };
        let seconds = |seconds: u64| Retry::After(Duration::from_secs(seconds));
        assert_eq!(retry(429, &[("retry-after", "7")]), seconds(7));
        assert_eq!(
            retry(429, &[("retry-after-ms", "1500"), ("retry-after", "9")]),
            Retry::After(Duration::from_millis(1500))
        );
        assert_eq!(retry(503, &[("retry-after", "3")]), seconds(3));
        assert_eq!(retry(429, &[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")]), seconds(0), "now");
        assert_eq!(
            retry(
                429,
                &[
                    ("x-ratelimit-remaining-tokens", "0"),
                    ("x-ratelimit-reset-tokens", "6m0s"),
                    ("x-ratelimit-remaining-requests", "9"),
                    ("x-ratelimit-reset-requests", "1h")
                ]
            ),
            seconds(360)
        );
        assert_eq!(
            retry(
                429,
                &[
                    ("anthropic-ratelimit-tokens-remaining", "0"),
                    ("anthropic-ratelimit-tokens-reset", "1970-01-01T00:00:00Z")
                ]
            ),
            seconds(0)
        );
        assert_eq!(retry(429, &[("x-should-retry", "false"), ("retry-after", "1")]), Retry::No);
        assert_eq!(retry(400, &[("x-should-retry", "true")]), Retry::Backoff);
        assert_eq!(retry(401, &[("retry-after", "1")]), Retry::No);
        assert_eq!(retry(429, &[("retry-after", "soon")]), Retry::Backoff);
        assert_eq!(retry(429, &[("retry-after", "1e300")]), Retry::Backoff);
        assert_eq!(retry(429, &[]), Retry::Backoff);
    }

    #[test]
    fn spans_are_read_as_providers_write_them() {
        assert_eq!(span("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(span("120ms"), Some(Duration::from_millis(120)));
        assert_eq!(span("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(span("x"), None);
        assert_eq!(span("5"), None);
    }
}
