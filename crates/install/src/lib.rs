//! Plugins and skills put in place: staged, checked, scanned, shown, and moved atomically.
//!
//! A source is a folder or an archive, and hostile. [`Installs::stage`] copies it into the state directory, entry by entry, and refuses
//! all that is not a plain file or folder with a plain name. From there each step takes the one before it, so that none can be left
//! out: the operator's [`Policy`], the scan, the answers of `before_install` hooks, a person's [`Consent`], and the commit. Nothing of the
//! source is run on the way.
//!
//! The commit is a few renames behind a journal. [`read_installed`] finishes or undoes what a dead process left, and is what readers
//! of the installed folders call first.
//!
//! This crate prints nothing and asks no questions; its caller passes on the answers of people and hooks.
//!
//! ```
//! use pincer_hooks::events::Installing;
//! use pincer_install::{Consent, Installs, Kind, Need, Policy};
//! # let state = tempfile::tempdir()?;
//! # let source = tempfile::tempdir()?;
//! # std::fs::write(source.path().join("SKILL.md"), "---\nname: greeting\n---\nSay hello.\n")?;
//!
//! let installs = Installs::new(&state.path().join("pincer"));
//! let staged = installs.stage(Kind::Skill, source.path())?;
//! let judged = staged.permit(&Policy::new(&Default::default())?)?.scan()?.judged(&Installing::Go { findings: vec![] })?;
//! assert_eq!(judged.need(), Need::Consent);
//! let done = judged.accept(Consent::Given)?.commit()?;
//! assert!(installs.place(Kind::Skill, "greeting").join("SKILL.md").is_file());
//! # assert_eq!(done.record.id, "greeting");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod commit;
mod consent;
mod contents;
mod digest;
mod error;
mod hook;
mod installs;
mod limits;
mod places;
mod policy;
mod records;
mod refusal;
mod scan;
mod source;
mod stage;
mod steps;
mod target;

pub use commit::Recovered;
pub use consent::{Consent, Need, Unagreed};
pub use contents::About;
pub use digest::{Digest, NoDigest};
pub use error::InstallError;
pub use installs::Installs;
pub use limits::Limits;
pub use places::{Reading, read_installed};
pub use policy::{Blocked, Policy, PolicyError, Ruling};
pub use records::Record;
pub use refusal::{ArchiveProblem, EntryProblem, Refusal};
pub use scan::skill::SkillManifest;
pub use scan::{Finding, Scan, Severity};
pub use source::{Source, SourceKind};
pub use steps::{Accepted, Done, Judged, Permitted, Plan, Removal, Scanned, Staged};
pub use target::{Kind, Request, is_target_name};
