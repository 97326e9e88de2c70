//! The `pincer` binary: parse arguments, call the crates, print.

mod asking;
mod bench_runtime;
mod cells;
mod commands;
mod interrupt;
mod load_client;
mod log;
mod measure;
mod notices;
mod opened;
mod print;
mod progress;
mod refused;
mod settings;
mod state;
mod tokio_runtime;
mod usage;
mod usage_agent;
mod usage_approvals;
mod usage_bench;
mod usage_channels;
mod usage_cron;
mod usage_mcp;
mod usage_plugins;
mod usage_runs;
mod usage_savings;
mod usage_sessions;
mod usage_setup;
mod usage_skills;
mod usage_tools;
mod usage_trajectory;

use std::io;
use std::process::ExitCode;

use clap::Parser;
use pincer_codemode::{CodeModeResult, ErrorCode};
use pincer_process::{Half, PROCESS_LIMIT, Worker, split};

use crate::usage::{CellArguments, Cli, Command};
use crate::usage_bench::BenchCommand;

/// Exit codes of the contract.
const DONE: u8 = 0;
const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
const WAITING: u8 = 3;
const INTERRUPTED: u8 = 130;

/// Before anything else is started: what this process knows stays here, and what it starts ends with it.
fn guard() {
    #[cfg(target_os = "linux")]
    {
        // Others of the same user cannot read our memory and environment; where that fails, it is as it always was.
        let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    }
    pincer_process::keep_inherited_files();
    pincer_process::adopt_orphans();
    // Where that fails, a write beyond the limit ends this process as ever.
    let _ = pincer_process::outlive_file_size_limit();
}

/// Runs in a half of this process that can stay behind when its program is suspended and a tool is in the middle of something.
fn in_worker(cell: &CellArguments, work: impl FnOnce(Worker) -> u8) -> u8 {
    let refused = |what: &str, error: &io::Error| {
        let error = match error.kind() {
            io::ErrorKind::WouldBlock => format!("{what} ({error}): {PROCESS_LIMIT}"),
            _ => format!("{what}: {error}"),
        };
        commands::exec::show_refused(&CodeModeResult::refused(ErrorCode::RuntimeUnavailable, error), cell.json);
        FAILED
    };
    match split() {
        Ok(Half::Worker(worker)) => {
            guard();
            work(worker)
        }
        Ok(Half::Front(front)) => {
            front.wait().unwrap_or_else(|error| refused("the program cannot be waited for", &error))
        }
        Err(error) => refused("no process for the program can be started", &error),
    }
}

fn main() -> ExitCode {
    guard();
    pincer_process::keep_no_large_blocks();
    // `parse` prints usage errors to stderr and exits with 2, help and version to stdout and exits with 0.
    let cli = Cli::parse();
    log::begin(&cli.log);
    let code = match cli.command {
        Command::Init(arguments) => commands::init::run(&cli.locations, &arguments),
        Command::Doctor(arguments) => commands::doctor::run(&cli.locations, &arguments),
        Command::Exec(arguments) => {
            in_worker(&arguments.cell, |worker| commands::exec::exec(&cli.locations, &arguments, worker))
        }
        Command::Wait(arguments) => {
            in_worker(&arguments.cell, |worker| commands::exec::wait(&cli.locations, &arguments, worker))
        }
        Command::Agent(arguments) => commands::agent::run(&cli.locations, &arguments),
        Command::Runs(arguments) => commands::runs::run(&cli.locations, &arguments),
        Command::Sessions(arguments) => commands::sessions::run(&cli.locations, &arguments),
        Command::Savings(arguments) => commands::savings::run(&cli.locations, &arguments),
        Command::Trajectory(arguments) => commands::trajectory::run(&arguments),
        Command::Cron(arguments) => commands::cron::run(&cli.locations, &arguments),
        Command::Demo(arguments) => commands::demo::run(&arguments),
        Command::Tools(arguments) => commands::tools::run(&cli.locations, &arguments),
        Command::Plugins(arguments) => commands::plugins::run(&cli.locations, &arguments),
        Command::Skills(arguments) => commands::skills::run(&cli.locations, &arguments),
        Command::Channels(arguments) => commands::channels::run(&cli.locations, &arguments),
        Command::Config(arguments) => commands::config::run(&cli.locations, &arguments),
        Command::Mcp(arguments) => commands::mcp::run(&cli.locations, &arguments),
        Command::Models(arguments) => commands::models::run(&cli.locations, &arguments),
        Command::Secrets(arguments) => commands::secrets::run(&cli.locations, &arguments),
        Command::Approvals(arguments) => commands::approvals::run(&cli.locations, &arguments),
        Command::Backup(arguments) => commands::backup::backup(&cli.locations, &arguments),
        Command::Restore(arguments) => commands::backup::restore(&cli.locations, &arguments),
        Command::Confine(arguments) => commands::confine::run(&arguments),
        Command::Bench { command: BenchCommand::Cells(arguments) } => commands::bench_cells::run(&arguments),
        Command::Bench { command: BenchCommand::Calls(arguments) } => commands::bench_calls::run(&arguments),
        Command::Bench { command: BenchCommand::Mcp(arguments) } => commands::bench_mcp::run(&arguments),
        Command::Bench { command: BenchCommand::Load(arguments) } => commands::bench_load::run(&arguments),
        Command::Bench { command: BenchCommand::Hooks(arguments) } => commands::bench_hooks::run(&arguments),
        Command::Bench { command: BenchCommand::Fair(arguments) } => commands::bench_fair::run(&arguments),
        Command::Bench { command: BenchCommand::Model(arguments) } => commands::bench_model::run(&arguments),
        Command::Bench { command: BenchCommand::Agent(arguments) } => commands::bench_agent::run(&arguments),
        Command::Bench { command: BenchCommand::AgentSessions(arguments) } => {
            commands::bench_agent::run_sessions(&arguments)
        }
        Command::Bench { command: BenchCommand::Trajectory(arguments) } => commands::bench_trajectory::run(&arguments),
        Command::Bench { command: BenchCommand::Cron(arguments) } => commands::bench_cron::run(&arguments),
        Command::Bench { command: BenchCommand::ModelServer { script } } => commands::bench_model::serve(&script),
        Command::Bench { command: BenchCommand::ModelClient(arguments) } => commands::bench_model::read(&arguments),
        Command::Bench { command: BenchCommand::Memory(arguments) } => commands::bench_memory::run(&arguments),
        Command::Bench { command: BenchCommand::MemoryServer } => commands::bench_memory_server::run(),
        Command::Bench { command: BenchCommand::TrivialServer } => commands::bench_trivial::run(),
        Command::Bench { command: BenchCommand::Prompt(arguments) } => commands::bench_prompt::run(&arguments),
        Command::Bench { command: BenchCommand::Surfaces(arguments) } => commands::bench_surfaces::run(&arguments),
        Command::Bench { command: BenchCommand::Search(arguments) } => commands::bench_search::run(&arguments),
    };
    ExitCode::from(print::exit_code(code))
}
