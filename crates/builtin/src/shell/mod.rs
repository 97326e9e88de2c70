//! Commands: `exec` and `process`, who may run what, and how they end.

mod analyse;
mod background;
mod capture;
#[cfg(target_os = "linux")]
mod confine;
mod exec;
mod gate;
mod hiding;
mod id;
mod process;
mod programs;
mod reading;
mod shape;

#[cfg(feature = "fuzzing")]
pub(crate) use analyse::literal_words;
pub use background::Processes;
#[cfg(target_os = "linux")]
pub(crate) use confine::can_confine;
#[cfg(target_os = "linux")]
pub use confine::{ConfineError, confine_this_process};
pub(crate) use exec::Exec;
pub use exec::{Approved, Confinement, ExecSettings, SandboxBounds};
pub(crate) use gate::Gate;
pub use gate::{ExecMode, GateError};
pub(crate) use process::Process;

/// Returns whether commands can be confined: on Linux only.
#[cfg(not(target_os = "linux"))]
pub(crate) fn can_confine() -> bool {
    false
}
