//! The right to run a channel, which one process has at a time: two connections of one channel would answer every message twice.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::ChannelsError;

/// The right to run a channel. The system takes it back when this process ends, however it ends.
pub(crate) struct Hold {
    _lock: File,
    /// The directory in which the channel keeps what is its own.
    pub directory: PathBuf,
}

impl Hold {
    /// Takes the right to run a channel of this state directory.
    pub(crate) fn take(state: &Path, name: &str) -> Result<Self, ChannelsError> {
        let all = state.join("channels");
        let directory = all.join(name);
        let path = all.join(format!("{name}.lock"));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| ChannelsError::Directory { path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(failed(&directory))?;
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.map_err(failed(&path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { _lock: lock, directory }),
            Err(TryLockError::WouldBlock) => Err(ChannelsError::RunElsewhere { name: name.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed(&path)(source)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_run_by_one_process() {
        let state = tempfile::tempdir().unwrap();
        let first = Hold::take(state.path(), "irc").unwrap();
        assert!(first.directory.is_dir());
        assert!(matches!(Hold::take(state.path(), "irc"), Err(ChannelsError::RunElsewhere { .. })));
        assert!(Hold::take(state.path(), "other").is_ok());
        drop(first);
        assert!(Hold::take(state.path(), "irc").is_ok());
    }
}
