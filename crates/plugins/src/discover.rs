//! Which plugins there are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use pincer_config::Problems;

use crate::{MANIFEST, Manifest};

/// A manifest is written by hand.
const MOST_BYTES: u64 = 4 << 20;

/// A plugin that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its folder.
    pub folder: PathBuf,
    /// What it brings.
    pub manifest: Manifest,
}

/// Why a plugin cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// Something cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// What.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no plugin at a place that was named.
    #[error("there is no plugin in {}: neither it nor a folder in it has a {MANIFEST}", path.display())]
    Nothing {
        /// Where.
        path: PathBuf,
    },
    /// The manifest is wrong.
    #[error("{}\n{problems}", file.display())]
    Wrong {
        /// Which.
        file: PathBuf,
        /// What is wrong.
        problems: Problems,
    },
    /// Two plugins have one id.
    #[error("{} and {} are both the plugin {id}: remove one of them", first.display(), second.display())]
    Twice {
        /// The id.
        id: String,
        /// One folder.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
}

/// Reads the plugin in a folder.
pub fn load(folder: &Path) -> Result<Found, LoadError> {
    let file = folder.join(MANIFEST);
    let read = |source| LoadError::Read { path: file.clone(), source };
    let size = fs::metadata(&file).map_err(read)?.len();
    if size > MOST_BYTES {
        return Err(read(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {MOST_BYTES} bytes"))));
    }
    let text = fs::read_to_string(&file).map_err(read)?;
    let folder = folder.canonicalize().map_err(read)?;
    match Manifest::parse(&text) {
        Ok(manifest) => Ok(Found { folder, manifest }),
        Err(problems) => Err(LoadError::Wrong { file, problems }),
    }
}

/// Reads all plugins: `named` are folders of plugins or folders of such folders, and must have one; `usual` may be missing.
pub fn discover(named: &[PathBuf], usual: Option<&Path>) -> Result<Vec<Found>, LoadError> {
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for path in named {
        let folders = folders(path).map_err(|source| LoadError::Read { path: path.clone(), source })?;
        if folders.is_empty() {
            return Err(LoadError::Nothing { path: path.clone() });
        }
        folders.iter().try_for_each(|folder| add(&mut found, folder))?;
    }
    match usual.map(|path| (path, folders(path))) {
        Some((_, Ok(folders))) => folders.iter().try_for_each(|folder| add(&mut found, folder))?,
        Some((path, Err(source))) if source.kind() != io::ErrorKind::NotFound => {
            return Err(LoadError::Read { path: path.to_owned(), source });
        }
        _ => {}
    }
    Ok(found.into_values().collect())
}

fn add(found: &mut BTreeMap<String, Found>, folder: &Path) -> Result<(), LoadError> {
    let plugin = load(folder)?;
    let id = plugin.manifest.id.clone();
    if let Some(first) = found.get(&id) {
        // The same folder may well be named twice.
        if first.folder == plugin.folder {
            return Ok(());
        }
        return Err(LoadError::Twice { id, first: first.folder.clone(), second: plugin.folder });
    }
    found.insert(id, plugin);
    Ok(())
}

/// The folder itself if it is a plugin's, otherwise those in it that are.
fn folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    if path.join(MANIFEST).exists() {
        return Ok(vec![path.to_owned()]);
    }
    let mut folders: Vec<PathBuf> = fs::read_dir(path)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.retain(|folder| folder.join(MANIFEST).exists());
    folders.sort();
    Ok(folders)
}
