//! Why an agent did not take a message, or cannot do what was asked of it.

use pincer_cron::ScheduleError;
use pincer_runtime::{ModelSetupError, RuntimeError};
use pincer_sessions::AcquireError;
use pincer_store::{AgentRunId, SessionKey, StoreError};
use pincer_tools::ClientToolError;

/// Why an agent did not take a message, or cannot do what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The message has no text and no picture.
    #[error("the message is empty")]
    Empty,
    /// The message is longer than it may be.
    #[error(
        "the message has {bytes} bytes, and may have {limit}: put long texts into a file of the workspace and name it"
    )]
    TooLong {
        /// The bytes of the message.
        bytes: usize,
        /// The most that it may have.
        limit: usize,
    },
    /// The message has more pictures than it may have.
    #[error("the message has {count} pictures, and may have {limit}: send them in several messages")]
    TooManyPictures {
        /// The pictures of the message.
        count: usize,
        /// The most that it may have.
        limit: usize,
    },
    /// Models do not take a picture of the message.
    #[error("picture {number} of the message cannot be sent: {reason}")]
    Picture {
        /// Its place among the pictures, from 1.
        number: usize,
        /// Why.
        reason: String,
    },
    /// The key of a session is none.
    #[error("the session key {:?} {reason}", crate::event::shortened(key, 60))]
    Key {
        /// The key.
        key: String,
        /// Why.
        reason: &'static str,
    },
    /// Another message was accepted under the same id.
    #[error("another message was sent under this id in the session {session} ({run}): use a new id for a new message")]
    Different {
        /// The session.
        session: SessionKey,
        /// The run of the other message.
        run: AgentRunId,
    },
    /// The queue of the session is full.
    #[error(
        "{cap} messages wait for the session {session} already, which is as many as may: wait, or raise `messages.queue.cap`"
    )]
    Full {
        /// The session.
        session: SessionKey,
        /// How many may wait.
        cap: u32,
    },
    /// There is no such run of this user.
    #[error("there is no run {0}")]
    NoRun(String),
    /// The work on a run panicked.
    #[error("the run {0} broke down: this is a bug in Pincer. Send the message again, and report it with the log")]
    Broken(AgentRunId),
    /// There is no such agent.
    #[error("there is no agent {id:?} in the config{}", near.as_ref().map(|near| format!(": did you mean {near:?}?")).unwrap_or_default())]
    NoAgent {
        /// The id.
        id: String,
        /// One that is there.
        near: Option<String>,
    },
    /// The channel that a message or a job comes from does not take it any more.
    #[error(
        "the channel {channel} takes no messages of {}: add the sender to `channels.{channel}.allowFrom`",
        crate::event::shortened(sender, 60)
    )]
    NotTaken {
        /// The channel.
        channel: String,
        /// The sender, as the channel names it.
        sender: String,
    },
    /// The schedule of a job is none.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A job cannot be stored as it is.
    #[error("the cron job {}: {reason}", crate::event::shortened(name, 60))]
    Job {
        /// Its name.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// A command in a message is wrong.
    #[error("{0}")]
    Command(String),
    /// The session cannot be written to.
    #[error(transparent)]
    Session(#[from] AcquireError),
    /// The model cannot be asked.
    #[error(transparent)]
    Model(#[from] ModelSetupError),
    /// The runtime refuses.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A tool of the caller cannot be used.
    #[error("the client tools cannot be used: {0}")]
    ClientTool(#[from] ClientToolError),
    /// A tool of the caller has the name of another tool: a call would not be the caller's.
    #[error("the client tool {name} has the name of {id}: give it another name, or deny that tool")]
    TakenName {
        /// The name.
        name: String,
        /// The other tool.
        id: String,
    },
    /// The store does not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}
