//! A folder as a source: it is copied by handles, so that a name that changes in between leads nowhere else.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, statat};

use crate::InstallError;
use crate::refusal::{EntryProblem, Refusal};
use crate::source::sink::Sink;

/// A link is not followed, and a pipe that takes the place of a file is not waited for.
const OPEN: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Gives all entries of a folder to the sink, in the order of their names.
pub(crate) fn take(folder: &Path, sink: &mut Sink) -> Result<(), InstallError> {
    let opened = open(folder, OPEN.union(OFlags::DIRECTORY), Mode::empty());
    walk(&opened.map_err(|error| sink.unread(error.into()))?, "", sink)
}

fn walk(folder: &OwnedFd, path: &str, sink: &mut Sink) -> Result<(), InstallError> {
    for name in names(folder, sink.limits().entries).map_err(|error| sink.unread(error))? {
        let within = [path.as_bytes(), &name].concat();
        let failed = |error: rustix::io::Errno, sink: &Sink| sink.unread(error.into());
        // Opening a device may already do something, so it is looked at first.
        let found = statat(folder, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW).map_err(|error| failed(error, sink))?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                sink.folder(&within)?;
                let opened = openat(folder, name.as_slice(), OPEN.union(OFlags::DIRECTORY), Mode::empty());
                let opened = opened.map_err(|error| failed(error, sink))?;
                let below = String::from_utf8_lossy(&within).into_owned() + "/";
                walk(&opened, &below, sink)?;
            }
            FileType::RegularFile => {
                let opened = openat(folder, name.as_slice(), OPEN, Mode::empty());
                let opened = opened.map_err(|error| match error {
                    rustix::io::Errno::LOOP => sink.refused_entry(&within, EntryProblem::Changed),
                    other => failed(other, sink),
                })?;
                let same = fstat(&opened).map_err(|error| failed(error, sink))?;
                if !is_same_file(&found, &same) {
                    return Err(sink.refused_entry(&within, EntryProblem::Changed));
                }
                let size = u64::try_from(same.st_size).unwrap_or(u64::MAX);
                sink.file(&within, size, mode(&same), File::from(opened))?;
            }
            FileType::Symlink => return Err(sink.refused_entry(&within, EntryProblem::SymbolicLink)),
            FileType::Fifo => return Err(sink.refused_entry(&within, EntryProblem::Special("a pipe"))),
            FileType::Socket => return Err(sink.refused_entry(&within, EntryProblem::Special("a socket"))),
            _ => return Err(sink.refused_entry(&within, EntryProblem::Special("a device"))),
        }
    }
    Ok(())
}

#[allow(clippy::useless_conversion, reason = "the width of a mode differs between systems")]
fn mode(stat: &Stat) -> u32 {
    u32::from(stat.st_mode) & 0o7777
}

fn is_same_file(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
        && FileType::from_raw_mode(other.st_mode) == FileType::RegularFile
}

/// The names in a folder, which may have more of them than fit into memory.
fn names(folder: &OwnedFd, most: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_owned());
        }
        if names.len() > most {
            return Err(io::Error::other(Refusal::TooManyEntries(most)));
        }
    }
    names.sort();
    Ok(names)
}
