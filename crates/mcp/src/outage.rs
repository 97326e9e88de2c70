//! That a server was down a moment ago, for processes that are over in a moment themselves: they need not wait for it again.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::clock::unix_millis;
use crate::private::private_directory;
use crate::settings::ServerSettings;

/// For so long it is not waited for.
const REMEMBERED_MS: u64 = 60_000;

/// That a server was down.
#[derive(Serialize, Deserialize)]
pub(crate) struct Outage {
    digest: String,
    at: u64,
    pub reason: String,
}

impl Outage {
    /// What is known of the last minute.
    pub(crate) fn stored(state: &Path, settings: &ServerSettings) -> Option<Self> {
        let text = std::fs::read(file(state, &settings.name)).ok()?;
        let outage: Self = serde_json::from_slice(&text).ok()?;
        let fresh = unix_millis().checked_sub(outage.at).is_some_and(|age| age < REMEMBERED_MS);
        (fresh && outage.digest == settings.digest()).then_some(outage)
    }

    /// Notes it, as far as that can be done.
    pub(crate) fn store(state: Option<&Path>, settings: &ServerSettings, reason: &str) {
        let Some(state) = state else { return };
        let outage = Self { digest: settings.digest(), at: unix_millis(), reason: reason.to_owned() };
        let file = file(state, &settings.name);
        let stored = || -> std::io::Result<()> {
            let directory = file.parent().unwrap_or(state);
            private_directory(directory)?;
            // Nobody else's to read: the reason has the last words of the server.
            let mut new = tempfile::NamedTempFile::new_in(directory)?;
            serde_json::to_writer(&mut new, &outage)?;
            new.persist(&file)?;
            Ok(())
        };
        let _ = stored();
    }

    /// It is there again.
    pub(crate) fn forget(state: Option<&Path>, server: &str) {
        if let Some(state) = state {
            let _ = std::fs::remove_file(file(state, server));
        }
    }
}

fn file(state: &Path, server: &str) -> PathBuf {
    state.join("mcp").join(format!("{server}.down.json"))
}
