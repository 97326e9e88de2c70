//! sandbox
mod bridge;
mod cache;
mod cell;
mod compile;
mod engine;
mod error;
mod failure;
mod image;
mod json;
mod limits;
mod program;
mod rewrite;
mod turn;
mod vm;
mod watchdog;

pub use cache::CacheProblem;
pub use cell::{Cell, Interrupter};
pub use engine::{Engine, Options, Progress};
pub use error::{Error, RestoreError};
pub use image::ImageError;
pub use json::{Json, JsonError, MAX_DEPTH};
pub use limits::{Limits, MAX_MEMORY_BYTES};
pub use pincer_snapshot::{ContentHash, Unreadable};
pub use program::{Program, Scope};
pub use rewrite::RewriteError;
pub use turn::*;
