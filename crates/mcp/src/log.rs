//! What a server says beside its answers, on its standard error or in messages for its log: a file of its own, and the last words
//! for an error.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::limits::{MOST_LOG_BYTES, STDERR_BYTES};
use crate::private::private_directory;

/// The last words of a server.
#[derive(Clone, Default)]
pub(crate) struct LastWords(Arc<Mutex<VecDeque<u8>>>);

impl LastWords {
    /// What it said last, or nothing.
    pub fn text(&self) -> Option<String> {
        let said: Vec<u8> = self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let said = String::from_utf8_lossy(&said);
        let said = said.trim();
        (!said.is_empty()).then(|| said.to_owned())
    }

    fn add(&self, part: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend(part);
        let over = said.len().saturating_sub(STDERR_BYTES);
        said.drain(..over);
    }
}

/// The log of a server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ServerLog(Arc<Mutex<Place>>);

/// Where a log is kept.
enum Place {
    /// There, once there is something to keep.
    File(PathBuf),
    Open(Log),
    Nowhere,
}

impl ServerLog {
    pub fn new(state: Option<&Path>, server: &str) -> Self {
        let file = |state: &Path| Place::File(state.join("logs").join("mcp").join(format!("{server}.log")));
        Self(Arc::new(Mutex::new(state.map_or(Place::Nowhere, file))))
    }

    /// Adds something to it, as far as that can be done.
    pub fn add(&self, part: &[u8]) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Place::File(file) = &*place {
            *place = Log::open(file).map_or(Place::Nowhere, Place::Open);
        }
        if let Place::Open(log) = &mut *place
            && log.add(part).is_err()
        {
            *place = Place::Nowhere;
        }
    }
}

/// Takes down what a server writes until it writes no more. Without a file the last words are kept all the same.
pub(crate) async fn listen(mut stderr: impl AsyncRead + Unpin, log: ServerLog, words: LastWords) {
    let mut buffer = vec![0; 8 << 10];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        words.add(&buffer[..count]);
        log.add(&buffer[..count]);
    }
}

/// A file that begins anew when it has grown too large.
struct Log {
    file: File,
    bytes: u64,
}

impl Log {
    fn open(file: &Path) -> Option<Self> {
        private_directory(file.parent()?).ok()?;
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(file).ok()?;
        let bytes = file.metadata().ok()?.len();
        Some(Self { file, bytes })
    }

    fn add(&mut self, part: &[u8]) -> std::io::Result<()> {
        if self.bytes + part.len() as u64 > MOST_LOG_BYTES {
            self.file.set_len(0)?;
            self.bytes = 0;
        }
        self.bytes += part.len() as u64;
        self.file.write_all(part)
    }
}
