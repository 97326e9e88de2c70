//! Benchmarks as they are asked for on the command line.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Fresh cells, suspending, continuing: time and size
    #[command(after_help = "Examples:\n  pincer bench cells\n  pincer bench cells --json --rounds 200")]
    Cells(BenchArguments),
    /// Calls of a tool from a program, through the bridge, the door and the journal; many suspended programs; the prompt
    #[command(
        after_help = "Examples:\n  pincer bench calls\n  pincer bench calls --json --rounds 2000\n  pincer bench calls --suspended 100000"
    )]
    Calls(CallsArguments),
    /// Calls of an MCP server from a program, beside the SDK alone; Pincer as a server; declarations
    #[command(after_help = "Examples:\n  pincer bench mcp\n  pincer bench mcp --json --rounds 2000")]
    Mcp(BenchArguments),
    /// Many clients of a server over HTTP: how fast they are answered, and what the server needs
    #[command(after_help = "Examples:\n  pincer bench load\n  pincer bench load --json --seconds 300")]
    Load(LoadArguments),
    /// The programs of one user beside programs of another that sleep, loop, hoard or suspend
    #[command(after_help = "Examples:\n  pincer bench fair\n  pincer bench fair --json --seconds 20")]
    Fair(LoadArguments),
    /// Peak memory of the host for each megabyte of JSON: arguments, results of MCP servers, listings, output
    #[command(after_help = "Examples:\n  pincer bench memory\n  pincer bench memory --json --megabytes 6")]
    Memory(MemoryArguments),
    /// Streams of models in all formats: from the socket to our events, parsing, many at once; beside OpenAI's own client
    #[command(after_help = "Examples:\n  pincer bench model\n  pincer bench model --json\n\n\
        OpenAI's own client is measured if Node.js and npm are there. It is installed from npm, once, into\n\
        ${XDG_CACHE_HOME:-~/.cache}/pincer-interop.")]
    Model(ModelArguments),
    /// The cost of a hook: a closure, and a command beside its process alone
    #[command(after_help = "Examples:\n  pincer bench hooks\n  pincer bench hooks --json --rounds 200")]
    Hooks(BenchArguments),
    /// The agent loop against a scripted model: accepting, ten tools, many sessions at once, going on after a kill
    #[command(after_help = "Examples:\n  pincer bench agent\n  pincer bench agent --json --runs 200 --sessions 500")]
    Agent(AgentBenchArguments),
    /// Jobs of the schedule that are not due: the processor that they take, and how fast due ones are looked for
    #[command(after_help = "Examples:\n  pincer bench cron\n  pincer bench cron --json --jobs 100000 --seconds 60")]
    Cron(CronBenchArguments),
    /// The export of a large session as a trajectory: its time, and the peak of its memory
    #[command(after_help = "Examples:\n  pincer bench trajectory\n  pincer bench trajectory --json --megabytes 400")]
    Trajectory(TrajectoryBenchArguments),
    /// The instructions of a model, put together out of a hundred skills and six files of the workspace
    #[command(after_help = "Examples:\n  pincer bench prompt\n  pincer bench prompt --json --rounds 200")]
    Prompt(BenchArguments),
    /// The process of `bench agent` that many sessions are measured in
    #[command(hide = true)]
    AgentSessions(AgentSessionsArguments),
    /// The server that `bench model` measures with: serves a script until its standard input ends
    #[command(hide = true)]
    ModelServer {
        /// The script
        script: PathBuf,
    },
    /// The client that `bench model` measures, in a process of its own
    #[command(hide = true)]
    ModelClient(ModelClientArguments),
    /// The server that `bench mcp` measures with
    #[command(hide = true)]
    TrivialServer,
    /// The server that `bench memory` measures with
    #[command(hide = true)]
    MemoryServer,
    /// How well catalog search finds what is asked for
    #[command(after_help = "\
Example:
  pincer bench search --data DIR --json

DIR has pairs of files. NAME.tools.jsonl: {id, server, name, description, schema} on each line. NAME.queries.jsonl:
{qid, query, relevant: [[id, …], …]}, where each inner list is one needed tool with its alternatives.")]
    Search(SearchArguments),
    /// What the first request of a conversation carries: directly, with Tool Search in each mode, and in code mode
    #[command(after_help = "\
Examples:
  pincer bench surfaces
  pincer bench surfaces --tools 10,100 --json
  pincer bench surfaces --data mcp.tools.jsonl --json

The requests are those that the model's server gets: of each wire format with --json, of chat completions in the table. Tokens are those
of o200k_base. Without --data the tools are generated. A file NAME.tools.jsonl has {server, name, description, schema} on each line, and a
folder several such files; where they have too few tools, generated ones are added.")]
    Surfaces(SurfacesArguments),
}

#[derive(Args)]
pub(crate) struct SearchArguments {
    /// The folder with the data
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Compare with what another search found: lines of {set, mode, qid, found: [id, …]}
    #[arg(long, value_name = "FILE")]
    pub beside: Option<PathBuf>,
    /// Print one line of JSON per set and mode
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct SurfacesArguments {
    /// Real tools: a file NAME.tools.jsonl, or a folder of such files
    #[arg(long, value_name = "FILE|DIR")]
    pub data: Option<PathBuf>,
    /// The sizes of the catalogs
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [10, 100, 571, 5000],
          value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub tools: Vec<u32>,
    /// How often each surface is built
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: u32,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
    /// Measures this surface in this process
    #[arg(long, hide = true)]
    pub case: Option<SurfaceMode>,
}

/// A surface, as `bench surfaces` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[value(rename_all = "camelCase")]
pub(crate) enum SurfaceMode {
    Direct,
    Tools,
    Directory,
    Code,
    CodeMode,
}

impl SurfaceMode {
    pub(crate) const ALL: [Self; 5] = [Self::Direct, Self::Tools, Self::Directory, Self::Code, Self::CodeMode];

    /// Returns its name.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Tools => "tools",
            Self::Directory => "directory",
            Self::Code => "code",
            Self::CodeMode => "codeMode",
        }
    }
}

#[derive(Args)]
pub(crate) struct LoadArguments {
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
    /// How long each step takes
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
}

#[derive(Args)]
pub(crate) struct CallsArguments {
    #[command(flatten)]
    pub bench: BenchArguments,
    /// Measure only what so many suspended programs cost
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(101..=900_000))]
    pub suspended: Option<u32>,
}

#[derive(Args)]
pub(crate) struct BenchArguments {
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
    /// How often each program runs
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rounds: u32,
}

#[derive(Args)]
pub(crate) struct MemoryArguments {
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
    /// How much JSON crosses in each case
    #[arg(long, value_name = "MB", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=7))]
    pub megabytes: u32,
    /// Measures this case in this process, and prints its figures as JSON
    #[arg(long, hide = true)]
    pub case: Option<String>,
}

#[derive(Args)]
pub(crate) struct ModelArguments {
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct AgentBenchArguments {
    /// Print one line of JSON per figure
    #[arg(long)]
    pub json: bool,
    /// How often a message is sent in each case. A process is killed a tenth as often, at least three times
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,
    /// How many sessions are at work at once
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub sessions: u32,
}

#[derive(Args)]
pub(crate) struct AgentSessionsArguments {
    /// The address of the model's server
    pub url: String,
    /// How many sessions are at work at once
    pub sessions: u32,
}

#[derive(Args)]
pub(crate) struct ModelClientArguments {
    /// The format of the streams
    pub format: StreamFormat,
    /// The address of the server
    pub url: String,
    /// The file with the text of each reply
    pub text: PathBuf,
    /// How many streams are read at once
    pub streams: usize,
    /// How often that happens
    pub rounds: usize,
}

/// A wire format of models, as `bench model` names it.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum StreamFormat {
    Chat,
    Responses,
    Messages,
}

#[derive(Args)]
pub(crate) struct TrajectoryBenchArguments {
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// The size of the session
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub megabytes: u32,
}

#[derive(Args)]
pub(crate) struct CronBenchArguments {
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
    /// The number of jobs
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub jobs: u32,
    /// The time for which each part is measured
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
}
