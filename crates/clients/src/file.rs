//! Files of others: read within bounds, replaced whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::ClientError;

/// Claude Code keeps much more than servers in its file; what is larger than this is something else all the same.
const MOST_BYTES: u64 = 64 << 20;

/// The text of a file.
pub fn read_text(file: &Path) -> Result<String, ClientError> {
    read(file).map_err(|source| ClientError::Read { file: file.to_owned(), source })
}

fn read(file: &Path) -> io::Result<String> {
    // Asked before it is opened: opening a pipe would wait for whoever writes into it.
    let what = fs::metadata(file)?;
    if !what.is_file() {
        let kind = if what.is_dir() { io::ErrorKind::IsADirectory } else { io::ErrorKind::InvalidInput };
        return Err(io::Error::new(kind, "it is not a file"));
    }
    let mut bytes = Vec::new();
    File::open(file)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {MOST_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to() + 1;
        io::Error::new(io::ErrorKind::InvalidData, format!("it is not UTF-8 text: the first bad byte is number {at}"))
    })
}

/// The text of a file that need not exist.
pub(crate) fn read_if_there(file: &Path) -> Result<Option<String>, ClientError> {
    match read(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ClientError::Read { file: file.to_owned(), source }),
    }
}

/// Puts a new text in the place of an old one, whole or not at all. `old` is what was read; if the file says something else by now,
/// it is left as it is. The file keeps its permissions, a new one is for its owner only, and a link stays a link.
pub fn replace_file(file: &Path, old: Option<&str>, new: &str) -> Result<(), ClientError> {
    let failed = |source| ClientError::Write { file: file.to_owned(), source };
    let target = target(file).map_err(failed)?;
    let what = existing(&target).map_err(failed)?;
    if what.as_ref().is_some_and(|what| what.permissions().readonly()) {
        return Err(ClientError::ReadOnly { file: file.to_owned() });
    }
    let temporary = prepared(&target, what.as_ref(), new).map_err(failed)?;
    // As late as possible: clients write to their files whenever they like.
    if read_if_there(&target)?.as_deref() != old {
        return Err(ClientError::Changed { file: file.to_owned() });
    }
    temporary.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

/// The whole text in a file beside the one that it will replace.
fn prepared(target: &Path, what: Option<&Metadata>, new: &str) -> io::Result<tempfile::NamedTempFile> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Those of tempfile are for their owner only.
    let mut temporary = tempfile::Builder::new().prefix(".pincer-").tempfile_in(folder)?;
    temporary.write_all(new.as_bytes())?;
    if let Some(what) = what {
        temporary.as_file().set_permissions(what.permissions())?;
    }
    temporary.as_file().sync_all()?;
    Ok(temporary)
}

fn existing(target: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(target) {
        Ok(what) => Ok(Some(what)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The file that links lead to, whether it exists or not.
fn target(file: &Path) -> io::Result<PathBuf> {
    const MOST_LINKS: usize = 40;
    let mut here = file.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&here) {
            Ok(next) => here = here.parent().unwrap_or(Path::new("")).join(next),
            Err(_) => return Ok(here),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "its links lead in a circle"))
}

/// Copies a file to `<file>.pincer-backup-<time>` beside it, with its permissions.
pub(crate) fn back_up(file: &Path, text: &str, now: SystemTime) -> Result<PathBuf, ClientError> {
    let permissions = fs::metadata(file).map(|what| what.permissions());
    let copy = |name: &Path| -> io::Result<()> {
        let mut copy = new_file(name)?;
        copy.write_all(text.as_bytes())?;
        copy.set_permissions(permissions.as_ref().map_err(|error| io::Error::from(error.kind()))?.clone())?;
        copy.sync_all()
    };
    for attempt in 1..=100 {
        let mut name = OsString::from(file);
        name.push(format!(".pincer-backup-{}", timestamp(now)));
        if attempt > 1 {
            name.push(format!("-{attempt}"));
        }
        let name = PathBuf::from(name);
        match copy(&name) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => {
                let _ = fs::remove_file(&name);
                return Err(ClientError::Write { file: name, source });
            }
        }
    }
    let source = io::Error::new(io::ErrorKind::AlreadyExists, "there are too many backups of this second");
    Err(ClientError::Write { file: file.to_owned(), source })
}

/// Nobody else can read it while it is written.
fn new_file(name: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(name)
}

/// `20250131T235959Z`.
fn timestamp(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March have their odd day last; 400 of them always have as many days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z", era * 400 + year + carry)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (951_868_800, "20000301T000000Z"),
            (1_735_689_599, "20241231T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }
}
