//! The async runtimes that commands run in, and what there is to say when the system has no threads for one.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use pincer_process::PROCESS_LIMIT;
use tokio::runtime::{Builder, Runtime};

use crate::FAILED;
use crate::print::{chain, note};

/// How long a thread may take to begin while the system refuses others. It may have been the last one that the limit allows.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often a missing thread is looked for.
const AGAIN: Duration = Duration::from_millis(50);
/// Threads for work that blocks stay for good. tokio panics if there is none and none can be started.
const KEPT: Duration = Duration::from_secs(365 * 24 * 3600);
/// Those of a server, of which there may be hundreds after a peak, end when they have had nothing to do for so long.
const IDLE: Duration = Duration::from_secs(10);
/// How often one of them gets something to do, so that the last one stays.
const KEEP_ONE: Duration = Duration::from_secs(3);

/// Why there is no runtime.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("the async runtime cannot be set up")]
    Setup(#[source] io::Error),
    #[error("no thread can be started ({reason}): {PROCESS_LIMIT}")]
    NoThread { reason: String },
}

impl StartError {
    /// The text of tokio's panic.
    fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("tokio does not say why");
        Self::NoThread { reason: text.strip_prefix("OS can't spawn worker thread: ").unwrap_or(text).to_owned() }
    }
}

/// For a command that one person waits for. One worker is enough: what computes or blocks has threads of its own, and tasks that
/// only wake each other up do not have to wake a thread up too.
pub(crate) fn small() -> Result<Runtime, StartError> {
    one_worker(1)
}

/// Like [`small`], for one client at standard input and output: each of them can keep a thread for as long as the client likes.
pub(crate) fn for_stdio() -> Result<Runtime, StartError> {
    one_worker(3)
}

/// For a server of many clients: a worker for each processor.
pub(crate) fn large() -> Result<Runtime, StartError> {
    // When tokio panics in the middle of this, it waits while it unwinds for the workers that have started, and nothing tells
    // those to end. So this happens on a thread of its own, which is left behind then.
    let (tell, told) = channel();
    let panicked = tell.clone();
    let hook = move |panic: &PanicHookInfo<'_>| drop(panicked.send(Err(StartError::of_panic(panic.payload()))));
    let runtime = with_hook(hook, || {
        let building =
            thread::Builder::new().spawn(move || tell.send(build(&mut Builder::new_multi_thread(), 1, IDLE)));
        building.map_err(|error| StartError::NoThread { reason: error.to_string() })?;
        told.recv().unwrap_or_else(|error| Err(StartError::NoThread { reason: error.to_string() }))
    })?;
    runtime.spawn(async {
        loop {
            tokio::time::sleep(KEEP_ONE).await;
            drop(tokio::task::spawn_blocking(|| ()));
        }
    });
    Ok(runtime)
}

/// Does the work of a command on its runtime, and returns the exit code. Prints why there is no runtime, if there is none.
pub(crate) fn attend(started: Result<Runtime, StartError>, work: impl Future<Output = Result<u8, u8>>) -> u8 {
    let runtime = match started {
        Ok(runtime) => runtime,
        Err(error) => {
            note(&format!("error: {}", chain(&error)));
            return FAILED;
        }
    };
    let code = runtime.block_on(work);
    // A question at the terminal may still wait for a line.
    runtime.shutdown_background();
    code.unwrap_or_else(|code| code)
}

fn one_worker(blocking: usize) -> Result<Runtime, StartError> {
    let build = || build(Builder::new_multi_thread().worker_threads(1), blocking, KEPT);
    let built = with_hook(|_| (), || catch_unwind(AssertUnwindSafe(build)));
    built.unwrap_or_else(|panic| Err(StartError::of_panic(panic.as_ref())))
}

/// Does something during which panics are told to `hook` alone. tokio starts the threads of a runtime, and panics if it cannot:
/// that is an error for a person to read, and no bug. Nothing else of this process runs yet that could panic unheard.
fn with_hook<T>(hook: impl Fn(&PanicHookInfo<'_>) + Send + Sync + 'static, work: impl FnOnce() -> T) -> T {
    let usual = take_hook();
    set_hook(Box::new(hook));
    let done = work();
    set_hook(usual);
    done
}

/// Builds a runtime that has `blocking` threads for work that blocks, and keeps idle ones for so long. Panics if the system
/// starts none.
fn build(builder: &mut Builder, blocking: usize, keep: Duration) -> Result<Runtime, StartError> {
    let runtime = builder.enable_all().thread_keep_alive(keep).build().map_err(StartError::Setup)?;
    match reserve(&runtime, blocking) {
        Ok(()) => Ok(runtime),
        Err(error) => {
            // Dropping it would wait for work that no thread has taken up.
            runtime.shutdown_background();
            Err(error)
        }
    }
}

/// Waits until all workers run, and so many threads for work that blocks.
fn reserve(runtime: &Runtime, blocking: usize) -> Result<(), StartError> {
    let (here, arrivals) = channel();
    let mut held = Vec::new();
    for _ in 0..blocking {
        let (hold, release) = channel::<()>();
        let here = here.clone();
        // Each stays until all are there. Otherwise one thread could do the work of all.
        runtime.spawn_blocking(move || {
            let _ = here.send(());
            let _ = release.recv();
        });
        held.push(hold);
    }
    let mut missing = blocking;
    let mut refused_since = None;
    while missing > 0 {
        if arrivals.recv_timeout(AGAIN).is_ok() {
            missing -= 1;
            continue;
        }
        // A busy system may take its time for a thread that it has started; one that starts no more says so.
        match thread::Builder::new().spawn(|| ()) {
            Ok(_) => refused_since = None,
            Err(error) if refused_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE => {
                return Err(StartError::NoThread { reason: error.to_string() });
            }
            Err(_) => {}
        }
        // tokio tries to start a thread whenever there is work for one.
        drop(runtime.spawn_blocking(|| ()));
    }
    Ok(())
}
