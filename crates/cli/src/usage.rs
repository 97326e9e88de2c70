//! What the command line understands. Every command has an example.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tracing_subscriber::filter::Targets;

use crate::log;
use crate::usage_agent::AgentArguments;
use crate::usage_approvals::ApprovalsArguments;
use crate::usage_bench::BenchCommand;
use crate::usage_channels::ChannelsArguments;
use crate::usage_cron::{self, CronArguments};
use crate::usage_mcp::McpArguments;
use crate::usage_plugins::PluginsArguments;
use crate::usage_runs::RunsArguments;
use crate::usage_savings::{self, SavingsArguments};
use crate::usage_sessions::SessionsArguments;
use crate::usage_setup::{DemoArguments, DoctorArguments, InitArguments};
use crate::usage_skills::SkillsArguments;
use crate::usage_tools::{ScopeArguments, ToolsArguments};
use crate::usage_trajectory::TrajectoryArguments;

/// A code-mode runtime: JavaScript programs in a sandbox, suspended to a few kilobytes and continued anywhere.
#[derive(Parser)]
#[command(name = "pincer", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub locations: LocationArguments,
    #[command(flatten)]
    pub log: LogArguments,
    #[command(subcommand)]
    pub command: Command,
}

/// Where config and state are.
#[derive(Args)]
pub(crate) struct LocationArguments {
    /// The config; otherwise ./pincer.json5, or pincer/pincer.json5 in the config home
    #[arg(long, global = true, value_name = "FILE", env = "PINCER_CONFIG")]
    pub config: Option<PathBuf>,
    /// Where state is kept
    #[arg(long, global = true, value_name = "DIR", env = "PINCER_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
}

/// The log that is asked for.
#[derive(Args)]
pub(crate) struct LogArguments {
    /// What to log on standard error: a level (debug), or levels of parts (warn,pincer_mcp=trace)
    #[arg(long, global = true, value_name = "LEVEL|FILTER", env = "PINCER_LOG", value_parser = log::filter)]
    pub log: Option<Targets>,
    /// How a line of the log is written
    #[arg(long, global = true, value_name = "FORMAT", env = "PINCER_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// A JSON object per line
    Json,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Write a config that works: find keys, local model servers and MCP clients, and choose a model
    #[command(after_help = "\
Examples:
  pincer init
  pincer init --model anthropic/NAME
  pincer init --yes --json
  pincer init --config ./pincer.json5 --force

The config goes to pincer/pincer.json5 in the config home, or to --config. Keys stay in the environment: the file has none. On a
terminal you are asked which model to use if there are several; nothing else is asked.
Exit codes: 0 written, 1 failed, 2 wrong usage or there is a config already.")]
    Init(InitArguments),
    /// Check everything Pincer needs: config, engine, store, disk, providers, MCP servers, plugins
    #[command(after_help = "\
Examples:
  pincer doctor
  pincer doctor --offline
  pincer doctor --json

Each check is ok, warn or fail; all but ok come with a remedy. Nothing is repaired, and no secret is printed.
Exit codes: 0 nothing fails, 1 something fails, 2 wrong usage.")]
    Doctor(DoctorArguments),
    /// Run a JavaScript or TypeScript program that can call all tools, and print what it returns
    #[command(
        override_usage = "pincer exec [OPTIONS] <FILE | - | -e CODE>",
        after_help = "\
Examples:
  pincer exec -e 'return (await tools.ls({})).entries.length'
  pincer exec program.ts --json
  echo 'return 6 * 7' | pincer exec -

The program is the body of an async function: use `await` and `return` at its top level. What it may call is what
`pincer tools list` shows. A program that must wait for longer than it may, or for a person, is suspended: then the exit
code is 3, and `pincer wait` continues it.
Exit codes: 0 completed, 1 failed, 2 wrong usage or config, 3 waiting, 130 interrupted."
    )]
    Exec(ExecArguments),
    /// Continue a suspended program, in any later process
    #[command(after_help = "\
Examples:
  pincer wait cm_0199a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b
  pincer wait cm_0199a1b2 --json

An id may be shortened as long as only one run begins so.
Exit codes: 0 completed, 1 failed, 2 wrong usage or config, 3 waiting, 130 interrupted.")]
    Wait(WaitArguments),
    /// Send a message to an agent and print its answer, or have a conversation
    #[command(after_help = "\
Examples:
  pincer agent -m 'Which files here are larger than a megabyte?'
  pincer agent                                    a conversation, line by line
  pincer agent -m 'Go on.' --session work --model anthropic/NAME
  pincer agent -m 'What is this?' --file photo.png
  pincer agent --session work --continue          go on with what was interrupted or waits
  pincer agent -m 'Book it.' --client-tools tools.json --json

The message is stored before anything is done with it: whatever happens to this process, it will be answered by the next
one that looks. Calls that need an approval are asked about here; without a terminal the run waits, and the exit code is 3.
A message may begin with a command: /status, /new, /reset, /stop, /model, /think, /verbose, /trace, /queue, /steer.
Exit codes: 0 answered, 1 failed, 2 wrong usage or config, 3 waiting, 130 interrupted.")]
    Agent(Box<AgentArguments>),
    /// Look at programs, running and suspended: state, age, size, pending calls
    #[command(after_help = "\
Examples:
  pincer runs list
  pincer runs show cm_0199a1b2
  pincer runs replay cm_0199a1b2
  pincer runs abort cm_0199a1b2

An id may be shortened as long as only one run begins so.")]
    Runs(RunsArguments),
    /// Look at sessions and change them: list, show, search, rename, fork, reset, abort, delete, export, import,
    /// export-trajectory
    #[command(after_help = "\
Examples:
  pincer sessions list
  pincer sessions show main
  pincer sessions search invoice march
  pincer sessions fork main other --at 0199a1b2c3
  pincer sessions abort main
  pincer sessions export main main.jsonl
  pincer sessions export-trajectory main

A session is named by its key. One that a reset left behind is named by its id: `pincer sessions list --all` shows it, and its
beginning is enough.
Exit codes: 0 done, 1 failed, 2 wrong usage: no such session, a key that is taken, a damaged file.")]
    Sessions(SessionsArguments),
    /// Sum what tools and instructions took of the requests of agents, and what direct exposure would have taken
    #[command(after_help = usage_savings::EXAMPLES)]
    Savings(SavingsArguments),
    /// Look at what `pincer sessions export-trajectory` has written, here or elsewhere
    #[command(after_help = "\
Examples:
  pincer trajectory view ./openclaw-trajectory-0199a1b2-20260102T030405006
  pincer trajectory view DIR --html report.html

Exit codes: 0 the bundle is whole, 1 it is cut or damaged, 2 wrong usage or no bundle.")]
    Trajectory(TrajectoryArguments),
    /// Jobs of the schedule: messages that an agent is sent at a time, or again and again
    #[command(after_help = usage_cron::EXAMPLES)]
    Cron(CronArguments),
    /// Show what Pincer does: programs, approvals, a kill in the middle, and a whole agent turn with a scripted model
    #[command(after_help = "Example:\n  pincer demo")]
    Demo(DemoArguments),
    /// Look at the catalog: which tools there are, and why one is in it or not
    #[command(after_help = "\
Examples:
  pincer tools list
  pincer tools search 'find text in files'
  pincer tools describe read
  pincer tools explain openclaw:core:exec --agent writer
  pincer tools declarations > tools.d.ts
  pincer tools call read '{\"path\": \"README.md\"}'

A tool is called by its id, or by its name if no other tool has it.")]
    Tools(ToolsArguments),
    /// Look at plugins, and install, update and remove them
    #[command(after_help = "\
Examples:
  pincer plugins list
  pincer plugins check ./my-plugin
  pincer plugins show notes --json
  pincer plugins install notes.tar.gz
  pincer plugins install ./my-plugin --dry-run
  pincer plugins update notes
  pincer plugins remove notes

The source is copied, checked against security.installPolicy, scanned and shown before anything is put in place.
Nothing of it is run. Without a terminal, --yes agrees to what has no critical finding.
Exit codes: 0 done, 1 not found, refused or failed, 2 wrong.")]
    Plugins(PluginsArguments),
    /// List, check and show the skills of an agent; install, update and remove skills
    #[command(after_help = "\
Examples:
  pincer skills list
  pincer skills check
  pincer skills list --agent writer --json
  pincer skills show pdf
  pincer skills install ./my-skill
  pincer skills install pdf.zip --dry-run --json
  pincer skills update pdf pdf-2.zip --yes
  pincer skills remove pdf

A skill is a folder with a SKILL.md, in `skills` of the workspace, of the state directory, or of a plugin. An
installation shows everything before it puts it in place, and runs nothing of it.
Exit codes: 0 done, 1 something is wrong, not found, refused or failed, 2 wrong usage or config.")]
    Skills(SkillsArguments),
    /// Channels: run them, send a text, and look at what is to be sent
    #[command(after_help = "\
Examples:
  pincer channels list
  pincer channels start
  pincer channels send irc --to '#lounge' -m 'The build is done.'
  pincer channels deliveries --state pending

Channels are in `channels` of the config, and come from plugins. `start` runs until it is ended: messages are stored before the
channel is told that they were taken, and answers wait until the channel takes them, whatever happens to this process.
Exit codes: 0 done, 1 failed, 2 wrong usage or config, 3 the text waits.")]
    Channels(ChannelsArguments),
    /// Check, show and describe the config
    #[command(after_help = "\
Examples:
  pincer config validate
  pincer config show --json
  pincer config schema > pincer.schema.json

Exit codes: 0 valid, 2 not.")]
    Config(ConfigArguments),
    /// MCP: be a server for any client, and look at the servers behind it
    #[command(after_help = "\
Examples:
  pincer mcp serve
  pincer mcp list
  pincer mcp test github")]
    Mcp(McpArguments),
    /// Look at language models: which there are, and whether one answers
    #[command(after_help = "\
Examples:
  pincer models list
  pincer models list --offline --json
  pincer models test
  pincer models test anthropic/NAME

A well-known provider needs nothing but its key in the usual variable (ANTHROPIC_API_KEY, OPENAI_API_KEY, …); others are in
`models.providers` of the config. `test` sends one tiny request.
Exit codes: 0 it answers, 1 it does not, 2 wrong usage or config.")]
    Models(ModelsArguments),
    /// Keep values that the config names as ${secret:NAME}: set, list and remove them
    #[command(after_help = "\
Examples:
  pincer secrets set GITHUB_TOKEN
  pass show github | pincer secrets set GITHUB_TOKEN
  pincer secrets set LINEAR_KEY --keychain
  pincer secrets list
  pincer secrets remove GITHUB_TOKEN

A value is asked for on the terminal, where it is not shown, or read from standard input; it is never an argument, and never
printed. It is kept in the state directory, for you alone, or in the system's keychain (secret-tool or security). The section
`secrets` of the config names files, commands and keychain entries instead.
Exit codes: 0 done, 1 failed or not there, 2 wrong usage.")]
    Secrets(SecretsArguments),
    /// Answer what waits for a person: list questions, allow or deny them; list and revoke grants
    #[command(after_help = "\
Examples:
  pincer approvals list
  pincer approvals allow ap_0199 --next 20
  pincer approvals deny ap_0199
  pincer approvals grants
  pincer approvals revoke gr_0199

An id may be shortened as long as only one question or grant begins so.")]
    Approvals(ApprovalsArguments),
    /// Write a copy of the store to a new file, while everything goes on
    #[command(after_help = "\
Examples:
  pincer backup pincer-monday.db
  pincer backup /backups/pincer-$(date +%F).db --json

The file has what the state directory's pincer.db has: programs, their calls with inputs and results, questions and grants.
Only you can read it. A file that is there already is not replaced.
Exit codes: 0 done, 1 failed, 2 wrong usage.")]
    Backup(BackupArguments),
    /// Put a backup in the place of the store, while no other Pincer process uses it
    #[command(after_help = "\
Examples:
  pincer restore pincer-monday.db
  pincer restore pincer-monday.db --state-dir /var/lib/pincer --json

What the store has now is replaced. Programs that had not ended in the backup may have gone on since: they are ended as aborted,
with the calls they had made by then. Grants hold as they were: check `pincer approvals grants`.
Exit codes: 0 done, 1 failed or in use, 2 wrong usage or not a backup. Unless it is 0, the store is as it was.")]
    Restore(BackupArguments),
    /// Run a command that can write in one directory only (Linux)
    #[command(after_help = "\
Example:
  pincer confine --write . --no-network -- make test

What the kernel cannot do is an error: then the command does not run.")]
    Confine(ConfineArguments),
    /// Measure
    #[command(after_help = "\
Examples:
  pincer bench cells
  pincer bench agent --json

Each measurement has its own `--help`.")]
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
}

#[derive(Args)]
pub(crate) struct ExecArguments {
    /// The program itself
    #[arg(short = 'e', long = "eval", value_name = "CODE", conflicts_with = "file")]
    pub code: Option<String>,
    /// A file with the program, or - for standard input
    #[arg(required_unless_present = "code")]
    pub file: Option<PathBuf>,
    /// It is TypeScript; a file that ends in .ts is taken for that anyway
    #[arg(long = "ts")]
    pub typescript: bool,
    /// A word of your own for this request, unique in its session: sent again, it is the same run
    #[arg(long = "id", value_name = "KEY", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub key: Option<String>,
    #[command(flatten)]
    pub cell: CellArguments,
}

#[derive(Args)]
pub(crate) struct WaitArguments {
    /// The run, as a result with status "waiting" names it
    pub run_id: String,
    #[command(flatten)]
    pub cell: CellArguments,
}

/// How a program runs.
#[derive(Args)]
pub(crate) struct CellArguments {
    /// Print exactly one CodeModeResult as JSON
    #[arg(long)]
    pub json: bool,
    /// The session it belongs to
    #[arg(long, value_name = "KEY", default_value = "main")]
    pub session: String,
    /// How long it may take, 100 to 60000; otherwise tools.codeMode.timeoutMs, or 10000
    #[arg(long, value_name = "N")]
    pub timeout_ms: Option<u64>,
    #[command(flatten)]
    pub scope: ScopeArguments,
}

#[derive(Args)]
pub(crate) struct ModelsArguments {
    #[command(subcommand)]
    pub command: ModelsCommand,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Subcommand)]
pub(crate) enum ModelsCommand {
    /// List the models of the config, and those that each provider says it has
    #[command(after_help = "\
Examples:
  pincer models list
  pincer models list --offline --json")]
    List {
        /// Ask no provider
        #[arg(long)]
        offline: bool,
    },
    /// Send one tiny request, and time each step
    #[command(after_help = "\
Examples:
  pincer models test
  pincer models test anthropic/NAME")]
    Test {
        /// The model, as provider/model; otherwise that of agents.defaults
        #[arg(value_name = "PROVIDER/MODEL")]
        name: Option<String>,
    },
}

#[derive(Args)]
pub(crate) struct SecretsArguments {
    #[command(subcommand)]
    pub command: SecretsCommand,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Subcommand)]
pub(crate) enum SecretsCommand {
    /// Keep a value, in place of the one that was kept under this name
    #[command(after_help = "\
Examples:
  pincer secrets set GITHUB_TOKEN
  pass show github | pincer secrets set GITHUB_TOKEN
  pincer secrets set LINEAR_KEY --keychain")]
    Set {
        /// Its name in the config
        name: String,
        /// Keep it in the system's keychain
        #[arg(long)]
        keychain: bool,
    },
    /// The names of all secrets, and where they are kept
    #[command(after_help = "\
Examples:
  pincer secrets list
  pincer secrets list --json")]
    List,
    /// Forget a value
    #[command(after_help = "\
Example:
  pincer secrets remove GITHUB_TOKEN")]
    Remove {
        /// Its name in the config
        name: String,
    },
}

#[derive(Args)]
pub(crate) struct BackupArguments {
    /// The backup
    pub file: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    pub command: ConfigCommand,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Subcommand, Clone, Copy)]
pub(crate) enum ConfigCommand {
    /// Tell everything that is wrong with it
    #[command(after_help = "\
Examples:
  pincer config validate
  pincer config validate --config ./pincer.json5 --json")]
    Validate,
    /// The JSON Schema of the config, for editors
    #[command(after_help = "\
Example:
  pincer config schema > pincer.schema.json")]
    Schema,
    /// All settings in force, defaults included, without secrets; ${NAME} stays as it is written
    #[command(after_help = "\
Examples:
  pincer config show
  pincer config show --json")]
    Show,
}

#[derive(Args)]
pub(crate) struct ConfineArguments {
    /// The directory it may write in; without one it only reads
    #[arg(long, value_name = "DIR")]
    pub write: Option<PathBuf>,
    /// It may not use the network either
    #[arg(long)]
    pub no_network: bool,
    /// The command
    #[arg(last = true, required = true)]
    pub command: Vec<String>,
}

#[cfg(test)]
mod tests;
