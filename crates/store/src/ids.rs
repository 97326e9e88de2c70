//! Names of things in the store. Each kind is a type of its own, so that one cannot be passed for another.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! ids {
    ($($(#[$doc:meta])+ $name:ident;)+) => {$(
        $(#[$doc])+
        ///
        /// Clones share the text.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                *self.0 == *other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                *self.0 == **other
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self("".into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }
    )+};
}

ids! {
    /// Names a run: `cm_` and a UUID that begins with the time.
    RunId;
    /// Names a session of a user. Two users may have sessions of the same key.
    SessionKey;
    /// Names a call in events and questions. Within a run, the journal knows a call by its number.
    CallId;
    /// Names a question to a person: `ap_` and a UUID.
    ApprovalId;
    /// Names a grant: `gr_` and a UUID.
    GrantId;
    /// Names a process that shares the store.
    OwnerId;
    /// Names a session for good: the key may mean another one later.
    SessionId;
    /// Names an entry of a session.
    EntryId;
    /// Names a run of an agent: `ar_` and a UUID that begins with the time.
    AgentRunId;
    /// Names a job of the schedule: `cj_` and a UUID that begins with the time.
    CronJobId;
    /// Names a delivery: `dl_` and a UUID that begins with the time.
    DeliveryId;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_as_its_text() {
        let id = RunId::from("cm_1");
        assert_eq!(
            (id.to_string(), format!("{id:?}"), format!("{id:>6}")),
            ("cm_1".into(), "\"cm_1\"".into(), "  cm_1".into())
        );
        assert!(id == "cm_1" && id.as_str() == "cm_1");
    }
}
