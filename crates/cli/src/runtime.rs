//! The async runtimes that commands run in.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// For a command that one person or one client waits for. One worker is enough: what computes or blocks has threads of its own,
/// and tasks that only wake each other up do not have to wake a thread up too.
pub(crate) fn small() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

/// For a server of many clients: a worker for each processor.
pub(crate) fn large() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}
