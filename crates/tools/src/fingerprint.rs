//! Fingerprints: they tell a tool from another one under the same id.

use pincer_catalog::Entry;
use pincer_json::canonical;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The digest of a tool's id, input schema and flags: of all that a call of it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 16]);

/// Returns the fingerprint of a tool.
pub fn fingerprint(entry: &Entry) -> Fingerprint {
    let flags = serde_json::to_string(&entry.flags).unwrap_or_default();
    // Equal schemas have equal texts, in whatever order a server lists their keys.
    let digest = Sha256::new()
        .chain_update(entry.id.to_string())
        .chain_update([0])
        .chain_update(canonical(&entry.input_schema))
        .chain_update([0])
        .chain_update(flags)
        .finalize();
    let mut first = [0; 16];
    first.copy_from_slice(&digest[..16]);
    Fingerprint(first)
}

impl Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = u128::from_str_radix(&text, 16).map_err(serde::de::Error::custom)?;
        Ok(Self(number.to_be_bytes()))
    }
}
