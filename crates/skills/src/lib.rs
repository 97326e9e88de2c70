//! Skills: folders with a `SKILL.md`, in which an agent reads how something is done when it needs to.
//!
//! [`discover()`] looks through some [`Place`]s in the order of their precedence. A skill has a name, a description, and perhaps
//! requirements: programs, variables, settings, a system. Everything in such a folder may be hostile: files are bounded, no link leads
//! out of a folder, and what cannot be read is a [`Problem`] beside the skills that can.
//!
//! This crate decides nothing about who has which skill, and knows no model.
//!
//! ```
//! use pincer_skills::{Place, Source, discover};
//!
//! # let workspace = std::env::temp_dir().join(format!("pincer-doc-skills-{}", std::process::id()));
//! # std::fs::create_dir_all(workspace.join("skills/greet"))?;
//! std::fs::write(workspace.join("skills/greet/SKILL.md"), "---\nname: greet\ndescription: How to greet.\n---\nSay hello.")?;
//! let found = discover(&[Place::open(Source::Workspace, &workspace)?]);
//! assert_eq!(found.skills[0].description, "How to greet.");
//! # std::fs::remove_dir_all(workspace)?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod discover;
mod front_matter;
mod place;
mod requirements;

pub use discover::{Found, Problem, Shadowed, Skill, discover};
pub use front_matter::{FrontMatter, FrontMatterError};
pub use place::{MOST_FILE_BYTES, Place, ReadError, SKILL_FILE, Source};
pub use requirements::{Missing, Requirements, Surroundings};
