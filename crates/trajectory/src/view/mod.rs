//! A bundle as it is read: it may be cut, damaged, or made by a stranger.
//!
//! Nothing of it is believed. Files are opened below the folder of the bundle only, links are not followed, sizes are bounded, and what
//! is kept of an event are a few short texts.

mod check;
mod event;
mod html;
mod lines;

pub use check::{Finding, State};
pub use event::{Shown, Tone};
pub use html::write_page;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::manifest::Manifest;
use check::Checked;
use event::Teller;
use lines::Lines;

/// The longest manifest that is read.
const MOST_MANIFEST: u64 = 4 << 20;
/// The most events that are shown at once. All of them are read and counted.
const MOST_SHOWN: usize = 20_000;

/// Why a bundle cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// There is no such folder.
    #[error("{place} cannot be read: {source}. Name the folder that `pincer sessions export-trajectory` has written")]
    Folder {
        /// The folder.
        place: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing of a bundle in it.
    #[error(
        "{0} is no bundle: it has neither manifest.json nor events.jsonl. Name the folder that `pincer sessions export-trajectory` has written"
    )]
    Nothing(PathBuf),
}

/// A bundle that was read.
#[derive(Clone, Debug)]
pub struct Viewed {
    /// The manifest, as far as there is one. It says what its writer wanted it to say.
    pub manifest: Option<Manifest>,
    /// Whether it is whole, and what is wrong with it.
    pub state: State,
    /// Its fault, in words.
    pub findings: Vec<Finding>,
    /// The events that can be read.
    pub events: u64,
    /// The lines that cannot.
    pub broken_lines: u64,
    /// The events that are shown, in their order.
    pub shown: Vec<Shown>,
}

/// Reads the bundle in a folder.
pub fn read(place: &Path) -> Result<Viewed, ViewError> {
    let failed = |source| ViewError::Folder { place: place.to_owned(), source };
    let folder = Folder::open(place).map_err(failed)?;
    let (manifest, found) = check::manifest(&folder, MOST_MANIFEST);
    let events = folder.file("events.jsonl");
    if manifest.is_none() && events.is_err() {
        return Err(ViewError::Nothing(place.to_owned()));
    }
    let mut checked = Checked::new(found);
    let mut teller = Teller::new(MOST_SHOWN);
    match events {
        Ok(file) => {
            let mut lines = Lines::new(file);
            while let Some(line) = lines.next() {
                match line {
                    Ok(line) => checked.line(line, &mut teller),
                    Err(error) => {
                        checked.unreadable(&error);
                        break;
                    }
                }
            }
            checked.ended(lines.has_ended_in_a_line());
        }
        Err(error) => checked.missing("events.jsonl", &error),
    }
    if teller.left_out > 0 {
        checked.note(format!("{} events are not shown, since there are more than {MOST_SHOWN}", teller.left_out));
    }
    checked.files(&folder, manifest.as_ref());
    let (state, findings, events, broken_lines) = checked.verdict(manifest.as_ref());
    Ok(Viewed { manifest, state, findings, events, broken_lines, shown: teller.tree() })
}

/// The folder of a bundle. No name leads out of it.
pub(crate) struct Folder(rustix::fd::OwnedFd);

impl Folder {
    fn open(place: &Path) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        Ok(Self(rustix::fs::open(place, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens a file. A link is none, and neither is a pipe or a device.
    fn file(&self, name: &str) -> io::Result<File> {
        use rustix::fs::{Mode, OFlags, openat};
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut names: Vec<&str> = name.split('/').collect();
        let last = names.pop().unwrap_or_default();
        if names.len() > 1
            || std::iter::once(&last).chain(&names).any(|part| part.is_empty() || *part == "." || *part == "..")
        {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "its name leads out of the folder"));
        }
        let file: File = match names.first() {
            None => openat(&self.0, last, flags, Mode::empty())?.into(),
            Some(folder) => {
                let folder = openat(&self.0, *folder, flags | OFlags::DIRECTORY, Mode::empty())?;
                openat(folder, last, flags, Mode::empty())?.into()
            }
        };
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file")),
        }
    }
}
