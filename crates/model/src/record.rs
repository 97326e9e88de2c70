//! Exchanges with real providers, written to files that a scripted server can replay.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use reqwest::Response;
use serde::Serialize;
use serde_json::Value;
use tracing::warn;

use crate::debug::Hiding;
use crate::message::Api;

/// The bytes of a reply that are recorded.
const MOST_BYTES: usize = 32 << 20;
/// Headers that a replay needs. All others may tell of an account.
const HEADERS: [&str; 4] = ["content-type", "retry-after", "retry-after-ms", "x-should-retry"];

/// Writes exchanges to a directory, one file each.
#[derive(Clone, Debug)]
pub struct Recorder {
    directory: PathBuf,
    count: Arc<AtomicU32>,
}

impl Recorder {
    /// Returns a recorder that writes to `directory`, which is made when there is something to write.
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), count: Arc::default() }
    }

    pub(crate) fn begin(&self, hiding: Hiding) -> Recording {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        // A process of an earlier day may have had the same id.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        let name = format!("{now}-{}-{number:03}.json", std::process::id());
        let mut recording = Recording::default();
        (recording.file, recording.hiding) = (self.directory.join(name), hiding);
        recording
    }
}

/// One exchange. Written when it is over, however it ends.
#[derive(Default)]
pub(crate) struct Recording {
    file: PathBuf,
    hiding: Hiding,
    api: Option<Api>,
    request: String,
    status: u16,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
    cuts: Vec<usize>,
}

#[derive(Serialize)]
struct Script {
    replies: [Reply; 1],
}

#[derive(Serialize)]
struct Reply {
    recorded: Recorded,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    api: Option<Api>,
    request: Value,
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
    cuts: Vec<usize>,
}

impl Recording {
    pub(crate) fn request(&mut self, api: Api, body: &str) {
        self.api = Some(api);
        self.request = self.hiding.text(body);
    }

    pub(crate) fn response(&mut self, response: &Response) {
        self.status = response.status().as_u16();
        let headers = response.headers().iter().filter(|(name, _)| HEADERS.contains(&name.as_str()));
        let text = |(name, value): (&reqwest::header::HeaderName, &reqwest::header::HeaderValue)| {
            Some((name.to_string(), self.hiding.text(value.to_str().ok()?)))
        };
        self.headers = headers.filter_map(text).collect();
    }

    pub(crate) fn chunk(&mut self, bytes: &[u8]) {
        if self.body.len() + bytes.len() > MOST_BYTES {
            return;
        }
        if !self.body.is_empty() {
            self.cuts.push(self.body.len());
        }
        self.body.extend_from_slice(bytes);
    }

    fn write(&mut self) -> std::io::Result<()> {
        let text = String::from_utf8_lossy(&self.body).into_owned();
        let body = self.hiding.text(&text);
        // Where a secret was, the cuts are elsewhere.
        let cuts = if body.len() == self.body.len() { std::mem::take(&mut self.cuts) } else { Vec::new() };
        let request = serde_json::from_str(&self.request).unwrap_or_default();
        let (status, headers) = (self.status, std::mem::take(&mut self.headers));
        let recorded = Recorded { api: self.api, request, status, headers, body, cuts };
        let script = serde_json::to_vec_pretty(&Script { replies: [Reply { recorded }] })?;
        if let Some(directory) = self.file.parent() {
            fs::create_dir_all(directory)?;
        }
        // Prompts are in it.
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.file)?;
        std::io::Write::write_all(&mut file, &script)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if self.status == 0 {
            return;
        }
        if let Err(error) = self.write() {
            warn!(file = %self.file.display(), %error, "an exchange with a model could not be recorded");
        }
    }
}
