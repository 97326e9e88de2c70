//! MCP clients: where their configs are, which servers stand in them, and how Pincer gets into them.
//!
//! [`known_files`] says where the configs of clients are, [`recognise`] what a file is that somebody names. An [`Importer`] makes
//! servers for our own config of what stands in them, with a remark for everything that it could not take over. [`block`] is what
//! puts Pincer into a client; [`install()`] writes it there, beside a backup, and changes nothing else.
//!
//! Nothing here prints, asks, or looks at the environment: home, directory and variables are the caller's to give. What is found is
//! not started and not believed.
//!
//! ```
//! use pincer_clients::{Client, Importer, Secrets, Surroundings, System, files_of};
//!
//! let home = tempfile::tempdir()?;
//! std::fs::create_dir(home.path().join(".cursor"))?;
//! std::fs::write(
//!     home.path().join(".cursor/mcp.json"),
//!     r#"{ "mcpServers": { "My Git": { "command": "npx", "args": ["git-mcp"], "env": { "TOKEN": "${env:GIT_TOKEN}" } } } }"#,
//! )?;
//!
//! let around = Surroundings::new(home.path(), "project", System::Linux);
//! let mut importer = Importer::new(&around, Secrets::Keep);
//! let reading = importer.read(&files_of(Client::Cursor, &around)[0])?;
//! assert_eq!(reading.servers[0].name, "My-Git");
//! assert_eq!(reading.servers[0].server.env["TOKEN"], "${GIT_TOKEN}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;
mod error;
mod file;
mod importer;
mod install;
mod launch;
mod parse;
mod secrets;
mod server;
mod toml;
mod variables;

pub use client::{Client, ClientFile, Format, Reach, Surroundings, System, files_of, known_files, recognise};
pub use error::{ClientError, SyntaxError};
pub use file::{read_text, replace_file};
pub use importer::{Found, Importer, LeftOut, Needed, Reading, Reason};
pub use install::{Change, Installed, Replace, install, preview};
pub use launch::{Launch, OUR_NAME, block};
pub use secrets::{Hidden, Secrets};
pub use server::ServerError;
pub use toml::TomlError;
pub use variables::Passing;
