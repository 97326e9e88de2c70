//! Checks of this machine: the config, the engine and its cache, the state directory, the store, the disk, secrets and plugins.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pincer_config::{ConfigError, Loaded, trust};
use pincer_runtime::{Notice, Observer, STORE_FILE, SecretError, Vault, found_plugins, load_engine, user_directory};
use pincer_store_sqlite::{Integrity, SqliteError, SqliteStore};
use rustix::fs::{Access, access, statvfs};

use super::check::Check;
use crate::print::{bytes, chain, time};

/// With less than this, a disk may soon be full.
const LITTLE_ROOM: u64 = 1 << 30;
/// With less than this, the next write may fail.
const NO_ROOM: u64 = 100 << 20;

/// Checks how the config was read.
pub(super) fn config(read: &Result<Loaded, ConfigError>) -> Check {
    let loaded = match read {
        Ok(loaded) => loaded,
        Err(error) => {
            let remedy = match error {
                ConfigError::Read { .. } => "check the path and its permissions, or write a config with `pincer init`",
                ConfigError::Distrusted { .. } => "make the file your own, or name it with `--config`",
                ConfigError::Wrong { .. } => "correct these keys; until then no command that needs the config runs",
            };
            return Check::fail("config", chain(error), remedy);
        }
    };
    let Some(file) = &loaded.file else {
        return Check::warn("config", "there is no config: everything has its default", "run `pincer init`");
    };
    let warnings = loaded.parsed.warnings.iter().map(ToString::to_string);
    let warnings: Vec<String> = loaded.notes.iter().cloned().chain(warnings).collect();
    match warnings.is_empty() {
        true => Check::ok("config", format!("{} is valid", file.display())),
        false => Check::warn(
            "config",
            format!("{} is valid, with warnings:\n{}", file.display(), warnings.join("\n")),
            "change the config or its permissions as the warnings say",
        ),
    }
}

/// Returns an observer, and the notices that it takes.
fn collecting() -> (Observer, Arc<Mutex<Vec<Notice>>>) {
    let notices = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&notices);
    (Observer::new(move |notice| taken.lock().unwrap_or_else(PoisonError::into_inner).push(notice)), notices)
}

/// Checks that the engine loads, and the cache of what it compiles.
pub(super) fn engine() -> Vec<Check> {
    let (observer, notices) = collecting();
    let begun = Instant::now();
    let loaded = load_engine(1, &observer);
    let took = time(begun.elapsed());
    let notices = notices.lock().unwrap_or_else(PoisonError::into_inner);
    let was_compiled = notices.iter().any(|notice| matches!(notice, Notice::EngineStep(_)));
    let engine = match loaded {
        Ok(_) if was_compiled => {
            Check::ok("engine", format!("the JavaScript engine was compiled and loaded in {took}"))
        }
        Ok(_) => Check::ok("engine", format!("the JavaScript engine was loaded from the cache in {took}")),
        Err(error) => Check::fail(
            "engine",
            chain(&error),
            "check the memory of this machine and the limits of this user (`ulimit -a`), or install Pincer again",
        ),
    };
    let problem = notices.iter().find(|notice| matches!(notice, Notice::EngineCache(_))).map(ToString::to_string);
    vec![engine, cache(problem)]
}

fn cache(problem: Option<String>) -> Check {
    let Some(directory) = cache_directory() else {
        let message = "there is no place for a cache, so every start compiles the engine";
        return Check::warn("cache", message, "set HOME or XDG_CACHE_HOME");
    };
    let remedy = format!("run `chmod 700 {0}`, make room on its disk, or set XDG_CACHE_HOME", directory.display());
    match (problem, writable(&directory)) {
        (Some(problem), _) => Check::warn("cache", problem, remedy),
        (None, Err(error)) => {
            Check::warn("cache", format!("{} cannot be written: {error}", directory.display()), remedy)
        }
        (None, Ok(())) => Check::ok("cache", format!("{} is writable by you alone", directory.display())),
    }
}

fn cache_directory() -> Option<PathBuf> {
    user_directory("XDG_CACHE_HOME", ".cache")
}

/// Whether this process can write in a directory.
fn writable(directory: &Path) -> rustix::io::Result<()> {
    access(directory, Access::WRITE_OK | Access::EXEC_OK)
}

/// The path itself, or the nearest directory above it that is there.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|path| !path.as_os_str().is_empty() && path.exists()).unwrap_or(Path::new("."))
}

/// Whether a store can be looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usable {
    Now,
    /// There is none.
    NotThere,
    /// It is of an earlier version, and to look changes nothing.
    Later,
    /// Its own check says why.
    Never,
    /// The config that belongs to it is wrong.
    Unclear,
}

/// Checks the state directory and the store in it.
pub(super) fn state(directory: Option<&Path>) -> (Vec<Check>, Usable) {
    let Some(directory) = directory else {
        let check = Check::fail("state", "there is no place to keep state", "set HOME, or pass --state-dir");
        return (vec![check], Usable::Never);
    };
    let shown = directory.display();
    if let Err(error) = writable(existing(directory)) {
        let message = format!("{} cannot be written: {error}", existing(directory).display());
        let remedy = "correct its permissions, or pass another directory with --state-dir";
        return (vec![Check::fail("state", message, remedy)], Usable::Never);
    }
    let Ok(about) = fs::metadata(directory) else {
        let state = Check::ok("state", format!("{shown} is not there yet: the first command that needs it makes it"));
        let (store, usable) = store(&directory.join(STORE_FILE));
        return (vec![state, store], usable);
    };
    let mode = about.permissions().mode() & 0o777;
    let state = match trust(directory) {
        _ if !about.is_dir() => Check::fail(
            "state",
            format!("{shown} is not a directory"),
            "move it out of the way, or pass another directory with --state-dir",
        ),
        Err(distrust) => Check::fail(
            "state",
            distrust.to_string(),
            format!("make {shown} yours alone (`chown`, `chmod 700`), or pass another directory with --state-dir"),
        ),
        Ok(_) if mode & 0o077 != 0 => Check::warn(
            "state",
            format!("other users may look into {shown} (mode {mode:04o})"),
            format!("run `chmod 700 {shown}`"),
        ),
        Ok(_) => Check::ok("state", format!("{shown} is yours alone")),
    };
    let (store, usable) = store(&directory.join(STORE_FILE));
    (vec![state, store], usable)
}

fn store(path: &Path) -> (Check, Usable) {
    let shown = path.display();
    let Ok(about) = fs::metadata(path) else {
        let message = format!("{shown} is not there yet: the first program that needs it makes it");
        return (Check::ok("store", message), Usable::NotThere);
    };
    let mode = about.permissions().mode() & 0o777;
    let examined = match SqliteStore::examine(path) {
        Ok(examined) => examined,
        Err(error) => {
            let remedy = match error {
                SqliteError::Corrupt { .. } => "restore a backup with `pincer restore`, or move the file away",
                SqliteError::Newer { .. } => "use the newer Pincer that wrote it, or another --state-dir",
                _ => "look at the file's permissions, and at the disk",
            };
            return (Check::fail("store", chain(&error), remedy), Usable::Never);
        }
    };
    let usable = match &examined.integrity {
        Integrity::Damaged(_) => Usable::Never,
        _ if examined.schema != examined.known => Usable::Later,
        _ => Usable::Now,
    };
    let size = bytes(usize::try_from(examined.bytes).unwrap_or(usize::MAX));
    let schema = match examined.schema == examined.known {
        true => format!("schema {}", examined.schema),
        false => format!("schema {}, which the next program brings to {}", examined.schema, examined.known),
    };
    let check = match examined.integrity {
        Integrity::Damaged(what) => Check::fail(
            "store",
            format!("{shown} is damaged: {what}"),
            "restore a backup with `pincer restore`, or move the file away",
        ),
        _ if mode & 0o077 != 0 => Check::warn(
            "store",
            format!("other users may read {shown} (mode {mode:04o})"),
            format!("run `chmod 600 {shown}`"),
        ),
        Integrity::Sound => Check::ok("store", format!("{shown} is sound: {schema}, {size}")),
        Integrity::Unchecked => {
            Check::ok("store", format!("{shown} opens: {schema}, {size}, too large for a quick check of its pages"))
        }
    };
    (check, usable)
}

/// Checks the room on the disks of the state and of the cache.
pub(super) fn disk(state: Option<&Path>) -> Vec<Check> {
    let cache = cache_directory();
    let places = [("disk:state", state), ("disk:cache", cache.as_deref())];
    places.into_iter().filter_map(|(name, path)| Some(room_at(name, existing(path?)))).collect()
}

fn room_at(name: &str, path: &Path) -> Check {
    match statvfs(path) {
        Ok(about) => room(name, path, about.f_bavail.saturating_mul(about.f_frsize)),
        Err(error) => Check::warn(
            name,
            format!("the room on the disk of {} is not known: {error}", path.display()),
            "check with `df` that there is room",
        ),
    }
}

fn room(name: &str, path: &Path, free: u64) -> Check {
    let message = format!("{:.1} GB are free at {}", free as f64 / 1e9, path.display());
    match free {
        0..NO_ROOM => Check::fail(name, message, "make room on this disk: programs cannot be stored without"),
        NO_ROOM..LITTLE_ROOM => Check::warn(name, message, "make room on this disk soon"),
        _ => Check::ok(name, message),
    }
}

/// Checks the file of the secrets that Pincer keeps.
pub(super) fn secrets(vault: &Vault) -> Check {
    match vault.stored() {
        Ok(stored) if stored.is_empty() => Check::ok("secrets", "Pincer keeps no secrets"),
        Ok(stored) => {
            Check::ok("secrets", format!("Pincer keeps {} of them, in a file that is yours alone", stored.len()))
        }
        Err(SecretError::Open(file)) => Check::fail(
            "secrets",
            format!("others can read {}, so it is not used", file.display()),
            format!("run `chmod 600 {}`, and replace the secrets in it", file.display()),
        ),
        Err(error) => Check::fail("secrets", chain(&error), "check the file, or set its secrets again"),
    }
}

/// Checks the manifests of plugins. Nothing of them is started.
pub(super) fn plugins(loaded: &Loaded, state: Option<&Path>) -> Check {
    let (observer, notices) = collecting();
    let found = match found_plugins(loaded, state, &observer) {
        Ok(found) => found,
        Err(error) => {
            let remedy = "`pincer plugins check DIR` tells all that is wrong with one; no tool runs until it is right";
            return Check::fail("plugins", chain(&error), remedy);
        }
    };
    let notices = notices.lock().unwrap_or_else(PoisonError::into_inner);
    let warnings: Vec<String> = notices.iter().map(ToString::to_string).collect();
    if !warnings.is_empty() {
        return Check::warn("plugins", warnings.join("\n"), "change the permissions as the warnings say");
    }
    let is_on = |id: &str| loaded.parsed.config.plugins.entries.get(id).is_none_or(|entry| entry.enabled);
    let shown = found.iter().map(|plugin| match is_on(&plugin.manifest.id) {
        true => plugin.manifest.id.clone(),
        false => format!("{} (turned off)", plugin.manifest.id),
    });
    let shown: Vec<String> = shown.collect();
    Check::ok(
        "plugins",
        if shown.is_empty() { "there are no plugins".into() } else { format!("valid: {}", shown.join(", ")) },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_is_a_warning_and_none_a_failure() {
        let word = |free| room("disk", Path::new("/"), free).verdict.word();
        assert_eq!(
            [word(1 << 30), word((1 << 30) - 1), word(100 << 20), word((100 << 20) - 1)],
            ["ok", "warn", "warn", "fail"]
        );
    }

    #[test]
    fn a_path_that_is_not_there_is_judged_by_what_is_above_it() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(existing(&directory.path().join("a/b")), directory.path());
        assert_eq!(existing(Path::new("not/there")), Path::new("."));
    }
}
