//! What a server says beside its answers, on its standard error or in messages for its log: a file of its own, and the last words
//! for an error.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::hiding::Hiding;
use crate::limits::{MOST_LOG_BYTES, STDERR_BYTES};
use crate::private::private_directory;

/// A line that is longer is kept in parts.
const LONGEST_LINE: usize = 64 << 10;

/// The last words of a server.
#[derive(Clone, Default)]
pub(crate) struct LastWords(Arc<Mutex<Words>>);

#[derive(Default)]
struct Words {
    said: VecDeque<u8>,
    /// A line that has no end yet.
    begun: Vec<u8>,
}

impl LastWords {
    /// What it said last, or nothing.
    pub(crate) fn text(&self) -> Option<String> {
        let words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said: Vec<u8> = words.said.iter().chain(&words.begun).copied().collect();
        let said = String::from_utf8_lossy(&said);
        let said = said.trim();
        (!said.is_empty()).then(|| said.to_owned())
    }

    fn add(&self, part: &[u8], begun: Vec<u8>) {
        let mut words = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        words.said.extend(part);
        let over = words.said.len().saturating_sub(STDERR_BYTES);
        words.said.drain(..over);
        words.begun = begun;
        words.begun.truncate(STDERR_BYTES);
    }
}

/// The log of a server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ServerLog(Arc<Mutex<Destination>>);

/// Where a log is kept.
enum Destination {
    /// There, once there is something to keep.
    File(PathBuf),
    Open(Log),
    Nowhere,
}

impl ServerLog {
    pub(crate) fn new(state: Option<&Path>, server: &str) -> Self {
        let file = |state: &Path| Destination::File(state.join("logs").join("mcp").join(format!("{server}.log")));
        Self(Arc::new(Mutex::new(state.map_or(Destination::Nowhere, file))))
    }

    /// Adds something to it, as far as that can be done.
    pub(crate) fn add(&self, part: &[u8]) {
        let mut destination = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Destination::File(file) = &*destination {
            *destination = Log::open(file).map_or(Destination::Nowhere, Destination::Open);
        }
        if let Destination::Open(log) = &mut *destination
            && log.add(part).is_err()
        {
            *destination = Destination::Nowhere;
        }
    }
}

/// Takes down what a server writes until it writes no more, line by line: a secret may come in two parts. Without a file the last
/// words are kept all the same.
pub(crate) async fn listen(mut stderr: impl AsyncRead + Unpin, log: ServerLog, words: LastWords, hiding: Hiding) {
    let keep = |part: &[u8], begun: &[u8]| {
        let part = hiding.bytes(part);
        words.add(&part, hiding.bytes(begun));
        log.add(&part);
    };
    let (mut buffer, mut line) = (vec![0; 8 << 10], Vec::new());
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        line.extend_from_slice(&buffer[..count]);
        let whole = line.iter().rposition(|byte| *byte == b'\n').map(|end| end + 1);
        let taken = whole.or((line.len() > LONGEST_LINE).then_some(line.len()));
        let part: Vec<u8> = line.drain(..taken.unwrap_or_default()).collect();
        keep(&part, &line);
    }
    keep(&line, &[]);
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
