//! How much a provider may send. A reply that needs more is not one.

/// The bytes of one event. The last event of Responses has the whole reply in it.
pub(crate) const MOST_EVENT_BYTES: usize = 16 << 20;
/// The bytes of everything that a reply is made of.
pub(crate) const MOST_REPLY_BYTES: usize = 16 << 20;
/// The bytes on the wire of one reply: an event for each token, with all that is around it.
pub(crate) const MOST_STREAM_BYTES: u64 = 256 << 20;
/// The parts of a reply.
pub(crate) const MOST_PARTS: usize = 4096;
/// The calls of a reply.
pub(crate) const MOST_CALLS: usize = 512;
/// The tokens that one reply can claim to have taken. Sums of it stay far from the limits of numbers.
pub(crate) const MOST_TOKENS: u64 = 1 << 40;
/// The bytes of a failure's body that are read.
pub(crate) const MOST_FAILURE_BYTES: usize = 64 << 10;
/// The characters of a provider's message that are shown.
pub(crate) const MOST_MESSAGE_CHARS: usize = 600;
/// The characters of it that are looked through for secrets before.
pub(crate) const MOST_RAW_CHARS: usize = 10_000;
/// The values and keys of an event: a tree of them takes far more memory than the text.
pub(crate) const MOST_EVENT_NODES: usize = 100_000;
