//! `pincer sessions`: the conversations of this user: look at them, change them, carry them elsewhere.

mod calls;
mod change;
mod exchange;
mod find;
mod hooks;
mod list;
mod notes;
pub(crate) mod page;
mod runs;
mod said;
mod search;
mod show;
mod telemetry;
mod trajectory;

pub(crate) use find::current;
pub(crate) use list::{lasted, table};
pub(crate) use trajectory::about;

use std::sync::Arc;
use std::time::Duration;

use pincer_runtime::Principal;
use pincer_store::Clock;
use pincer_store_sqlite::{FileLeases, SqliteStore};
use serde_json::Value;

use crate::print::chain;
use crate::refused::{Refused, report};
use crate::usage::LocationArguments;
use crate::usage_sessions::{SessionsArguments, SessionsCommand};
use crate::{DONE, FAILED, WRONG_USAGE, settings, state, tokio_runtime};

/// What a command prints, for programs and for people; `None` if it has printed already.
type Told = Option<(Value, String)>;

/// The sessions of one user.
struct House {
    store: Arc<SqliteStore>,
    leases: FileLeases,
    user: String,
}

pub(crate) fn run(locations: &LocationArguments, arguments: &SessionsArguments) -> u8 {
    let json = arguments.json;
    let tokio = match tokio_runtime::small() {
        Ok(tokio) => tokio,
        Err(error) => return report(Err(Refused(FAILED, error.to_string())), json),
    };
    let told = match &arguments.command {
        SessionsCommand::Abort { key } => tokio.block_on(runs::abort(locations, key)),
        SessionsCommand::Compact { key, instructions } => {
            tokio.block_on(runs::compact(locations, key, instructions.as_deref()))
        }
        SessionsCommand::Reset { key } => tokio.block_on(runs::reset(locations, key)),
        command => open(locations).and_then(|house| tokio.block_on(act(locations, &house, command, json))),
    };
    match told {
        Ok(Some(told)) => report(Ok(told), json),
        Ok(None) => DONE,
        Err(refused) => report(Err(refused), json),
    }
}

fn open(locations: &LocationArguments) -> Result<House, Refused> {
    let store = state::open(locations).map_err(|error| Refused(FAILED, chain(&error)))?;
    let leases = FileLeases::new(state::directory(locations).unwrap_or_default().join("owners"));
    Ok(House { store: Arc::new(store), leases, user: user() })
}

/// Returns the user whose sessions these are.
fn user() -> String {
    Principal::of_this_process().user().to_owned()
}

/// Returns how long a command waits for another writer of a session.
fn write_wait(locations: &LocationArguments) -> Result<Duration, Refused> {
    let loaded = settings::read_only(locations).map_err(|error| Refused(WRONG_USAGE, chain(&error)))?;
    Ok(Duration::from_millis(loaded.parsed.config.session.write_lock.acquire_timeout_ms))
}

async fn act(
    locations: &LocationArguments,
    house: &House,
    command: &SessionsCommand,
    json: bool,
) -> Result<Told, Refused> {
    match command {
        SessionsCommand::List { all, limit } => list::list(house, *all, *limit).await.map(Some),
        SessionsCommand::Show { session, all_branches, full } => {
            let wanted = show::Wanted { all_branches: *all_branches, full: *full };
            show::show(house, session, wanted, json).await
        }
        SessionsCommand::Search { words, limit } => search::search(house, words, *limit).await.map(Some),
        SessionsCommand::Rename { session, name } => change::rename(house, session, name).await.map(Some),
        SessionsCommand::Fork { session, new_key, at } => {
            change::fork(house, session, new_key, at.as_deref()).await.map(Some)
        }
        SessionsCommand::Delete { session, yes } => {
            let (told, deleted) = change::delete(house, session, *yes, write_wait(locations)?).await?;
            hooks::tell_deleted(locations, &deleted, house.store.now()).await;
            Ok(Some(told))
        }
        SessionsCommand::Export { session, file } => exchange::export(house, session, file, json).await,
        SessionsCommand::ExportTrajectory { session, output } => {
            trajectory::export(locations, house, session, output.as_deref()).await.map(Some)
        }
        SessionsCommand::Import { file, key } => exchange::import(house, file, key.as_deref()).await.map(Some),
        // They need an agent, which opens the store itself.
        SessionsCommand::Abort { .. } | SessionsCommand::Compact { .. } | SessionsCommand::Reset { .. } => Ok(None),
    }
}
