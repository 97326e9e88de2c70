//! Trajectories: what happened in a session, as a folder of files that can be given away, and how such a folder is read.
//!
//! [`Exporter`] writes a bundle. It reads a session in parts and writes as it goes, so a large session takes no more memory than a small
//! one, and nothing old is dropped. All that is written has gone through a [`Cleaner`](pincer_secrecy::Cleaner).
//! [`read`] reads a bundle, which may be cut, damaged or hostile, and says so; [`write_page`] makes one page of it.
//!
//! The crate knows no model, no tool and no loop, and prints nothing.

mod about;
mod branch;
mod bundle;
mod entries;
mod error;
mod event;
mod export;
mod manifest;
mod sources;
mod view;
mod window;
mod writing;

pub use about::About;
pub use error::ExportError;
pub use export::{Exported, Exporter, Program, without_secrets};
pub use manifest::{Counts, FileSum, Limits, Manifest, SourceSum, Truncation};
pub use view::{Finding, Shown, State, Tone, ViewError, Viewed, read, write_page};

/// The name of the schema of events.
pub const SCHEMA: &str = "openclaw-trajectory";
/// The version of that schema.
pub const VERSION: u32 = 1;
