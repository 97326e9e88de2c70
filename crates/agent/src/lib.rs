//! The agent loop: a message goes in, a model is asked, tools are called, an answer comes out.
//!
//! A message is in the store before it is acknowledged, and from then on it will be answered: by this process, or by the next one that
//! looks. The next step of a run always follows from what is stored, so a process that dies costs at most the reply that was being
//! streamed. A run that needs a person, or a call that its sender makes, becomes a row until the answer is there.
//!
//! The loop reaches tools through the runtime's door and models through `pincer-model`. It prints nothing.

mod agent;
mod calls;
mod claimed;
mod client;
mod command;
mod compaction;
mod cron;
mod delivering;
mod detail;
mod driver;
mod ending;
mod error;
mod event;
mod feed;
mod fitting;
mod frame;
mod hooks;
mod inner;
mod lane;
mod liveness;
mod obeying;
mod outcome;
mod preparing;
mod program;
mod prompt;
mod reader;
mod record;
mod replies;
mod reply;
mod request;
mod settings;
mod showing;
mod slots;
mod spoken;
mod status;
mod surface;
mod telemetry;
mod told_result;
mod tool_search;
mod transcript;
mod turn;

pub use agent::{Agent, StoppedRuns, Submitted};
pub use cron::{
    Cron, CronNews, JobMaker, JobSession, JobWish, When, add_cron_job, cron_job_document, cron_now, cron_run_document,
    set_cron_job_enabled,
};
pub use delivering::SentText;
pub use error::AgentError;
pub use event::{AgentEvent, Stream};
pub use liveness::{Diagnostic, DiagnosticKind, Reason, Recovery, RecoveryStatus};
pub use outcome::{
    Answer, OpenClientCall, OpenQuestion, Payload, PayloadKind, RunOutcome, RunTelemetry, RunUsage, Status, Summary,
    WaitResult, WaitStatus, ended_by_restore,
};
pub use prompt::{Part, PartKind, Prompt};
pub use reader::{EventCursor, EventReader};
pub use request::{
    Attachment, ClientTool, CommandRights, CronOrigin, Priority, PromptMode, QueueMode, Reasoning, Request, Verbose,
};
pub use settings::{Drop, QueueSettings, SessionSettings};
pub use showing::ShownPrompt;
pub use telemetry::{CalledTool, Saved, ToolTelemetry, Weight};
