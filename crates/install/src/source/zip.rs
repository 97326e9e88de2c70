//! Zip archives that all readers read alike. A zip names each entry twice, in a list at its end and before its content, and may have
//! anything in between: here both must agree, the entries must follow each other without gaps, and each must be there once.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use flate2::Crc;
use flate2::read::DeflateDecoder;

use crate::InstallError;
use crate::refusal::{ArchiveProblem, EntryProblem, Refusal};
use crate::source::sink::Sink;

const END: [u8; 4] = *b"PK\x05\x06";
const END_BYTES: usize = 22;
const MOST_COMMENT: usize = 65_535;
const ENTRY: [u8; 4] = *b"PK\x01\x02";
const ENTRY_BYTES: usize = 46;
pub(crate) const LOCAL: [u8; 4] = *b"PK\x03\x04";
const LOCAL_BYTES: usize = 30;
const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";

const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
const PATCHED: u16 = 1 << 5;
/// The sizes stand behind the content.
const STREAMED: u16 = 1 << 3;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const ZIP64: u16 = 0x0001;
const UNICODE_PATH: u16 = 0x7075;
/// Systems whose attributes are modes.
const UNIX: [u8; 2] = [3, 19];

/// Gives all entries of an archive to the sink.
pub(crate) fn take(file: &File, sink: &mut Sink) -> Result<(), InstallError> {
    let archive = Archive { file, length: file.metadata().map_err(|error| sink.unread(error))?.len() };
    let mut entries = archive.entries(sink)?;
    entries.sort_by_key(|entry| entry.local_at);
    let mut at = 0;
    for entry in &entries {
        if entry.local_at != at {
            return Err(layout(sink));
        }
        at = take_entry(&archive, entry, sink)?;
    }
    let list_at = archive.end(sink)?.list_at;
    if at == list_at { Ok(()) } else { Err(layout(sink)) }
}

fn layout(sink: &Sink) -> InstallError {
    sink.refused(Refusal::Archive(ArchiveProblem::Layout))
}

struct Archive<'f> {
    file: &'f File,
    length: u64,
}

/// The end of an archive.
struct End {
    count: usize,
    list_at: u64,
    list_bytes: u64,
}

/// An entry as the list has it.
struct Entry {
    name: Vec<u8>,
    system: u8,
    flags: u16,
    method: u16,
    checksum: u32,
    packed: u64,
    bytes: u64,
    attributes: u32,
    local_at: u64,
}

impl Archive<'_> {
    fn read(&self, at: u64, count: usize, sink: &Sink) -> Result<Vec<u8>, InstallError> {
        let mut bytes = vec![0; count];
        self.file.read_exact_at(&mut bytes, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => sink.refused(Refusal::Archive(ArchiveProblem::EndsEarly)),
            _ => sink.unread(error),
        })?;
        Ok(bytes)
    }

    fn end(&self, sink: &Sink) -> Result<End, InstallError> {
        let refused = |problem| sink.refused(Refusal::Archive(problem));
        let tail_bytes = self.length.min((END_BYTES + MOST_COMMENT) as u64);
        let tail_at = self.length - tail_bytes;
        let tail = self.read(tail_at, usize::try_from(tail_bytes).unwrap_or_default(), sink)?;
        // A comment may hold something that looks like an end: then readers differ.
        let mut ends = tail.windows(END_BYTES).enumerate().filter(|(at, window)| {
            window.starts_with(&END) && at + END_BYTES + usize::from(u16_at(window, 20)) == tail.len()
        });
        let (at, end) = ends.next().ok_or_else(|| refused(ArchiveProblem::EndsEarly))?;
        if ends.next().is_some() {
            return Err(refused(ArchiveProblem::Layout));
        }
        let (count, list_bytes, list_at) = (u16_at(end, 10), u32_at(end, 12), u32_at(end, 16));
        if u16_at(end, 4) != 0 || u16_at(end, 6) != 0 || u16_at(end, 8) != count {
            return Err(refused(ArchiveProblem::Unusual));
        }
        if count == u16::MAX || list_bytes == u32::MAX || list_at == u32::MAX {
            return Err(refused(ArchiveProblem::Unusual));
        }
        let (list_at, list_bytes) = (u64::from(list_at), u64::from(list_bytes));
        match list_at + list_bytes == tail_at + at as u64 {
            true => Ok(End { count: usize::from(count), list_at, list_bytes }),
            false => Err(refused(ArchiveProblem::Layout)),
        }
    }

    fn entries(&self, sink: &Sink) -> Result<Vec<Entry>, InstallError> {
        let end = self.end(sink)?;
        if end.count > sink.limits().entries {
            return Err(sink.refused(Refusal::TooManyEntries(sink.limits().entries)));
        }
        let list = self.read(end.list_at, usize::try_from(end.list_bytes).unwrap_or_default(), sink)?;
        let mut left = list.as_slice();
        let mut entries = Vec::new();
        for _ in 0..end.count {
            let (entry, rest) = Entry::read(left).map_err(|refusal| sink.refused(refusal))?;
            entries.push(entry);
            left = rest;
        }
        if left.is_empty() { Ok(entries) } else { Err(layout(sink)) }
    }
}

impl Entry {
    /// Reads an entry of the list. Returns what follows it.
    fn read(list: &[u8]) -> Result<(Self, &[u8]), Refusal> {
        let wrong = || Refusal::Archive(ArchiveProblem::Header);
        let head = list.get(..ENTRY_BYTES).filter(|head| head.starts_with(&ENTRY)).ok_or_else(wrong)?;
        let lengths = [28, 30, 32].map(|at| usize::from(u16_at(head, at)));
        let ends = [lengths[0], lengths[0] + lengths[1], lengths.iter().sum()].map(|end| ENTRY_BYTES + end);
        let name = list.get(ENTRY_BYTES..ends[0]).ok_or_else(wrong)?;
        let extra = list.get(ends[0]..ends[1]).ok_or_else(wrong)?;
        let rest = list.get(ends[2]..).ok_or_else(wrong)?;
        let (packed, bytes, local_at) = (u32_at(head, 20), u32_at(head, 24), u32_at(head, 42));
        if u16_at(head, 34) != 0 || [packed, bytes, local_at].contains(&u32::MAX) {
            return Err(Refusal::Archive(ArchiveProblem::Unusual));
        }
        check_extra(extra, name)?;
        let entry = Self {
            name: name.to_vec(),
            system: head[5],
            flags: u16_at(head, 8),
            method: u16_at(head, 10),
            checksum: u32_at(head, 16),
            packed: u64::from(packed),
            bytes: u64::from(bytes),
            attributes: u32_at(head, 38),
            local_at: u64::from(local_at),
        };
        Ok((entry, rest))
    }

    /// The mode, with the kind of the file, if the archive was made where files have one.
    fn mode(&self) -> u32 {
        if UNIX.contains(&self.system) { self.attributes >> 16 } else { 0 }
    }

    fn problem(&self) -> Option<EntryProblem> {
        let is_folder = self.name.ends_with(b"/");
        match self.mode() & 0o170_000 {
            0 => {}
            0o100_000 if !is_folder => {}
            0o040_000 if is_folder => {}
            0o120_000 => return Some(EntryProblem::SymbolicLink),
            0o100_000 | 0o040_000 => return Some(EntryProblem::FileAndFolder),
            0o010_000 => return Some(EntryProblem::Special("a pipe")),
            0o140_000 => return Some(EntryProblem::Special("a socket")),
            _ => return Some(EntryProblem::Special("a device")),
        }
        match () {
            () if self.flags & (ENCRYPTED | PATCHED) != 0 => Some(EntryProblem::Encrypted),
            () if self.mode() & 0o7000 != 0 => Some(EntryProblem::SetId),
            () if ![STORED, DEFLATED].contains(&self.method) => Some(EntryProblem::Method),
            () if self.method == STORED && self.packed != self.bytes => Some(EntryProblem::OtherSize),
            () if is_folder && self.bytes != 0 => Some(EntryProblem::FolderWithContent),
            () => None,
        }
    }
}

/// A second name or size in the extra fields is read by some readers only.
fn check_extra(mut extra: &[u8], name: &[u8]) -> Result<(), Refusal> {
    while let Some(head) = extra.get(..4) {
        let (tag, length) = (u16_at(head, 0), usize::from(u16_at(head, 2)));
        let Some(field) = extra.get(4..4 + length) else { return Err(Refusal::Archive(ArchiveProblem::Header)) };
        match tag {
            ZIP64 => return Err(Refusal::Archive(ArchiveProblem::Unusual)),
            UNICODE_PATH if field.get(5..) != Some(name) => {
                return Err(Refusal::entry(name, EntryProblem::TwoHeaders));
            }
            _ => {}
        }
        extra = &extra[4 + length..];
    }
    Ok(())
}

/// Takes one entry. Returns where the next one must begin.
fn take_entry(archive: &Archive, entry: &Entry, sink: &mut Sink) -> Result<u64, InstallError> {
    if let Some(problem) = entry.problem() {
        return Err(sink.refused_entry(&entry.name, problem));
    }
    let local = archive.read(entry.local_at, LOCAL_BYTES, sink)?;
    let (name_bytes, extra_bytes) = (usize::from(u16_at(&local, 26)), usize::from(u16_at(&local, 28)));
    let names = archive.read(entry.local_at + LOCAL_BYTES as u64, name_bytes + extra_bytes, sink)?;
    let (name, extra) = names.split_at(name_bytes);
    let figures = [(14, u64::from(entry.checksum)), (18, entry.packed), (22, entry.bytes)];
    let agrees = figures.iter().all(|(at, figure)| {
        let here = u64::from(u32_at(&local, *at));
        here == *figure || entry.flags & STREAMED != 0 && here == 0
    });
    let same = u16_at(&local, 6) == entry.flags && u16_at(&local, 8) == entry.method && name == entry.name;
    if !local.starts_with(&LOCAL) || !same || !agrees {
        return Err(sink.refused_entry(&entry.name, EntryProblem::TwoHeaders));
    }
    check_extra(extra, name).map_err(|refusal| sink.refused(refusal))?;
    let content_at = entry.local_at + (LOCAL_BYTES + name_bytes + extra_bytes) as u64;
    let packed = Section { file: archive.file, at: content_at, left: entry.packed };
    if entry.name.ends_with(b"/") {
        sink.folder(&entry.name)?;
    } else {
        take_content(entry, packed, sink)?;
    }
    let end = content_at + entry.packed;
    if entry.flags & STREAMED == 0 {
        return Ok(end);
    }
    let descriptor = archive.read(end, 16, sink)?;
    let marked = descriptor.starts_with(&DESCRIPTOR);
    let figures = if marked { &descriptor[4..16] } else { &descriptor[..12] };
    let agrees = u32_at(figures, 0) == entry.checksum
        && u64::from(u32_at(figures, 4)) == entry.packed
        && u64::from(u32_at(figures, 8)) == entry.bytes;
    match agrees {
        true => Ok(end + if marked { 16 } else { 12 }),
        false => Err(sink.refused_entry(&entry.name, EntryProblem::TwoHeaders)),
    }
}

fn take_content(entry: &Entry, packed: Section, sink: &mut Sink) -> Result<(), InstallError> {
    let limits = sink.limits();
    if entry.bytes > limits.bytes_of_any_ratio && entry.bytes > entry.packed.saturating_mul(limits.ratio) {
        return Err(sink.refused(Refusal::Bomb(limits.ratio)));
    }
    let mode = entry.mode() & 0o7777;
    let mut checksum = Crc::new();
    let whole = match entry.method {
        STORED => {
            sink.file(&entry.name, entry.bytes, mode, Checked { reader: packed, checksum: &mut checksum })?;
            true
        }
        _ => {
            let mut decoder = DeflateDecoder::new(packed);
            sink.file(
                &entry.name,
                entry.bytes,
                mode,
                Checked { reader: Damage(&mut decoder), checksum: &mut checksum },
            )?;
            // Bytes behind the end of the compressed data would be read by nothing.
            decoder.total_in() == entry.packed
        }
    };
    if !whole {
        return Err(sink.refused_entry(&entry.name, EntryProblem::OtherSize));
    }
    match checksum.sum() == entry.checksum {
        true => Ok(()),
        false => Err(sink.refused_entry(&entry.name, EntryProblem::OtherChecksum)),
    }
}

/// A part of the file.
struct Section<'f> {
    file: &'f File,
    at: u64,
    left: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

/// Tells damaged data from a file that cannot be read.
pub(crate) struct Damage<R>(pub R);

impl<R: Read> Read for Damage<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                io::Error::other(Refusal::Archive(ArchiveProblem::Compression))
            }
            _ => error,
        })
    }
}

struct Checked<'c, R> {
    reader: R,
    checksum: &'c mut Crc,
}

impl<R: Read> Read for Checked<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.checksum.update(&buffer[..count]);
        Ok(count)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
