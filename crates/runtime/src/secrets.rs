//! Secrets: those that Pincer keeps in its state directory, and those that files, commands and the system's keychain have.

use std::collections::BTreeMap;
use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use pincer_config::Values;
use pincer_config::keys::SecretSource;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::state;

/// Where the secrets of `pincer secrets set` are, in the state directory.
const FILE: &str = "secrets.json";
/// A secret is a token or a key; what is larger is something else.
pub const MOST_SECRET_BYTES: u64 = 64 << 10;
/// A person may have to unlock something first.
const PATIENCE: Duration = Duration::from_secs(60);
/// The service of our entries in the system's keychain.
const SERVICE: &str = "pincer";

/// A secret that Pincer keeps.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stored {
    /// In the file itself.
    Value(String),
    /// In the system's keychain, under the secret's name.
    Keychain,
}

/// Why a secret cannot be had or kept. No value is in it.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// No value is kept under this name.
    #[error("it is not set; run `pincer secrets set {0}`")]
    Unset(String),
    /// There is no state directory.
    #[error("there is no place to keep secrets: set HOME, or pass --state-dir")]
    NoDirectory,
    /// A file cannot be read or written.
    #[error("{} cannot be used: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Other users can read the file.
    #[error("others can read {}: run `chmod 600 {}`", .0.display(), .0.display())]
    Open(PathBuf),
    /// A program cannot be started.
    #[error("`{program}` cannot be run: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A program failed.
    #[error("`{program}` failed ({status}); run it by hand to see why")]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// A program took too long.
    #[error("`{program}` took longer than {} s, and was ended", limit.as_secs())]
    Late {
        /// The program.
        program: String,
        /// The time it had.
        limit: Duration,
    },
    /// A text is no secret.
    #[error(
        "what {0} gives is empty, has a zero byte in it, is not UTF-8 text, or has more than {MOST_SECRET_BYTES} bytes"
    )]
    Unfit(String),
}

/// Looks up variables and secrets.
#[derive(Clone, Debug)]
pub struct Vault {
    /// The state directory.
    pub state: Option<PathBuf>,
    /// Where relative paths are seen from, and where commands are started.
    pub beside: Option<PathBuf>,
    /// How long a command may take.
    pub patience: Duration,
}

impl Vault {
    /// Looks up secrets for a config, those that Pincer keeps in the state directory.
    pub fn new(state: Option<PathBuf>, config: Option<&Path>) -> Self {
        Self { state, beside: config.and_then(Path::parent).map(Path::to_owned), patience: PATIENCE }
    }

    /// Returns the secrets that Pincer keeps.
    pub fn stored(&self) -> Result<BTreeMap<String, Stored>, SecretError> {
        let file = self.file()?;
        let failed = |source| SecretError::File { file: file.clone(), source };
        let mut text = String::new();
        let mut opened = match File::open(&file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(failed(error)),
        };
        if opened.metadata().map_err(failed)?.mode() & 0o077 != 0 {
            return Err(SecretError::Open(file));
        }
        opened.read_to_string(&mut text).map_err(failed)?;
        // The error of the parser would quote what it does not understand.
        serde_json::from_str(&text).map_err(|_| failed(io::Error::other("it is damaged")))
    }

    /// Changes the secrets that Pincer keeps, while no other process does.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Stored>) -> Result<T, SecretError>,
    ) -> Result<T, SecretError> {
        let file = self.file()?;
        let failed = |source| SecretError::File { file: file.clone(), source };
        let lock = file.with_extension("lock");
        state::private_directory(&file).map_err(failed)?;
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(lock);
        let lock = lock.and_then(|lock| lock.lock().map(|()| lock)).map_err(failed)?;
        let mut stored = self.stored()?;
        let done = change(&mut stored)?;
        let text = serde_json::to_vec_pretty(&stored).map_err(|error| failed(error.into()))?;
        state::write_private(&file, &text).map_err(failed)?;
        drop(lock);
        Ok(done)
    }

    fn file(&self) -> Result<PathBuf, SecretError> {
        Ok(self.state.as_ref().ok_or(SecretError::NoDirectory)?.join(FILE))
    }

    fn look_up(&self, name: &str, source: Option<&SecretSource>) -> Result<String, SecretError> {
        match source {
            Some(SecretSource::File(file)) => read_file(&self.beside.as_deref().unwrap_or(Path::new("")).join(file)),
            Some(SecretSource::Command(words)) => self.run(words, None),
            Some(SecretSource::Keychain(account)) => self.run(&keychain(Action::Get, account), None),
            None => match self.stored()?.remove(name) {
                Some(Stored::Value(value)) => Ok(value),
                Some(Stored::Keychain) => self.run(&keychain(Action::Get, name), None),
                None => Err(SecretError::Unset(name.to_owned())),
            },
        }
    }

    /// Keeps a value in the system's keychain.
    pub fn put_into_keychain(&self, name: &str, value: &str) -> Result<(), SecretError> {
        let input = match cfg!(target_os = "macos") {
            // As an argument, others could read it while the program runs.
            true => {
                let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
                format!("add-generic-password -U -s {SERVICE} -a {name} -X {hex}\n")
            }
            false => value.to_owned(),
        };
        self.finish(&keychain(Action::Set, name), Some(&input)).map(drop)
    }

    /// Takes a value out of the system's keychain.
    pub fn take_from_keychain(&self, name: &str) -> Result<(), SecretError> {
        self.finish(&keychain(Action::Remove, name), None).map(drop)
    }

    /// Returns the output of a program, as a secret.
    fn run(&self, words: &[String], input: Option<&str>) -> Result<String, SecretError> {
        let said = self.finish(words, input)?;
        fit_secret(said).ok_or_else(|| SecretError::Unfit(format!("`{}`", words[0])))
    }

    fn finish(&self, words: &[String], input: Option<&str>) -> Result<Vec<u8>, SecretError> {
        let program = words.first().cloned().unwrap_or_default();
        let start = |source| SecretError::Start { program: program.clone(), source };
        let mut command = Command::new(&program);
        command.args(words.iter().skip(1)).stdout(Stdio::piped()).process_group(0);
        // Its words about a failure may have a secret in them.
        command.stderr(Stdio::null()).stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        if let Some(beside) = self.beside.as_ref().filter(|beside| !beside.as_os_str().is_empty()) {
            command.current_dir(beside);
        }
        let mut child = command.spawn().map_err(start)?;
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            // A program that does not read it fails by itself.
            let _ = stdin.write_all(input.as_bytes());
        }
        match self.attend(&mut child) {
            Some((said, _)) if said.len() as u64 > MOST_SECRET_BYTES + 1 => {
                Err(SecretError::Unfit(format!("`{program}`")))
            }
            Some((said, status)) if status.success() => Ok(said),
            Some((_, status)) => Err(SecretError::Failed { program, status }),
            None => {
                end(&mut child);
                Err(SecretError::Late { program, limit: self.patience })
            }
        }
    }

    /// Returns the output of a program, if it ends soon enough.
    fn attend(&self, child: &mut Child) -> Option<(Vec<u8>, ExitStatus)> {
        let deadline = Instant::now() + self.patience;
        let stdout = child.stdout.take()?;
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            let mut said = Vec::new();
            let _ = stdout.take(MOST_SECRET_BYTES + 2).read_to_end(&mut said);
            let _ = tell.send(said);
        });
        let said = told.recv_timeout(self.patience).ok()?;
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Some((said, status)),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                _ => return None,
            }
        }
    }
}

/// Ends a program with everything it has started.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

impl Values for Vault {
    fn variable(&self, name: &str) -> Option<String> {
        env::var(name).ok()
    }

    fn has_secret(&self, name: &str, source: Option<&SecretSource>) -> bool {
        // A file that cannot be read is reported when it is looked up.
        source.is_some() || self.stored().map_or(true, |stored| stored.contains_key(name))
    }

    fn secret(&self, name: &str, source: Option<&SecretSource>) -> Result<String, pincer_config::SecretError> {
        self.look_up(name, source).map_err(|error| pincer_config::SecretError::LookUp(Box::new(error)))
    }
}

/// Knows which secrets there are, and looks none up.
pub struct Promised(pub Vault);

impl Values for Promised {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.variable(name)
    }

    fn has_secret(&self, name: &str, source: Option<&SecretSource>) -> bool {
        self.0.has_secret(name, source)
    }

    fn secret(&self, name: &str, source: Option<&SecretSource>) -> Result<String, pincer_config::SecretError> {
        match self.has_secret(name, source) {
            // Fits wherever a secret is likely to stand.
            true => Ok("https://secret.is.not.looked.up".into()),
            false => Err(pincer_config::SecretError::Unset { name: name.to_owned() }),
        }
    }
}

/// An operation in the system's keychain.
#[derive(Clone, Copy)]
enum Action {
    Get,
    Set,
    Remove,
}

/// The program that does it. A value comes on its standard input.
fn keychain(action: Action, account: &str) -> Vec<String> {
    let words: &[&str] = match (cfg!(target_os = "macos"), action) {
        (true, Action::Get) => &["security", "find-generic-password", "-s", SERVICE, "-a", account, "-w"],
        (true, Action::Set) => &["security", "-i"],
        (true, Action::Remove) => &["security", "delete-generic-password", "-s", SERVICE, "-a", account],
        (false, Action::Get) => &["secret-tool", "lookup", "service", SERVICE, "account", account],
        (false, Action::Set) => {
            &["secret-tool", "store", "--label", &format!("Pincer: {account}"), "service", SERVICE, "account", account]
        }
        (false, Action::Remove) => &["secret-tool", "clear", "service", SERVICE, "account", account],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn read_file(file: &Path) -> Result<String, SecretError> {
    let failed = |source| SecretError::File { file: file.to_owned(), source };
    // A pipe without a writer would be waited for.
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(file).map_err(failed)?;
    if !opened.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")));
    }
    let mut text = Vec::new();
    opened.take(MOST_SECRET_BYTES + 2).read_to_end(&mut text).map_err(failed)?;
    fit_secret(text).ok_or_else(|| SecretError::Unfit(file.display().to_string()))
}

/// Returns a text as a secret, without the end of its last line; `None` if it is none.
pub fn fit_secret(text: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(text).ok()?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    let fits = !text.is_empty() && !text.contains('\0') && text.len() as u64 <= MOST_SECRET_BYTES;
    fits.then(|| text.to_owned())
}
