//! Other programs, and how everything they start ends with them.
//!
//! Commands, plugins and servers are started here, each in a [`Group`] of its own. It knows nothing of what they are for. And a
//! command of ours can [`split`] in two, so that one half stays behind to finish what it has begun.

mod anchor;
mod descendants;
mod environment;
mod file_size;
mod fork;
mod group;
mod heap;
mod open_files;
mod peer;
mod session;

pub use anchor::{anchored, anchored_line, holds, real};
pub use descendants::adopt_orphans;
pub use environment::clean_environment;
pub use file_size::outlive_file_size_limit;
pub use fork::{Front, Half, Worker, split};
pub use group::{Group, PROCESS_LIMIT, Start};
pub use heap::{
    give_memory_back, keep_no_large_blocks, limit_heap_parts, peak_bytes_of, resident_bytes, resident_bytes_of,
};
pub use open_files::{keep_inherited_files, raise_open_files};
pub use peer::{Peer, peer};
