//! Loads the engine for a command, with the cache where the contract puts it, and tells a person what takes long.

use std::io::{self, IsTerminal, Write, stderr};
use std::sync::Once;

use pincer_codemode::fair_turns;
use pincer_process::PROCESS_LIMIT;
use pincer_sandbox::{Engine, Error, LongTurn, Options};
use rayon::ThreadPoolBuilder;

use crate::places::place;
use crate::print::{chain, note};

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Engine(Error),
    /// The sandbox needs a thread for deadlines.
    #[error("{0}: {PROCESS_LIMIT}")]
    NoThread(Error),
}

impl LoadError {
    fn of(error: Error) -> Self {
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        match &error {
            Error::Setup(cause) if cause.downcast_ref().is_some_and(refused) => Self::NoThread(error),
            _ => Self::Engine(error),
        }
    }
}

/// Loads the engine. What goes wrong with the cache is a warning: it only costs time.
pub(crate) fn load(live_cells: u32) -> Result<Engine, LoadError> {
    load_with(live_cells, None)
}

/// The same for code mode, where programs share the processors.
pub(crate) fn load_for_code_mode(live_cells: u32) -> Result<Engine, LoadError> {
    load_with(live_cells, Some(fair_turns()))
}

/// Lets this thread compile alone if the system refuses the compiler's threads. rayon, which wasmtime compiles with, would panic.
fn prepare_compiler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if ThreadPoolBuilder::new().build_global().is_err() {
            // A pool of this thread alone starts no thread, and this thread uses it from now on instead of the global one. It must
            // not be dropped while the thread is in it.
            std::mem::forget(ThreadPoolBuilder::new().num_threads(1).use_current_thread().build());
        }
    });
}

fn load_with(live_cells: u32, long_turn: Option<LongTurn>) -> Result<Engine, LoadError> {
    let progress = |step: pincer_sandbox::Progress| {
        prepare_compiler();
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
    let loaded = Engine::load(options).map_err(LoadError::of);
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K");
    }
    let engine = loaded?;
    for problem in engine.cache_problems() {
        note(&format!("warning: {}", chain(problem)));
    }
    Ok(engine)
}
