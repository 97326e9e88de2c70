//! The arguments of `pincer cron`.

use clap::{Args, Subcommand, ValueEnum};
use pincer_store::{CronMissed, Route};

/// Examples for the whole group.
pub(crate) const EXAMPLES: &str = "\
Examples:
  pincer cron add report --cron '0 9 * * 1-5' --tz Europe/Berlin -m 'Sum up what changed since yesterday.'
  pincer cron add tea --at 20m -m 'Remind me of the tea.' --session main --delete-after-run
  pincer cron list
  pincer cron run --due --watch                   run jobs whenever they are due, until this ends
  pincer cron runs report

A job is named by its name, or by its id, of which the beginning is enough. Jobs are in the store: a process runs them when they are
due, and no time is run for twice, however many processes do.
Exit codes: 0 done, 1 failed, 2 wrong usage: no such job, a name that is taken, a schedule that is none, 3 waiting, 130 interrupted.";

#[derive(Args)]
pub(crate) struct CronArguments {
    #[command(subcommand)]
    pub command: CronCommand,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
    /// The jobs of another user, as `list --all-users` shows it
    #[arg(long, global = true, value_name = "USER")]
    pub user: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum CronCommand {
    /// Add a job: a message that an agent is sent at a time, every so often, or by a cron expression
    #[command(after_help = "\
Examples:
  pincer cron add report --cron '0 9 * * 1-5' --tz Europe/Berlin -m 'Sum up what changed since yesterday.'
  pincer cron add check --every 10m -m 'Look whether the build is green.' --timeout 120
  pincer cron add party --at 2026-12-31T23:59 -m 'Wish me a happy new year.' --session main
  pincer cron add tea --at 20m -m 'Remind me of the tea.' --delete-after-run --json
  pincer cron add news --cron '0 8 * * *' -m 'What is new?' --channel irc --to '#lounge'

A cron expression has five fields (minute, hour, day of month, month, day of week), or six with the second first. A local time that
a change of the clock leaves out comes when the clock jumps, and one that it repeats comes once. A job of every hour neither pauses nor
hurries.")]
    Add(Box<AddArguments>),
    /// List jobs: name, state, schedule, next time, last run
    #[command(after_help = "\
Examples:
  pincer cron list
  pincer cron list --limit 200 --json
  pincer cron list --all-users

The state is on, off, running, or over when no more times come.")]
    List {
        /// The jobs of all users of this store
        #[arg(long, conflicts_with = "user")]
        all_users: bool,
        /// The most that are listed
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
        limit: u32,
    },
    /// Show a job, with its last runs
    #[command(after_help = "Examples:\n  pincer cron show report\n  pincer cron show cj_0199a1b2 --json")]
    Show {
        /// The job
        job: String,
    },
    /// Run a job now, or all that are due
    #[command(after_help = "\
Examples:
  pincer cron run report                          now, whatever its schedule says, and print the answer
  pincer cron run --due                           all that are due, until each has ended
  pincer cron run --due --watch                   and those that will be, until this ends
  * * * * * pincer cron run --due                 as a line of the system's own cron

With --due the jobs of all users of this store are run. With --watch and --json, each thing that happens is a line of JSON.")]
    Run(RunArguments),
    /// Have a job run by itself no more; a run that goes on is not stopped
    #[command(after_help = "Examples:\n  pincer cron disable report")]
    Disable {
        /// The job
        job: String,
    },
    /// Have a job run by itself again, from its next time on
    #[command(after_help = "Examples:\n  pincer cron enable report")]
    Enable {
        /// The job
        job: String,
    },
    /// Remove a job with its history; a run that goes on is not stopped
    #[command(
        after_help = "Examples:\n  pincer cron remove report\n\nThe sessions of its runs stay: pincer sessions list --all"
    )]
    Remove {
        /// The job
        job: String,
    },
    /// List what the runs of a job came to, the latest first
    #[command(after_help = "\
Examples:
  pincer cron runs report
  pincer cron runs report --limit 100 --json

`cron.keepRuns` in the config sets how many are kept. For whole answers: pincer sessions show cron:ID, or --json.")]
    Runs {
        /// The job
        job: String,
        /// The most that are listed
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
    },
}

#[derive(Args)]
pub(crate) struct AddArguments {
    /// Its name
    pub name: String,
    #[command(flatten)]
    pub when: WhenArguments,
    /// The time zone of --at and --cron, such as Europe/Berlin; otherwise that of the system
    #[arg(long, value_name = "ZONE", conflicts_with = "every")]
    pub tz: Option<String>,
    /// The message for the agent
    #[arg(short = 'm', long, value_name = "TEXT", allow_hyphen_values = true)]
    pub message: String,
    /// The agent, as `agents` in the config names it
    #[arg(long, value_name = "ID")]
    pub agent: Option<String>,
    /// The session that it runs in; otherwise one of its own that begins anew with each run
    #[arg(long, value_name = "KEY", conflicts_with = "isolated")]
    pub session: Option<String>,
    /// A session of its own that begins anew with each run, as without --session
    #[arg(long)]
    pub isolated: bool,
    #[command(flatten)]
    pub place: PlaceArguments,
    /// The model
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub model: Option<String>,
    /// The longest that a run may take
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// The rule for times at which no process ran jobs; otherwise that of `cron.missed` in the config
    #[arg(long, value_name = "RULE")]
    pub missed: Option<MissedArgument>,
    /// Remove it when it has run for the last time, unless that failed
    #[arg(long)]
    pub delete_after_run: bool,
}

/// Where the answers of a job are sent.
#[derive(Args)]
pub(crate) struct PlaceArguments {
    /// Send its answers to this channel; otherwise they are in its history alone
    #[arg(long, value_name = "NAME", requires = "to")]
    pub channel: Option<String>,
    /// The person or group on that channel
    #[arg(long, value_name = "ID", requires = "channel", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub to: Option<String>,
    /// The thread in there
    #[arg(long, value_name = "ID", requires = "channel")]
    pub thread: Option<String>,
}

impl PlaceArguments {
    /// Returns the place, if one is named.
    pub(crate) fn route(&self) -> Option<Route> {
        let (channel, to) = (self.channel.clone()?, self.to.clone()?);
        Some(Route { channel, account: None, to, thread: self.thread.clone() })
    }
}

/// When a job runs: one of these.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct WhenArguments {
    /// Once: 2026-01-31T09:00, 2026-01-31T09:00+01:00, or how long from now, as in 20m
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Again and again, with this time in between: 90s, 10m, 1h30m, 2d
    #[arg(long, value_name = "DURATION")]
    pub every: Option<String>,
    /// By a cron expression: '0 9 * * 1-5'
    #[arg(long, value_name = "EXPRESSION")]
    pub cron: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum MissedArgument {
    /// Run once for all of them, late
    Run,
    /// Leave them out
    Skip,
}

impl From<MissedArgument> for CronMissed {
    fn from(missed: MissedArgument) -> Self {
        match missed {
            MissedArgument::Run => Self::Run,
            MissedArgument::Skip => Self::Skip,
        }
    }
}

#[derive(Args)]
pub(crate) struct RunArguments {
    /// The job
    #[arg(required_unless_present = "due", conflicts_with = "due")]
    pub job: Option<String>,
    /// All jobs that are due
    #[arg(long)]
    pub due: bool,
    /// Stay, and run jobs whenever they are due
    #[arg(long, requires = "due")]
    pub watch: bool,
}
