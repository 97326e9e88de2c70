//! What a token endpoint answers.

use serde::Deserialize;

/// Tokens, as they are granted.
#[derive(Deserialize)]
pub(super) struct Granted {
    pub access_token: String,
    #[serde(default)]
    pub token_type: String,
    /// Some send it as text.
    #[serde(default, deserialize_with = "seconds")]
    pub expires_in: Option<u64>,
    #[serde(default)]
    pub refresh_token: Option<String>,
    #[serde(default)]
    pub scope: Option<String>,
}

impl Granted {
    pub(super) fn is_bearer(&self) -> bool {
        // Absent it is against the standard, and common.
        self.token_type.is_empty() || self.token_type.eq_ignore_ascii_case("bearer")
    }
}

/// An error of a token endpoint.
#[derive(Deserialize)]
pub(super) struct Refusal {
    pub error: String,
}

impl Refusal {
    /// Whether another try would end the same way.
    pub(super) fn is_final(&self) -> bool {
        const FINAL: &[&str] = &[
            "invalid_grant",
            "invalid_client",
            "unauthorized_client",
            "invalid_scope",
            "invalid_target",
            "unsupported_grant_type",
        ];
        FINAL.contains(&self.error.as_str())
    }

    /// The code, if it is one: a server may put anything here.
    pub(super) fn code(&self) -> &str {
        let is_code =
            self.error.len() <= 64 && self.error.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if is_code { &self.error } else { "an error without a known code" }
    }
}

fn seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Seconds {
        Whole(u64),
        Parts(f64),
        Text(String),
    }
    Ok(match Option::<Seconds>::deserialize(deserializer)? {
        Some(Seconds::Whole(seconds)) => Some(seconds),
        Some(Seconds::Parts(seconds)) => Some(seconds.max(0.0) as u64),
        Some(Seconds::Text(text)) => text.parse().ok(),
        None => None,
    })
}
