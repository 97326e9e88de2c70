//! Gets `quickjs.wasm` for the build: from a file the builder names, or from npm, and in both cases only the exact bytes
//! this version of Pincer was written for.
//!
//! A module of its own so that the tests can include it and produce every way it fails.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// The package and version that `engine/package-lock.json` pins with its integrity hash.
pub(crate) const PACKAGE: &str = "quickjs-wasi 3.6.2";
/// SHA-256 of the `quickjs.wasm` inside that package.
pub(crate) const WASM_SHA256: &str = "d4c9375f2b1ca4dc95f72c8aa2982a7a9951ac8011490d79c6582df732b4bbd9";
/// Names a local copy of the file, for builds without npm or network.
pub(crate) const OVERRIDE: &str = "PINCER_QUICKJS_WASM";

/// Why the engine could not be had. Each says what to do: the reader is somebody whose build just stopped.
#[derive(Debug)]
pub(crate) enum FetchError {
    NpmMissing { npm: PathBuf },
    NpmFailed { directory: PathBuf, log: String },
    Unreadable { path: PathBuf, source: io::Error },
    WrongHash { path: PathBuf, found: String },
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NpmMissing { npm } => write!(
                f,
                "`{}` was not found, and the build needs it once to fetch the JavaScript engine ({PACKAGE}). Install Node.js \
                 with npm, or set {OVERRIDE} to the path of a quickjs.wasm from that package.",
                npm.display()
            ),
            Self::NpmFailed { directory, log } => write!(
                f,
                "npm could not install the JavaScript engine ({PACKAGE}) into {}. Check that this machine reaches the npm \
                 registry and build again, or set {OVERRIDE} to the path of a quickjs.wasm from that package. npm said:\n{log}",
                directory.display()
            ),
            Self::Unreadable { path, source } => write!(
                f,
                "the JavaScript engine {} cannot be read or copied: {source}. If {OVERRIDE} is set, correct it or unset it to \
                 fetch the file with npm.",
                path.display()
            ),
            Self::WrongHash { path, found } => write!(
                f,
                "{} is not the quickjs.wasm of {PACKAGE}: its SHA-256 is {found}, expected {WASM_SHA256}. If {OVERRIDE} is \
                 set, name the file of exactly that version or unset it; if not, npm brought another file: clean its cache.",
                path.display()
            ),
        }
    }
}

/// Puts the verified engine at `out/quickjs.wasm` and returns that path.
///
/// `manifest` is the folder with `package.json` and its lock file, `named` the value of [`OVERRIDE`] if it is set.
pub(crate) fn fetch(manifest: &Path, out: &Path, npm: &OsStr, named: Option<&OsStr>) -> Result<PathBuf, FetchError> {
    let wasm = out.join("quickjs.wasm");
    let source = match named {
        Some(path) => PathBuf::from(path),
        None if verified(&wasm).is_ok() => return Ok(wasm),
        None => install(manifest, out, npm)?,
    };
    let bytes = verified(&source)?;
    fs::write(&wasm, bytes).map_err(|source| FetchError::Unreadable { path: wasm.clone(), source })?;
    Ok(wasm)
}

/// `npm ci` checks the package against the lock file's integrity hash before it unpacks anything.
fn install(manifest: &Path, out: &Path, npm: &OsStr) -> Result<PathBuf, FetchError> {
    let directory = out.join("engine");
    let copied = fs::create_dir_all(&directory).and_then(|()| {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(manifest.join(file), directory.join(file))?;
        }
        Ok(())
    });
    copied.map_err(|source| FetchError::Unreadable { path: manifest.to_owned(), source })?;
    let run = Command::new(npm)
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
        .current_dir(&directory)
        .output()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => FetchError::NpmMissing { npm: npm.into() },
            _ => FetchError::NpmFailed { directory: directory.clone(), log: error.to_string() },
        })?;
    if !run.status.success() {
        let log = String::from_utf8_lossy(&run.stderr).trim().to_owned();
        return Err(FetchError::NpmFailed { directory, log });
    }
    Ok(directory.join("node_modules/quickjs-wasi/quickjs.wasm"))
}

fn verified(path: &Path) -> Result<Vec<u8>, FetchError> {
    let bytes = fs::read(path).map_err(|source| FetchError::Unreadable { path: path.to_owned(), source })?;
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != WASM_SHA256 {
        return Err(FetchError::WrongHash { path: path.to_owned(), found });
    }
    Ok(bytes)
}
