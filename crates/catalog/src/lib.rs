//! Every tool in one catalog, whatever its source: what it is called, who may have it, how it is found, how its types read.
//!
//! This crate has no IO and runs nothing. It is given entries and answers questions about them; running a tool is the business
//! of `pincer-tools`. Descriptions and schemas of untrusted entries are an attacker's words: they are shortened, escaped and
//! ranked here, and never believed.
//!
//! ```
//! use pincer_catalog::{Catalog, Entry, Index, Layer, Policy, Rules, Source, ToolId};
//!
//! let entry = |owner, name, what| ToolId::new(Source::Openclaw, owner, name).map(|id| Entry::new(id, what));
//! let all = Catalog::new([
//!     entry("core", "read", "Read a file of the workspace")?,
//!     entry("core", "web_fetch", "Fetch a page from the web")?,
//! ])?;
//!
//! let rules = Rules { deny: vec!["web_*".into()], ..Rules::default() };
//! let policy = Policy::open().with(Layer::new("tools", &rules)?);
//! let mine = policy.apply(&all);
//! assert!(mine.find("read").is_ok() && mine.find("web_fetch").is_err());
//!
//! let found = Index::new(&all).search("download a web page", 8);
//! assert_eq!(found[0].id.name(), "web_fetch");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod catalog;
pub mod declare;
mod entry;
pub mod names;
mod near;
mod operation;
mod policy;
mod search;
pub mod shown_names;
mod text;

pub use catalog::{Catalog, CompactEntry, DuplicateTool, LookupError};
pub use entry::{Entry, Flags, IdError, Source, ToolId};
pub use near::nearest;
pub use operation::Operation;
pub use policy::{Explanation, Layer, Policy, PolicyError, Profile, Reason, Rules, Selector, Step, is_glob_match};
pub use search::{Index, stems};
pub use text::shortened;
