//! What one cell may use. Every figure is enforced by the host; the guest is never asked to behave.

/// Caps of a cell. The defaults are those of the code-mode contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How far the guest's memory may grow beyond the image it starts from.
    pub memory_bytes: usize,
    /// Text and JSON output together with the returned value, until
    /// [`Cell::renew_output`](crate::Cell::renew_output).
    pub output_bytes: usize,
    /// The returned value, and the arguments of one request.
    pub value_bytes: usize,
    /// Requests that may be unanswered at a time.
    pub pending_requests: usize,
    /// The source of a program.
    pub source_bytes: usize,
    /// A snapshot as it is stored.
    pub snapshot_bytes: usize,
}

/// The most items of output that one turn may print, also where `output_bytes` would allow more: as a tree in the answer to a
/// client an item takes 700 bytes even if it is empty.
pub const MAX_OUTPUT_ITEMS: usize = 100_000;

const MIB: usize = 1 << 20;

impl Limits {
    /// Returns what the arguments of all requests of one turn may have together: several large ones fit, a loop of them does not.
    pub fn arguments_bytes(&self) -> usize {
        self.value_bytes.saturating_mul(4)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 * MIB,
            output_bytes: 64 << 10,
            value_bytes: 8 * MIB,
            pending_requests: 1024 + 128,
            source_bytes: MIB,
            snapshot_bytes: 10 * MIB,
        }
    }
}

/// The largest `memory_bytes` an engine accepts: its address space is reserved up front.
pub const MAX_MEMORY_BYTES: usize = 1 << 30;
