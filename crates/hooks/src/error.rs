//! The reasons why a hook gave no answer.

use std::error::Error;
use std::time::Duration;

/// The reason why a hook gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The hook could not be started.
    #[error("it cannot be started: {0}")]
    Start(#[source] Box<dyn Error + Send + Sync>),
    /// The hook ended as a failure.
    #[error("it failed with {status}{}", if stderr.is_empty() { String::new() } else { format!(": {stderr}") })]
    Failed {
        /// The way in which it ended.
        status: String,
        /// The last lines of its standard error.
        stderr: String,
    },
    /// Its answer cannot be read.
    #[error("its answer cannot be read: {0}")]
    Answer(#[source] Box<dyn Error + Send + Sync>),
    /// The hook did not answer in time.
    #[error("it did not answer within {} ms", .0.as_millis())]
    Late(Duration),
    /// The hook panicked.
    #[error("it broke down: this is a bug of the hook")]
    Broken,
}
