//! Idempotency keys: a request that is sent twice is done once.

use crate::{Millis, Reply};

/// The history of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remembered {
    /// It was new, and is reserved for this request now.
    New,
    /// The same request was accepted before; its answer, if there is one yet.
    Same(Option<String>),
    /// Another request was accepted under this key.
    Different,
}

/// Keys that requests carry.
pub trait IdempotencyKeys {
    /// Reserves a key for a request, told by its digest, or returns what is known of it.
    fn reserve_key(&self, scope: &str, key: &str, digest: &[u8], now: Millis) -> Reply<Remembered>;
    /// Stores the answer to the request that reserved the key.
    fn answer_key(&self, scope: &str, key: &str, answer: &str) -> Reply<()>;
    /// Forgets the keys that are older; returns how many.
    fn forget_keys(&self, before: Millis) -> Reply<usize>;
}
