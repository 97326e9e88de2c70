//! The agent loop on the real store, door and engine, with a scripted model on a real socket.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod compaction;
mod compaction_flush;
mod compaction_limits;
mod cron;
mod cron_tool;
mod direct;
mod faults;
mod hook_answers;
mod hooks;
mod hooks_and_texts;
mod kept;
mod limits;
mod liveness;
mod programs;
mod prompt;
mod queue;
mod races;
mod recovery;
mod replies;
mod telemetry;
mod tool_search;
mod waiting;
mod world;
