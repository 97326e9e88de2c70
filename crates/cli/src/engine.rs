//! Loads the engine for a command, with the cache where the contract puts it, and tells a person what takes long.

use std::io::{IsTerminal, Write, stderr};

use pincer_codemode::fair_turns;
use pincer_sandbox::{Engine, Error, LongTurn, Options};

use crate::places::place;
use crate::print::{chain, note};

/// Loads the engine. What goes wrong with the cache is a warning: it only costs time.
pub(crate) fn load(live_cells: u32) -> Result<Engine, Error> {
    load_with(live_cells, None)
}

/// The same for code mode, where programs share the processors.
pub(crate) fn load_for_code_mode(live_cells: u32) -> Result<Engine, Error> {
    load_with(live_cells, Some(fair_turns()))
}

fn load_with(live_cells: u32, long_turn: Option<LongTurn>) -> Result<Engine, Error> {
    let progress = |step: pincer_sandbox::Progress| {
        if stderr().is_terminal() {
            // Replaced by the next step, and cleared at the end.
            let _ = write!(stderr(), "\r\x1b[K{step} (only the first time) …");
        } else {
            note(&format!("{step} (only the first time) …"));
        }
    };
    let options = Options {
        cache_dir: place("XDG_CACHE_HOME", ".cache"),
        live_cells,
        progress: Some(Box::new(progress)),
        long_turn,
    };
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
