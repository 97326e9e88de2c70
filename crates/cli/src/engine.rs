//! Loads the engine for a command, with the cache where the contract puts it, and tells a person what takes long.

use std::env;
use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;

use pincer_sandbox::{Engine, Error, Options};

use crate::print::{chain, note};

/// `$XDG_CACHE_HOME/pincer`, by default `~/.cache/pincer`; `None` without a home.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    // The convention says that a relative path there is to be ignored.
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("pincer"))
}

/// Loads the engine. What goes wrong with the cache is a warning: it only costs time.
pub(crate) fn load(live_cells: u32) -> Result<Engine, Error> {
    let progress = |step: pincer_sandbox::Progress| {
        if stderr().is_terminal() {
            // Replaced by the next step, and cleared at the end.
            let _ = write!(stderr(), "\r\x1b[K{step} (only the first time) …");
        } else {
            note(&format!("{step} (only the first time) …"));
        }
    };
    let options = Options { cache_dir: cache_dir(), live_cells, progress: Some(Box::new(progress)) };
    let loaded = Engine::load(options);
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K");
    }
    let engine = loaded?;
    for problem in engine.cache_problems() {
        note(&format!("warning: {}", chain(problem)));
    }
    Ok(engine)
}
