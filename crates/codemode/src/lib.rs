//! Code mode: a model's program runs as a cell, and what comes of it is a [`CodeModeResult`].
//!
//! This crate is the home of `exec` and `wait`. So far it has `exec` for programs without tools: timers and yields are
//! answered here, in the process, until the program ends. It is not the sandbox (that is `pincer-sandbox`, which knows
//! nothing of results and their shape), and it prints nothing.
//!
//! ```
//! use pincer_codemode::{CodeModeResult, Exec};
//! use pincer_sandbox::{Engine, Options};
//!
//! let engine = Engine::load(Options::default())?;
//! let result = Exec::new("const [a, b] = [1, 2]; return a + b").run(&engine);
//! let CodeModeResult::Completed(done) = result else { panic!("{result:?}") };
//! assert_eq!(done.value.as_str(), "3");
//! # Ok::<(), pincer_sandbox::Error>(())
//! ```

mod exec;
mod result;
mod timers;

pub use exec::{Exec, TIMEOUT_MS, TIMEOUT_MS_DEFAULT};
pub use result::{CapFailures, CodeModeResult, Completed, ErrorCode, Failed, Milliseconds, Sources, Telemetry};
