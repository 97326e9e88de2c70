//! The stored form of a parked cell: what its memory has that its image has not, and what it waits for.
//!
//! This crate turns memory into bytes and back. It knows nothing of WebAssembly, JavaScript or where the bytes are kept, so
//! that it can be tested and fuzzed alone. Reading is written for hostile bytes: [`read`] checks everything a snapshot says
//! before anything is done with it.
//!
//! A cell that is stored often is stored as a chain: a snapshot and up to [`MAX_DELTAS`] deltas. [`Checkpoints`] makes
//! them, [`read_chain`] reads them.
//!
//! ```
//! use pincer_snapshot::{ContentHash, Dictionary, Header, WASM_PAGE, read, write};
//!
//! let image = vec![0; 2 * WASM_PAGE];
//! let mut memory = image.clone();
//! memory[70_000] = 7;
//! let header = Header {
//!     engine: ContentHash::of(b"engine"),
//!     image: ContentHash::of(&image),
//!     stack_pointer: 4096,
//!     wasm_pages: 2,
//!     next_request: 1,
//!     pending: vec![0],
//! };
//! let dictionary = Dictionary::new(b"what snapshots of this image have in common");
//! let bytes = write(&header, &memory, &image, &dictionary, 10_000).expect("it is small");
//!
//! let parked = read(&bytes)?;
//! assert_eq!(parked.header, header);
//! let mut restored = image.clone();
//! parked.apply(&mut restored, &dictionary)?;
//! assert!(restored == memory);
//! # Ok::<(), pincer_snapshot::Unreadable>(())
//! ```

mod chain;
mod checkpoints;
mod copied;
mod copies;
mod difference;
mod format;
mod hash;
mod hashed;
mod parts;
mod patch;

pub use chain::{Chain, read_chain};
pub use checkpoints::{Checkpoint, Checkpoints, MAX_DELTAS};
pub use difference::{Dictionary, difference};
pub use format::{Header, Parked, TooLarge, Unreadable, read, write};
pub use hash::ContentHash;

/// The unit in which memory is compared.
pub const PAGE: usize = 4096;
/// The unit of a memory's length, as WebAssembly has it.
pub const WASM_PAGE: usize = 65536;
