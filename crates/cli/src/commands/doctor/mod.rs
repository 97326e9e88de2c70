//! `pincer doctor`: whether everything is there that Pincer needs, and what to do where it is not.

mod channels;
mod check;
mod hooks;
mod machine;
mod services;
pub(crate) mod words;
mod work;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use console::style;
use indicatif::ProgressBar;
use pincer_config::Loaded;
use pincer_runtime::{STORE_FILE, Vault, redactor};
use pincer_store_sqlite::{FileLeases, SqliteStore};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use self::check::{Check, Verdict};
use self::machine::Usable;
use self::services::Reach;
use crate::print::{chain, count, line, marked, note};
use crate::progress::waiting;
use crate::usage::LocationArguments;
use crate::usage_setup::DoctorArguments;
use crate::{DONE, FAILED, settings, state, tokio_runtime};

/// The directory of the processes that are alive, in the state directory.
const OWNERS: &str = "owners";
/// How long a check of this machine may take. The first start of the engine on a slow machine takes long.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(locations: &LocationArguments, arguments: &DoctorArguments) -> u8 {
    let tokio = match tokio_runtime::small() {
        Ok(tokio) => tokio,
        Err(error) => {
            note(&format!("error: {}", chain(&error)));
            return FAILED;
        }
    };
    let reach = if arguments.offline { Reach::Offline } else { Reach::Everything };
    let checks = tokio.block_on(all(locations, reach));
    // A check that took too long may still be under way: it is not waited for.
    tokio.shutdown_background();
    let failed = checks.iter().filter(|check| matches!(check.verdict, Verdict::Fail(_))).count();
    if arguments.json {
        let documents: Vec<Value> = checks.iter().map(Check::document).collect();
        line(&json!({ "ok": failed == 0, "checks": documents }).to_string());
    } else {
        show(&checks, failed);
    }
    if failed == 0 { DONE } else { FAILED }
}

/// Checks everything at the same time.
async fn all(locations: &LocationArguments, reach: Reach) -> Vec<Check> {
    let read = match reach {
        Reach::Everything => settings::read(locations),
        Reach::Offline => settings::read_only(locations),
    };
    let mut checks = vec![machine::config(&read)];
    let is_right = read.is_ok();
    // With a wrong config, the rest is checked as if there were none.
    let loaded = read.unwrap_or_default();
    let directory = state::directory(locations);
    let directory = directory.as_deref();
    let watch = Watch::new();
    let engine = bounded("engine", &watch, machine::engine);
    let stored = {
        let (directory, loaded) = (directory.map(ToOwned::to_owned), loaded.clone());
        bounded("state", &watch, move || {
            let (mut checks, usable) = machine::state(directory.as_deref());
            checks.extend(machine::disk(directory.as_deref()));
            let usable = if is_right { usable } else { Usable::Unclear };
            checks.extend(directory.map_or_else(Vec::new, |directory| kept_work(&directory, usable, &loaded)));
            checks
        })
    };
    let kept = {
        let (directory, loaded) = (directory.map(ToOwned::to_owned), loaded.clone());
        bounded("plugins", &watch, move || {
            let vault = Vault::new(directory.clone(), loaded.file.as_deref());
            let secrets = directory.is_some().then(|| machine::secrets(&vault));
            let plugins = machine::plugins(&loaded, directory.as_deref());
            let channels = channels::channels(&loaded, directory.as_deref());
            secrets.into_iter().chain([plugins]).chain(hooks::hooks(&loaded)).chain(channels).collect()
        })
    };
    let models = services::models(&loaded, directory, reach, &watch);
    let servers = services::servers(&loaded, directory, reach, &watch);
    let (engine, stored, kept, models, servers) = tokio::join!(engine, stored, kept, models, servers);
    watch.end();
    checks.extend([engine, stored, kept, models, servers].into_iter().flatten());
    checks
}

/// Checks the open work in the store: texts to be sent, sessions, and jobs.
fn kept_work(state: &Path, usable: Usable, loaded: &Loaded) -> Vec<Check> {
    match usable {
        Usable::Now => {}
        Usable::NotThere => return vec![Check::ok("work", "there is no work: there is no store yet")],
        Usable::Later => {
            return vec![Check::ok(
                "work",
                "open work is not looked at before another command has brought the store to this version",
            )];
        }
        // That is told already. Without the config, a channel that it has would be told to be missing.
        Usable::Never | Usable::Unclear => return Vec::new(),
    }
    let unread = |error: &dyn std::error::Error| {
        let message = format!("the open work in the store cannot be read: {}", chain(error));
        vec![Check::fail("work", message, "look at the permissions of the store and at its disk, and try again")]
    };
    let config = &loaded.parsed.config;
    let store = match SqliteStore::open(&state.join(STORE_FILE)) {
        Ok(store) => store,
        Err(error) => return unread(&error),
    };
    let leases = FileLeases::new(state.join(OWNERS));
    let read = channels::outbox(config, &store).and_then(|outbox| {
        let (sessions, jobs) = (work::sessions(config, &store, &leases)?, work::cron(config, &store)?);
        Ok(outbox.into_iter().chain(sessions).chain(jobs).collect::<Vec<Check>>())
    });
    let hiding = redactor(config);
    let hidden = |Check { name, verdict, message }| Check { name, verdict, message: hiding.text(&message) };
    read.map_or_else(|error| unread(&error), |checks| checks.into_iter().map(hidden).collect())
}

/// Does checks that block, on a thread of their own.
async fn bounded(name: &str, watch: &Watch, work: impl FnOnce() -> Vec<Check> + Send + 'static) -> Vec<Check> {
    match watch.during(name, timeout(PATIENCE, spawn_blocking(work))).await {
        Ok(Ok(checks)) => checks,
        Ok(Err(error)) => {
            vec![Check::fail(name, format!("the check broke down: {error}"), "report this bug of Pincer")]
        }
        Err(_) => {
            let message = format!("the check has not ended within {} s", PATIENCE.as_secs());
            vec![Check::fail(name, message, "look at the load of this machine and at its disks, and try again")]
        }
    }
}

/// Shows on a terminal which checks are under way.
pub(super) struct Watch {
    line: ProgressBar,
    running: Mutex<Vec<String>>,
}

impl Watch {
    fn new() -> Self {
        Self { line: waiting("checking"), running: Mutex::default() }
    }

    /// Does a check, and names it meanwhile.
    async fn during<T>(&self, name: &str, check: impl Future<Output = T>) -> T {
        self.change(|running| running.push(name.to_owned()));
        let done = check.await;
        self.change(|running| running.retain(|known| known != name));
        done
    }

    fn change(&self, change: impl FnOnce(&mut Vec<String>)) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut running);
        self.line.set_message(format!("checking {}", running.join(", ")));
    }

    fn end(&self) {
        self.line.finish_and_clear();
    }
}

fn show(checks: &[Check], failed: usize) {
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or_default();
    // The lines below the first are indented as far as its message.
    let below = format!("\n{}", " ".repeat(width + 8));
    for Check { name, verdict, message } in checks {
        let word = style(verdict.word());
        let word = match verdict {
            Verdict::Ok => word.green(),
            Verdict::Warn(_) => word.yellow(),
            Verdict::Fail(_) => word.red(),
        };
        let gap = " ".repeat(6 - verdict.word().len());
        let remedy = verdict.remedy().map_or_else(String::new, |remedy| format!("\n→ {remedy}"));
        let text = format!("{message}{remedy}").replace('\n', &below);
        marked(&word, &format!("{gap}{name:width$}  {text}"));
    }
    let warned = checks.iter().filter(|check| matches!(check.verdict, Verdict::Warn(_))).count();
    line(&match (failed, warned) {
        (0, 0) => "\neverything is fine".to_owned(),
        (0, warned) => format!("\nnothing fails; {}", count(warned, "warning")),
        (failed, warned) => format!("\n{} failed; {}", count(failed, "check"), count(warned, "warning")),
    });
}
