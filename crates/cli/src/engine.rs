//! Loads the engine for a command, with the cache where the contract puts it, and tells a person what takes long.

use std::io::{IsTerminal, Write, stderr};

use pincer_sandbox::{Engine, Error, Options};

use crate::places::place;
use crate::print::{chain, note};

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
    let options =
        Options { cache_dir: place("XDG_CACHE_HOME", ".cache"), live_cells, progress: Some(Box::new(progress)) };
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
