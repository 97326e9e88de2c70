//! The config file: what may stand in it, where it is found, and what is wrong with it.
//!
//! The types under [`keys`] are the whole truth: the published JSON Schema and the reference page are made from them, and a file
//! is checked against that same schema, so that what an editor marks is what Pincer refuses. Everything wrong is told at once,
//! with its path, its value and the nearest right thing. Numbers outside their range are brought into it and warned of.
//!
//! [`add_servers`] changes the text of a file and leaves the rest of it, comments included, as it is.
//!
//! This crate reads the one file and nothing else; what the settings do is the business of those who are given them.
//!
//! ```
//! let file = r#"{ tools: { profile: "coding", deny: ["${FORBIDDEN}"] } } // JSON5"#;
//! let read = pincer_config::parse(file, &|name| (name == "FORBIDDEN").then(|| "exec".to_owned()))?;
//! assert_eq!(read.config.tools.deny, ["exec"]);
//!
//! let wrong = pincer_config::parse("{ tools: { profil: 'coding' } }", &|_| None).unwrap_err();
//! assert_eq!(wrong.to_string(), "tools.profil: there is no such key; did you mean `profile`?");
//! # Ok::<(), pincer_config::Problems>(())
//! ```

mod check;
pub mod edit;
pub mod keys;
mod layout;
mod locate;
mod names;
mod policy;
mod problem;
mod read;
mod reference;
mod render;
mod secrecy;
mod servers;
mod trust;
mod variables;

pub use keys::{Config, schema};
pub use locate::{Candidates, ConfigError, FILE_NAME, Loaded, find, load, load_with};
pub use names::server_name;
pub use policy::Subject;
pub use problem::{Problem, Problems, Warning};
pub use read::{Parsed, document, parse, parse_with};
pub use reference::reference;
pub use render::Keys;
pub use servers::{EditError, Edited, Existing, add_servers};
pub use trust::{Distrust, trust};
pub use variables::{
    Environment, ReferenceError, ResolveError, SecretError, Sources, Unresolved, Values, is_secret_name, resolve,
};
