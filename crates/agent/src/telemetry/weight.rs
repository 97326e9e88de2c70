//! The size of a part of a request.

use pincer_model::Tool;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::compaction::estimate;

/// The size of a part of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Weight {
    /// Its bytes.
    pub bytes: u64,
    /// Its tokens, estimated.
    pub tokens: u64,
}

impl Weight {
    pub(crate) fn of(text: &str) -> Self {
        Self { bytes: text.len() as u64, tokens: estimate::text(text) }
    }

    /// Returns the weight of tools as a model is sent them, but for the wire format's own words.
    pub(crate) fn of_tools(tools: &[Tool]) -> Self {
        let tool = |Tool { name, description, parameters }: &Tool| {
            Self::of(&json!({ "name": name, "description": description, "parameters": parameters }).to_string())
        };
        tools.iter().map(tool).sum()
    }

    /// Returns the weight of texts.
    pub(crate) fn of_texts(texts: &[String]) -> Self {
        texts.iter().map(|text| Self::of(text)).sum()
    }
}

impl std::iter::Sum for Weight {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| sum + part)
    }
}

impl std::ops::Add for Weight {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { bytes: self.bytes.saturating_add(other.bytes), tokens: self.tokens.saturating_add(other.tokens) }
    }
}

/// The difference of two weights. It is negative if more was sent than direct exposure would have sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Saved {
    /// In bytes.
    pub bytes: i64,
    /// In tokens, estimated.
    pub tokens: i64,
}

impl Saved {
    pub(crate) fn between(direct: Weight, sent: Weight) -> Self {
        let less = |direct: u64, sent: u64| {
            let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            signed(direct).saturating_sub(signed(sent))
        };
        Self { bytes: less(direct.bytes, sent.bytes), tokens: less(direct.tokens, sent.tokens) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_surface_that_costs_more_than_direct_exposure_saves_less_than_nothing() {
        let weight = |bytes: u64| Weight { bytes, tokens: bytes / 4 };
        assert_eq!(Saved::between(weight(100), weight(40)), Saved { bytes: 60, tokens: 15 });
        assert_eq!(Saved::between(weight(40), weight(100)), Saved { bytes: -60, tokens: -15 });
        assert_eq!(Saved::between(weight(40), weight(40)), Saved::default());
    }
}
