//! Hooks: closures, commands and plugins that have a say in what an agent does, or are told of it.
//!
//! There is one table of all of them ([`HookName`], [`Spec`]), and one way to ask: hooks with a higher priority first, each for as long as
//! it may take, and their answers merged by the rule of the place. A [`Point`] is a place and its event; a [`Handle`] is a hook there,
//! and an [`Ask`] is another program that can be a hook anywhere.
//!
//! ```
//! use pincer_hooks::events::BeforeAgentRun;
//! use pincer_hooks::{FnHook, Hook, Table};
//!
//! let mut hooks = Table::default();
//! let no_secrets = FnHook(|event: &BeforeAgentRun| {
//!     let mut answer = pincer_hooks::events::RunAnswer::default();
//!     if event.prompt.contains("password") {
//!         answer.outcome = pincer_hooks::events::RunOutcome::Block;
//!         answer.message = Some("Send no passwords.".into());
//!     }
//!     Ok(answer)
//! });
//! hooks.add(Hook::new("no secrets", no_secrets).priority(10).into());
//! assert!(hooks.has::<BeforeAgentRun>());
//! ```
//!
//! The crate knows no agent and no tools: the hooks about tools are rows of the table, and belong to the door.

mod answer;
mod command;
mod error;
pub mod events;
mod point;
mod spec;
mod table;

pub use answer::{ContentForm, in_place_of, object};
pub use command::CommandHook;
pub use error::HookError;
pub use point::{Ask, BoxFuture, External, FnHook, Handle, Hook, Nothing, Point, asked};
pub use spec::{HookName, Kind, OnFailure, Reach, Spec, reference};
pub use table::{Holds, Registration, Settings, Table};
