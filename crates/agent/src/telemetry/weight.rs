//! The size of a part of a request.

use std::io;

use pincer_catalog::Entry;
use pincer_model::Tool;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
        tools.iter().map(|tool| Self::of_tool(&tool.name, &tool.description, &tool.parameters)).sum()
    }

    /// Returns the weight that a tool of the catalog would have under this name.
    pub(crate) fn of_entry(name: &str, entry: &Entry) -> Self {
        Self::of_tool(name, &entry.description, &entry.input_schema)
    }

    fn of_tool(name: &str, description: &str, parameters: &Value) -> Self {
        let mut counted = Counter::default();
        // Counting does not fail.
        let _ = serde_json::to_writer(&mut counted, &Sent { description, name, parameters });
        Self { bytes: counted.bytes, tokens: estimate::of_quarters(counted.quarters) }
    }

    /// Returns the weight of texts.
    pub(crate) fn of_texts(texts: &[String]) -> Self {
        texts.iter().map(|text| Self::of(text)).sum()
    }
}

/// A tool as a model is sent it.
#[derive(Serialize)]
struct Sent<'t> {
    description: &'t str,
    name: &'t str,
    parameters: &'t Value,
}

/// Counts a text that is written, and keeps none of it: schemas have megabytes.
#[derive(Default)]
struct Counter {
    bytes: u64,
    quarters: u64,
}

impl io::Write for Counter {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.bytes += part.len() as u64;
        self.quarters += estimate::quarters_of(&String::from_utf8_lossy(part));
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
    fn a_tool_weighs_as_much_as_its_text() {
        let parameters = serde_json::json!({ "type": "object", "note": "größe \"文件\" \n" });
        let tool = Tool { name: "read".into(), description: "Reads ü 文.".into(), parameters };
        let text =
            serde_json::json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
        assert_eq!(Weight::of_tools(&[tool]), Weight::of(&text.to_string()));
    }

    #[test]
    fn a_surface_that_costs_more_than_direct_exposure_saves_less_than_nothing() {
        let weight = |bytes: u64| Weight { bytes, tokens: bytes / 4 };
        assert_eq!(Saved::between(weight(100), weight(40)), Saved { bytes: 60, tokens: 15 });
        assert_eq!(Saved::between(weight(40), weight(100)), Saved { bytes: -60, tokens: -15 });
        assert_eq!(Saved::between(weight(40), weight(40)), Saved::default());
    }
}
