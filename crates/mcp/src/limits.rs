//! What a server may take of us.

/// A message of a server. The value of a call is at most half of this.
pub(crate) const MOST_MESSAGE_BYTES: usize = 16 << 20;
/// Pages of a listing.
pub(crate) const MOST_PAGES: usize = 500;
/// Tools of a server.
pub(crate) const MOST_TOOLS: usize = 10_000;
/// A tool's name.
pub(crate) const MOST_NAME_CHARS: usize = 256;
/// How much of what a server wrote to standard error an error shows.
pub(crate) const STDERR_BYTES: usize = 2000;
/// The log of a server, which begins anew when it is larger.
pub(crate) const MOST_LOG_BYTES: u64 = 5 << 20;
