//! JavaScript cells: QuickJS inside WebAssembly, limited, suspended to a few kilobytes, continued anywhere.
//!
//! A **cell** is one program. It runs in **turns**: a turn goes on until the program has ended or only the host can move it
//! on. Then the host answers what the program asked for, or **parks** the cell: its VM becomes bytes, and any process with
//! the same engine can restore it and go on.
//!
//! Programs are hostile, and so is every byte that comes out of one. A cell has no file, no network, no environment, no
//! module loader and no clock finer than a millisecond; it has JSON in and JSON out. What it may use is in [`Limits`], and
//! all of it is enforced from outside.
//!
//! This crate does no IO but for its own cache, knows nothing of async runtimes, and nothing of tools or policy: a request
//! is a method name and JSON. What methods mean is the caller's business.
//!
//! ```
//! use std::time::Duration;
//! use pincer_sandbox::{Answer, Engine, Json, Limits, Options, Program, TurnEnd};
//!
//! let engine = Engine::load(Options::default())?;
//! let program = Program::new("const { price } = await look_up('tea'); return `tea is ${price}`").function("look_up");
//! let mut cell = engine.start(program, Limits::default())?;
//!
//! // The program runs until it needs the host …
//! let turn = cell.run_turn(Duration::from_secs(1))?;
//! assert!(matches!(turn.end, TurnEnd::Waiting));
//! assert_eq!(turn.requests[0].method, "look_up");
//! assert_eq!(turn.requests[0].args.as_str(), r#"["tea"]"#);
//!
//! // … is put away as a few kilobytes …
//! let snapshot = cell.park()?;
//! drop(cell);
//! assert!(snapshot.len() < 4096);
//!
//! // … and goes on later, in this process or another.
//! let mut cell = engine.restore(&snapshot, Limits::default())?;
//! cell.deliver(Answer::value(turn.requests[0].id, Json::parse(r#"{"price":3}"#)?))?;
//! let TurnEnd::Value(Some(value)) = cell.run_turn(Duration::from_secs(1))?.end else { panic!() };
//! assert_eq!(value.as_str(), "\"tea is 3\"");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bridge;
mod budget;
mod cache;
mod cell;
mod compile;
mod ending;
mod engine;
mod error;
mod failure;
mod growing;
mod image;
mod limits;
mod program;
mod reading;
mod readings;
mod rewrite;
mod turn;
mod vm;
mod watchdog;

pub use budget::{Allotment, Growth, MemoryBudget};
pub use cache::CacheProblem;
pub use cell::{Cell, Interrupter};
pub use engine::{Engine, LongTurn, Options, Progress, StandStill};
pub use error::{Error, RestoreError};
pub use image::ImageError;
pub use limits::{Limits, MAX_MEMORY_BYTES, MAX_OUTPUT_ITEMS};
pub use pincer_json::{Json, JsonError, MAX_DEPTH, MAX_NODES, has_too_many_nodes};
pub use pincer_snapshot::{Checkpoint, ContentHash, MAX_DELTAS, TooLarge, Unreadable};
pub use program::{FILE_NAME, File, Global, Library, Program, ProgramValue};
pub use readings::{Load, LoadKind, MAX_CLOCK_CHANGES, MAX_LOADS, Readings};
pub use rewrite::RewriteError;
pub use turn::{
    Answer, Failure, FailureKind, Fault, LeftOut, Limit, Note, Output, REFUSED, Request, RequestId, Site, Turn, TurnEnd,
};
