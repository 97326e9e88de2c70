//! `install`, `update` and `remove` of `pincer plugins` and `pincer skills`.

mod put;
mod removing;
mod shown;
mod uses;

use std::io::stdin;
use std::path::PathBuf;

use pincer_config::Loaded;
use pincer_install::{InstallError, Kind, PolicyError};
use pincer_runtime::RuntimeError;
use serde_json::json;

use crate::asking::somebody_is_here;
use crate::print::{chain, line, note, streamed};
use crate::tokio_runtime::StartError;
use crate::usage::LocationArguments;
use crate::usage_plugins::{AgreementArguments, InstallArguments, RemoveArguments, UpdateArguments};
use crate::{FAILED, WRONG_USAGE, settings, state};

/// The change that is asked for.
pub(crate) enum Change<'a> {
    Install(&'a InstallArguments),
    Update(&'a UpdateArguments),
    Remove(&'a RemoveArguments),
}

/// Does it.
pub(crate) fn run(locations: &LocationArguments, kind: Kind, change: &Change, json: bool) -> u8 {
    let done = match change {
        Change::Install(_) | Change::Update(_) => put::run(locations, kind, change, json),
        Change::Remove(arguments) => removing::run(locations, kind, arguments, json),
    };
    match done {
        Ok(code) => code,
        Err(Failure::Told(code)) => code,
        Err(failure) => {
            if json {
                let code = failure.word();
                line(
                    &json!({ "status": "refused", "type": kind, "code": code, "message": chain(&failure) }).to_string(),
                );
            } else {
                note(&format!("error: {}", chain(&failure)));
            }
            failure.code()
        }
    }
}

/// The failure of a command.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// A failure that was told already, with its exit code.
    #[error("it was told already")]
    Told(u8),
    #[error("there is no place to keep state: set HOME, or pass --state-dir")]
    NoDirectory,
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Install(#[from] InstallError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("{} is the plugin {id} already, and two of one id cannot be used: remove it, or take its folder out of plugins.paths", folder.display())]
    IdIsTaken { id: String, folder: PathBuf },
    #[error(
        "the plugin {other} has the namespace `{name}` too, and two of one name cannot be used: remove {other} first"
    )]
    NamespaceIsTaken { name: String, other: String },
    #[error("the {kind} {id} is not removed: without a terminal, `--yes` says that it may be")]
    RemovalUnagreed { kind: Kind, id: String },
}

impl Failure {
    fn code(&self) -> u8 {
        match self {
            Self::Told(code) => *code,
            Self::NoDirectory | Self::Policy(_) | Self::Runtime(_) => WRONG_USAGE,
            _ => FAILED,
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Install(error) => error.code(),
            Self::IdIsTaken { .. } | Self::NamespaceIsTaken { .. } => "name_is_taken",
            Self::RemovalUnagreed { .. } => "not_agreed",
            Self::Runtime(_) | Self::Start(_) => "hooks_not_asked",
            Self::Told(_) | Self::NoDirectory | Self::Policy(_) => "wrong_usage",
        }
    }
}

/// The config and the state directory. Without a config that can be read there is no policy, so nothing is installed.
fn ready(locations: &LocationArguments) -> Result<(Loaded, PathBuf), Failure> {
    let loaded = settings::ready(locations).map_err(Failure::Told)?;
    Ok((loaded, state::directory(locations).ok_or(Failure::NoDirectory)?))
}

/// Asks the person at the terminal. Anything but a yes is a no.
fn person_agrees(question: &str) -> bool {
    streamed(&format!("{question} [y]es, [N]o? "));
    let mut answer = String::new();
    match stdin().read_line(&mut answer) {
        Ok(1..) => ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()),
        _ => false,
    }
}

fn can_ask() -> bool {
    somebody_is_here()
}
