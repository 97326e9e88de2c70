//! Archives of tar, as far as they hold files and folders: everything else is refused, and so is what readers differ about.
//!
//! A general reader does what it can with an archive. Here the smallest part of the format is enough, and every number, name and
//! byte beyond it is a reason to refuse.

use std::io::{self, Read};

use crate::InstallError;
use crate::limits::EXTENSION_BYTES;
use crate::refusal::{ArchiveProblem, EntryProblem, Refusal};
use crate::source::sink::Sink;

const BLOCK: usize = 512;

/// Gives all entries of an archive to the sink.
pub(crate) fn take(mut reader: impl Read, sink: &mut Sink) -> Result<(), InstallError> {
    let mut next = Extensions::default();
    while let Some(header) = read_header(&mut reader, sink)? {
        let size = header.size().ok_or_else(|| broken(sink, ArchiveProblem::Header))?;
        let kind = header.kind();
        if let Some(extension) = Extension::of(kind) {
            let content = extension_content(&mut reader, size, sink)?;
            next.add(extension, &content).map_err(|refusal| sink.refused(refusal))?;
            continue;
        }
        let Extensions { name, size: promised, .. } = std::mem::take(&mut next);
        let name = name.unwrap_or_else(|| header.name());
        if promised.is_some_and(|promised| promised != size) {
            return Err(sink.refused_entry(&name, EntryProblem::OtherSize));
        }
        match kind {
            b'0' | 0 | b'7' if name.ends_with(b"/") => {
                return Err(sink.refused_entry(&name, EntryProblem::FileAndFolder));
            }
            b'0' | 0 | b'7' => {
                let mode = header.mode().ok_or_else(|| broken(sink, ArchiveProblem::Header))?;
                let mut content = Exactly { reader: &mut reader, left: size };
                sink.file(&name, size, mode, &mut content)?;
                skip(&mut reader, padding(size), sink)?;
            }
            b'5' if size != 0 => return Err(sink.refused_entry(&name, EntryProblem::FolderWithContent)),
            b'5' => {
                if header.mode().is_none_or(|mode| mode & 0o7000 != 0) {
                    return Err(sink.refused_entry(&name, EntryProblem::SetId));
                }
                sink.folder(&name)?;
            }
            other => return Err(sink.refused_entry(&name, forbidden(other))),
        }
    }
    if next.is_some() {
        return Err(broken(sink, ArchiveProblem::EndsEarly));
    }
    only_zeros(&mut reader, sink)
}

fn forbidden(kind: u8) -> EntryProblem {
    match kind {
        b'1' => EntryProblem::HardLink,
        b'2' => EntryProblem::SymbolicLink,
        b'3' | b'4' => EntryProblem::Special("a device"),
        b'6' => EntryProblem::Special("a pipe"),
        b'S' => EntryProblem::Sparse,
        _ => EntryProblem::Special("of an unknown kind"),
    }
}

fn broken(sink: &Sink, problem: ArchiveProblem) -> InstallError {
    sink.refused(Refusal::Archive(problem))
}

struct Header([u8; BLOCK]);

impl Header {
    fn field(&self, from: usize, length: usize) -> &[u8] {
        let field = &self.0[from..from + length];
        &field[..field.iter().position(|byte| *byte == 0).unwrap_or(length)]
    }

    /// The name, with the prefix that POSIX puts before it.
    fn name(&self) -> Vec<u8> {
        let name = self.field(0, 100);
        match self.field(345, 155) {
            // GNU has other things in the place of the prefix.
            prefix if !prefix.is_empty() && &self.0[257..263] == b"ustar\0" => [prefix, b"/", name].concat(),
            _ => name.to_vec(),
        }
    }

    fn kind(&self) -> u8 {
        self.0[156]
    }

    fn size(&self) -> Option<u64> {
        octal(&self.0[124..136])
    }

    fn mode(&self) -> Option<u32> {
        u32::try_from(octal(&self.0[100..108])?).ok().map(|mode| mode & 0o7777)
    }

    fn is_right(&self) -> bool {
        let sum: u64 = self
            .0
            .iter()
            .enumerate()
            .map(|(at, byte)| match at {
                148..156 => u64::from(b' '),
                _ => u64::from(*byte),
            })
            .sum();
        octal(&self.0[148..156]) == Some(sum)
    }
}

/// A number in octal digits between spaces or zeros. The binary form of huge numbers is none.
fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches([' ', '\0']);
    match text.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
        true if text.is_empty() => Some(0),
        true => u64::from_str_radix(text, 8).ok(),
        false => None,
    }
}

/// Returns the next header; `None` at the end, which is a block of zeros.
fn read_header(reader: &mut impl Read, sink: &Sink) -> Result<Option<Header>, InstallError> {
    let mut block = [0; BLOCK];
    fill(reader, &mut block, sink)?;
    if block.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let header = Header(block);
    match header.is_right() {
        true => Ok(Some(header)),
        false => Err(broken(sink, ArchiveProblem::Checksum)),
    }
}

/// Returns whether a file begins with a header of tar.
pub(crate) fn begins_so(beginning: &[u8]) -> bool {
    <[u8; BLOCK]>::try_from(beginning).is_ok_and(|block| Header(block).is_right())
}

fn fill(reader: &mut impl Read, buffer: &mut [u8], sink: &Sink) -> Result<(), InstallError> {
    reader.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => broken(sink, ArchiveProblem::EndsEarly),
        _ => sink.unread(error),
    })
}

fn padding(size: u64) -> usize {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or_default();
    if over == 0 { 0 } else { BLOCK - over }
}

fn skip(reader: &mut impl Read, count: usize, sink: &Sink) -> Result<(), InstallError> {
    let mut block = [0; BLOCK];
    fill(reader, &mut block[..count], sink)
}

/// Some readers go on behind the end, so nothing may be there.
fn only_zeros(reader: &mut impl Read, sink: &Sink) -> Result<(), InstallError> {
    let mut piece = vec![0; 64 << 10];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) if piece[..count].iter().all(|byte| *byte == 0) => {}
            Ok(_) => return Err(broken(sink, ArchiveProblem::Trailing)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(sink.unread(error)),
        }
    }
}

/// The next bytes of the archive, and no more.
struct Exactly<'r, R> {
    reader: &'r mut R,
    left: u64,
}

impl<R: Read> Read for Exactly<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.reader.read(&mut buffer[..most])?;
        self.left -= count as u64;
        Ok(count)
    }
}

/// A header that is about the next one.
#[derive(Clone, Copy)]
enum Extension {
    /// GNU's long name.
    LongName,
    /// GNU's long target of a link, which is refused with the link.
    LongTarget,
    /// Attributes of the next entry.
    Next,
    /// Attributes of all entries.
    All,
}

impl Extension {
    fn of(kind: u8) -> Option<Self> {
        match kind {
            b'L' => Some(Self::LongName),
            b'K' => Some(Self::LongTarget),
            b'x' => Some(Self::Next),
            b'g' => Some(Self::All),
            _ => None,
        }
    }
}

fn extension_content(reader: &mut impl Read, size: u64, sink: &Sink) -> Result<Vec<u8>, InstallError> {
    let length = usize::try_from(size).ok().filter(|_| size <= EXTENSION_BYTES);
    let mut content = vec![0; length.ok_or_else(|| broken(sink, ArchiveProblem::Extension))?];
    fill(reader, &mut content, sink)?;
    skip(reader, padding(size), sink)?;
    Ok(content)
}

/// The attributes of the next entry.
#[derive(Default)]
struct Extensions {
    name: Option<Vec<u8>>,
    size: Option<u64>,
    any: bool,
}

impl Extensions {
    fn is_some(&self) -> bool {
        self.any
    }

    fn add(&mut self, extension: Extension, content: &[u8]) -> Result<(), Refusal> {
        match extension {
            Extension::LongName => {
                let end = content.iter().position(|byte| *byte == 0).unwrap_or(content.len());
                self.set_name(&content[..end])
            }
            Extension::LongTarget => {
                self.any = true;
                Ok(())
            }
            Extension::Next => {
                self.any = true;
                attributes(content)?.into_iter().try_for_each(|(key, value)| self.set(key, value))
            }
            // Those that tools write for all entries are comments; one that changes entries is a trick.
            Extension::All => attributes(content)?.into_iter().try_for_each(|(key, _)| match is_harmless(key) {
                true => Ok(()),
                false => Err(Refusal::Archive(ArchiveProblem::Header)),
            }),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
        match key {
            b"path" => self.set_name(value),
            b"size" => {
                let size = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.size = Some(size.ok_or(Refusal::Archive(ArchiveProblem::Header))?);
                Ok(())
            }
            key if is_harmless(key) => Ok(()),
            _ => Err(Refusal::entry(key, EntryProblem::Sparse)),
        }
    }

    /// Two names for one entry are read in two ways.
    fn set_name(&mut self, name: &[u8]) -> Result<(), Refusal> {
        self.any = true;
        match self.name.replace(name.to_vec()) {
            Some(other) if other != name => Err(Refusal::entry(name, EntryProblem::TwoHeaders)),
            _ => Ok(()),
        }
    }
}

/// Attributes that change neither the place of a file nor its content. The target of a link is refused with the link.
fn is_harmless(key: &[u8]) -> bool {
    !(key == b"path" || key == b"size" || key.starts_with(b"GNU.sparse."))
}

/// A key and its value.
type Attribute<'a> = (&'a [u8], &'a [u8]);

/// Reads lines of the form `LENGTH KEY=VALUE`.
fn attributes(mut content: &[u8]) -> Result<Vec<Attribute<'_>>, Refusal> {
    let wrong = || Refusal::Archive(ArchiveProblem::Header);
    let mut read = Vec::new();
    while !content.is_empty() {
        let space = content.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
        let length: usize =
            std::str::from_utf8(&content[..space]).ok().and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
        let line = content.get(space + 1..length).ok_or_else(wrong)?;
        let (end, line) = line.split_last().ok_or_else(wrong)?;
        let equals = line.iter().position(|byte| *byte == b'=').filter(|_| *end == b'\n').ok_or_else(wrong)?;
        read.push((&line[..equals], &line[equals + 1..]));
        content = &content[length..];
    }
    Ok(read)
}
