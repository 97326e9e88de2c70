//! sandbox
mod bridge;
mod cell;
mod engine;
mod cache;
mod compile;
mod delta;
mod error;
mod failure;
mod image;
mod json;
mod limits;
mod program;
mod rewrite;
mod snapshot;
mod turn;
mod vm;
mod watchdog;

pub use cell::{Cell, Interrupter};
pub use cache::CacheProblem;
pub use engine::{Engine, Options, Progress};
pub use error::{Error, RestoreError};
pub use image::{ContentHash, ImageError};
pub use json::{Json, JsonError, MAX_DEPTH};
pub use limits::{Limits, MAX_MEMORY_BYTES};
pub use program::{Program, Scope};
pub use rewrite::RewriteError;
pub use turn::*;
