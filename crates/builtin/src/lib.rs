//! The tools that are there out of the box (owner `core`): files of the workspace, commands, the web, sessions.
//!
//! Each is a [`Tool`](pincer_tools::Tool) for the door and nothing else: which callers have it, and whether a person is asked
//! first, is decided there. The reach of a tool is decided here: file tools hold a handle of the call's workspace and cannot leave it,
//! commands run in a process group of their own that ends as a whole, and fetches connect to the address that was checked.

mod define;
mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod glob;
mod message;
mod protected;
mod register;
mod sessions;
mod shell;
mod text;
mod walk;
mod web;
mod workspace;
mod workspaces;

pub use glob::GlobError;
pub use message::ChannelRule;
pub use register::{Builtin, BuiltinError, Settings};
pub use sessions::SessionStore;
pub use shell::{Approved, Confinement, ExecMode, ExecSettings, GateError, Processes, SandboxBounds};
#[cfg(target_os = "linux")]
pub use shell::{ConfineError, confine_this_process};
pub use web::{WebError, WebSettings};
pub use workspace::{Beginning, Workspace};
pub use workspaces::{Guard, WorkspaceError, Workspaces};
