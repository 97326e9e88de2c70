//! `pincer mcp import --undo`: the files of the last `import --write` as they were before it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pincer_clients::{ClientError, read_text, replace_file};
use pincer_runtime::write_private;
use serde::{Deserialize, Serialize};

/// Where the last import is noted, in the state directory. It has whole files in it, and so perhaps secrets.
const FILE: &str = "mcp-import.json";

/// The changes of an import.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Record {
    files: Vec<Changed>,
}

/// A file that an import has changed.
#[derive(Debug, Serialize, Deserialize)]
struct Changed {
    path: PathBuf,
    /// Its text before. Nothing if it was not there.
    before: Option<String>,
    after: String,
    /// The copy that the import has made of it.
    backup: Option<PathBuf>,
}

/// Why nothing was undone.
#[derive(Debug, thiserror::Error)]
pub(super) enum UndoError {
    /// No import has been noted.
    #[error("there is no `pincer mcp import --write` to undo")]
    Nothing,
    /// A file says something else than the import has written.
    #[error("{} has been changed since the import, so nothing is undone{}", file.display(), copy(.backup.as_deref()))]
    Changed { file: PathBuf, backup: Option<PathBuf> },
    /// The note cannot be read or written.
    #[error("the note of the import, {}, cannot be used: {source}", file.display())]
    Note {
        file: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file cannot be brought back.
    #[error(transparent)]
    File(#[from] ClientError),
}

fn copy(backup: Option<&Path>) -> String {
    backup.map_or_else(String::new, |backup| format!("; as it was before: {}", backup.display()))
}

impl Record {
    /// Notes a change, so that it can be undone. The first one of an import takes the place of what was noted of an earlier one.
    pub(super) fn add(
        &mut self,
        directory: &Path,
        path: &Path,
        before: Option<String>,
        backup: Option<&Path>,
    ) -> Result<(), UndoError> {
        let after = read_text(path)?;
        if before.as_ref() == Some(&after) {
            return Ok(());
        }
        // An undo may be asked for elsewhere.
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (path, backup) = (absolute(path), backup.map(absolute));
        // Two clients may have one file: what counts is how it was before the first.
        match self.files.iter_mut().find(|file| file.path == path) {
            Some(known) => known.after = after,
            None => self.files.push(Changed { path, before, after, backup }),
        }
        let file = directory.join(FILE);
        let text = serde_json::to_vec(self).map_err(io::Error::from);
        let written = text.and_then(|text| write_private(&file, &text));
        written.map_err(|source| UndoError::Note { file, source })
    }
}

/// Brings all files back, or none, and says which.
pub(super) fn undo(directory: &Path) -> Result<Vec<PathBuf>, UndoError> {
    let note = directory.join(FILE);
    let failed = |source| UndoError::Note { file: note.clone(), source };
    let text = match fs::read(&note) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(UndoError::Nothing),
        Err(error) => return Err(failed(error)),
    };
    let Record { files } = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
    for Changed { path, after, backup, .. } in &files {
        if read_text(path).ok().as_ref() != Some(after) {
            return Err(UndoError::Changed { file: path.clone(), backup: backup.clone() });
        }
    }
    let mut done: Vec<&Changed> = Vec::new();
    for file in &files {
        if let Err(error) = bring_back(file) {
            // As far as it goes: what cannot be written now could be a moment ago.
            for file in done {
                let _ = replace_file(&file.path, file.before.as_deref(), &file.after);
            }
            return Err(error.into());
        }
        done.push(file);
    }
    for Changed { before, backup, .. } in &files {
        // Copies may have secrets in them, and are needed no more.
        if let Some(backup) = backup.as_ref().filter(|backup| read_text(backup).ok() == *before) {
            let _ = fs::remove_file(backup);
        }
    }
    fs::remove_file(&note).map_err(failed)?;
    Ok(files.into_iter().map(|file| file.path).collect())
}

fn bring_back(Changed { path, before, after, .. }: &Changed) -> Result<(), ClientError> {
    match before {
        Some(before) => replace_file(path, Some(after), before),
        None => fs::remove_file(path).map_err(|source| ClientError::Write { file: path.clone(), source }),
    }
}
