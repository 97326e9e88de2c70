//! What a server may take of us.

/// A message of a server. The value of a call is at most half of this.
pub(crate) const MOST_MESSAGE_BYTES: usize = 16 << 20;
/// Pages of a listing.
pub(crate) const MOST_PAGES: usize = 500;
/// Tools of a server.
pub(crate) const MOST_TOOLS: usize = 10_000;
/// A tool as the server describes it, schemas and all.
pub(crate) const MOST_TOOL_BYTES: usize = 256 << 10;
/// All tools of a server, as it describes them.
pub(crate) const MOST_LISTING_BYTES: usize = 32 << 20;
/// A tool's name.
pub(crate) const MOST_NAME_CHARS: usize = 256;
/// How much of what a server wrote to standard error an error shows.
pub(crate) const STDERR_BYTES: usize = 2000;
/// What a server tells without being asked, and the message of its progress.
pub(crate) const MOST_NOTICE_CHARS: usize = 16 << 10;
pub(crate) const MOST_PROGRESS_CHARS: usize = 1000;
/// How often a call may tell of its progress in a second.
pub(crate) const MOST_UPDATES: u32 = 100;
/// Questions of a server that somebody thinks about. More are declined.
pub(crate) const MOST_QUESTIONS: usize = 8;
/// Answers of ours that a server has not read.
pub(crate) const MOST_UNREAD: usize = 1000;
/// The log of a server, which begins anew when it is larger.
pub(crate) const MOST_LOG_BYTES: u64 = 5 << 20;
