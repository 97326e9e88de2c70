//! The arguments of `pincer agent`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pincer_agent::{PromptMode, QueueMode, Reasoning, Verbose};
use pincer_model::Level;

#[derive(Args)]
pub(crate) struct AgentArguments {
    /// The message; - reads it from standard input. Without it, on a terminal: a conversation
    #[arg(short = 'm', long, value_name = "TEXT", allow_hyphen_values = true)]
    pub message: Option<String>,
    /// The session it belongs to
    #[arg(long, value_name = "KEY", default_value = "main")]
    pub session: String,
    /// The agent, as `agents` in the config names it
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// The model for this run
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// How much the model is to think in this run
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub thinking: Option<Level>,
    /// Show more of the calls of this run: their results in a line, or in full
    #[arg(long, value_name = "LEVEL")]
    pub verbose: Option<VerboseArgument>,
    /// The treatment of the model's thoughts in this run
    #[arg(long, value_name = "LEVEL")]
    pub reasoning: Option<ReasoningArgument>,
    /// Show at the end of this run how its answer was made: model, tokens, calls and time
    #[arg(long)]
    pub trace: bool,
    /// A file that goes with the message: a picture, or text
    #[arg(long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A word of your own for this message, unique in its session: sent again, it is the same run
    #[arg(long = "id", value_name = "KEY", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub key: Option<String>,
    /// Continue what was interrupted or waits in the session, without a new message
    #[arg(long = "continue", conflicts_with_all = ["message", "files", "key", "client_tools"])]
    pub goes_on: bool,
    /// The result of a call of a client tool: JSON, or a file with it
    #[arg(long = "result", value_name = "CALL=JSON|@FILE", requires = "goes_on", conflicts_with = "message")]
    pub results: Vec<String>,
    /// A JSON file with tools that you execute yourself: [{name, description, parameters}]
    #[arg(long, value_name = "FILE")]
    pub client_tools: Option<PathBuf>,
    /// Show the model no tools
    #[arg(long)]
    pub no_tools: bool,
    /// The scope of the model's instructions
    #[arg(long, value_name = "MODE")]
    pub prompt_mode: Option<PromptArgument>,
    /// A text that is added to the instructions of the model
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub extra_system_prompt: Option<String>,
    /// Print the instructions that the message would be sent with, their bytes and tokens. Nothing is sent or stored
    #[arg(long, conflicts_with_all = ["goes_on", "events", "key"])]
    pub show_prompt: bool,
    /// What happens to the message while the session is busy
    #[arg(long, value_name = "MODE")]
    pub queue: Option<QueueArgument>,
    /// The longest that the run may take
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// Print one JSON object when it is over
    #[arg(long, conflicts_with = "events")]
    pub json: bool,
    /// Print each event as a line of JSON, and that object last
    #[arg(long)]
    pub events: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum VerboseArgument {
    /// Calls, and the errors of those that fail
    Off,
    /// The results too, each in a line
    On,
    /// The results as they are
    Full,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ReasoningArgument {
    /// They are told nowhere
    Off,
    /// They are a part of the answer, in --json
    On,
    /// They are events of their own, in --events
    Stream,
}

impl From<ReasoningArgument> for Reasoning {
    fn from(level: ReasoningArgument) -> Self {
        match level {
            ReasoningArgument::Off => Self::Off,
            ReasoningArgument::On => Self::On,
            ReasoningArgument::Stream => Self::Stream,
        }
    }
}

impl From<VerboseArgument> for Verbose {
    fn from(level: VerboseArgument) -> Self {
        match level {
            VerboseArgument::Off => Self::Off,
            VerboseArgument::On => Self::On,
            VerboseArgument::Full => Self::Full,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PromptArgument {
    /// Everything: tools, skills, files of the workspace
    Full,
    /// Tools and AGENTS.md
    Minimal,
    /// Only --extra-system-prompt
    None,
}

impl From<PromptArgument> for PromptMode {
    fn from(mode: PromptArgument) -> Self {
        match mode {
            PromptArgument::Full => Self::Full,
            PromptArgument::Minimal => Self::Minimal,
            PromptArgument::None => Self::None,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum QueueArgument {
    /// It joins the run that goes on
    Steer,
    /// It gets a run of its own, later
    Followup,
    /// All that wait get one run together
    Collect,
    /// The run that goes on is stopped
    Interrupt,
}

impl From<QueueArgument> for QueueMode {
    fn from(mode: QueueArgument) -> Self {
        match mode {
            QueueArgument::Steer => Self::Steer,
            QueueArgument::Followup => Self::Followup,
            QueueArgument::Collect => Self::Collect,
            QueueArgument::Interrupt => Self::Interrupt,
        }
    }
}

fn level(text: &str) -> Result<Level, String> {
    let names = Level::ALL.map(Level::name).join(", ");
    Level::ALL.into_iter().find(|level| level.name() == text).ok_or(format!("the levels are {names}"))
}
