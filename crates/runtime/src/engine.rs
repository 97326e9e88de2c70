//! Loads the engine, with the cache where the contract puts it, and tells what takes long.

use std::io;
use std::sync::Once;

use pincer_codemode::fair_turns;
use pincer_process::PROCESS_LIMIT;
use pincer_sandbox::{Engine, Error, LongTurn, Options};
use rayon::ThreadPoolBuilder;

use crate::notice::{Notice, Observer};
use crate::user_directories::user_directory;

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// It does not load.
    #[error(transparent)]
    Engine(Error),
    /// The sandbox needs a thread for deadlines.
    #[error("{0}: {PROCESS_LIMIT}")]
    NoThread(Error),
    /// Loading panicked.
    #[error("loading the JavaScript engine broke down")]
    Broken(#[source] tokio::task::JoinError),
}

impl EngineError {
    fn of(error: Error) -> Self {
        let refused = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        match &error {
            Error::Setup(cause) if cause.downcast_ref().is_some_and(refused) => Self::NoThread(error),
            _ => Self::Engine(error),
        }
    }
}

/// Loads the engine for cells without code mode. What goes wrong with the cache is a notice: it only costs time.
pub fn load_engine(live_cells: u32, observer: &Observer) -> Result<Engine, EngineError> {
    load_with(live_cells, None, observer)
}

/// Loads the engine for code mode, where programs share the processors.
pub(crate) fn load_for_code_mode(live_cells: u32, observer: &Observer) -> Result<Engine, EngineError> {
    load_with(live_cells, Some(fair_turns()), observer)
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

fn load_with(live_cells: u32, long_turn: Option<LongTurn>, observer: &Observer) -> Result<Engine, EngineError> {
    let told = observer.clone();
    let progress = move |step: pincer_sandbox::Progress| {
        prepare_compiler();
        told.tell(Notice::EngineStep(step));
    };
    let options = Options {
        cache_dir: user_directory("XDG_CACHE_HOME", ".cache"),
        live_cells,
        progress: Some(Box::new(progress)),
        long_turn,
    };
    let loaded = Engine::load(options).map_err(EngineError::of);
    observer.tell(Notice::EngineStepsOver);
    let engine = loaded?;
    engine.cache_problems().iter().for_each(|problem| observer.tell(Notice::cache(problem)));
    Ok(engine)
}
