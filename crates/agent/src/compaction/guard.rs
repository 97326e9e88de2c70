//! Ends a run that a compaction does not help: the model forgets what it did and does it again.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The most times in a row that the same call may come after a compaction.
const MOST_REPEATS: u32 = 3;
/// The most times in a row that a request may be too long: compacted once as usual, once to the least.
pub(crate) const MOST_OVERFLOWS: u32 = 2;
/// The most compactions before a model replies.
const MOST_IDLE: u32 = 2;

/// The memory of a run about its compactions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Guard {
    /// The compactions of this run.
    pub compactions: u32,
    /// The requests in a row that the provider found too long.
    pub overflows: u32,
    /// The compactions since the model last replied to more than the wish for notes.
    idle: u32,
    /// The last call since a compaction, with its result.
    last_call: Option<String>,
    /// The times in a row that the call came.
    repeats: u32,
}

impl Guard {
    /// Notes a compaction.
    pub(crate) fn compacted(&mut self) {
        self.compactions += 1;
        self.idle += 1;
    }

    /// Notes a reply that is no part of writing notes.
    pub(crate) fn replied(&mut self) {
        self.overflows = 0;
        self.idle = 0;
    }

    /// Returns whether compactions make no room: another one would not, either.
    pub(crate) fn is_idle(&self) -> bool {
        self.idle >= MOST_IDLE
    }

    /// Notes a call and its result.
    pub(crate) fn called(&mut self, name: &str, arguments: &str, result: &str) {
        if self.compactions == 0 {
            return;
        }
        let mut digest = Sha256::new();
        for part in [name, arguments, result] {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        let call: String = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        match self.last_call.as_ref() == Some(&call) {
            true => self.repeats += 1,
            false => (self.last_call, self.repeats) = (Some(call), 1),
        }
    }

    /// Returns whether the run goes round in a circle.
    pub(crate) fn is_looping(&self) -> bool {
        self.repeats >= MOST_REPEATS
    }

    pub(crate) fn is_unused(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compactions_make_no_room_if_the_model_has_no_turn_between_them() {
        let mut guard = Guard::default();
        guard.compacted();
        assert!(!guard.is_idle());
        guard.compacted();
        assert!(guard.is_idle());
        guard.replied();
        assert!(!guard.is_idle());
    }

    #[test]
    fn the_same_call_with_the_same_result_is_a_loop_only_after_a_compaction() {
        let mut guard = Guard::default();
        (0..9).for_each(|_| guard.called("look", "{}", "a"));
        assert!(!guard.is_looping());
        guard.compactions = 1;
        guard.called("look", "{}", "a");
        guard.called("look", "{}", "a");
        guard.called("look", "{}", "b");
        guard.called("look", "{}", "a");
        assert!(!guard.is_looping(), "its result changes");
        guard.called("look", "{}", "a");
        guard.called("look", "{}", "a");
        assert!(guard.is_looping());
    }
}
