//! A parked cell as bytes.
//!
//! ```text
//! "PNCR" | version u16 | engine hash 32 | image hash 32 | stack pointer u32 | memory length in 64 KiB pages u32
//! | next request id, count of pending ids, the ids | count of runs, the runs | compressed difference | SHA-256 of all before
//! ```
//! Counts, ids and runs are LEB128 numbers; ids and runs ascend and are stored as the distance from their predecessor. Two
//! snapshots of the same cell are the same bytes.
//!
//! A delta starts with `"PNCD" | version u16 | checksum of its predecessor 32` and goes on like a snapshot, from the engine
//! hash on. The header is that of the cell when the delta was made. The pages are those that changed since the predecessor,
//! also as the difference to the image. A patch starts with `"PNCP"` instead, and has the words that changed since the
//! predecessor.

use sha2::{Digest, Sha256};

use crate::difference::{self, Dictionary, Effort, Run};
use crate::{ContentHash, PAGE, WASM_PAGE};

/// How a stored form names itself.
pub(crate) struct Form {
    magic: &'static [u8; 4],
    version: u16,
}

impl Form {
    /// Returns whether `bytes` start with this name.
    pub(crate) fn is_that_of(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(self.magic)
    }
}

pub(crate) const SNAPSHOT: Form = Form { magic: b"PNCR", version: 1 };
pub(crate) const DELTA: Form = Form { magic: b"PNCD", version: 1 };
pub(crate) const PATCH: Form = Form { magic: b"PNCP", version: 1 };

const CHECKSUM_BYTES: usize = 32;
/// The SHA-256 at the end of a snapshot or delta. The next delta names it as its predecessor.
pub(crate) type Checksum = [u8; CHECKSUM_BYTES];

/// 4 GiB: all that a 32-bit guest can address.
const MAX_WASM_PAGES: u32 = 1 << 16;
/// Far beyond every limit on pending requests.
const MAX_PENDING: u32 = 1 << 16;

/// What a parked cell is, besides its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The build of the JavaScript engine.
    pub engine: ContentHash,
    /// What its memory is the difference to.
    pub image: ContentHash,
    /// A multiple of [`PAGE`]. Memory below it is dead and not stored.
    pub stack_pointer: u32,
    /// Length of its memory, in units of [`WASM_PAGE`].
    pub wasm_pages: u32,
    /// The id that its next request gets.
    pub next_request: u32,
    /// The requests that have no answer, ascending.
    pub pending: Vec<u32>,
}

/// Why bytes are not a snapshot that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// They are something else.
    #[error("not a snapshot")]
    NotASnapshot,
    /// They were written in another version of the format.
    #[error("snapshot format {found} is not known to this build, which knows {known}")]
    Version {
        /// Theirs.
        found: u16,
        /// Ours.
        known: u16,
    },
    /// They were changed or cut off since they were written.
    #[error("the snapshot is damaged: {0}")]
    Damaged(&'static str),
}

/// The snapshot would be larger than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot would be larger than {limit} bytes: keep less in the program while it waits")]
pub struct TooLarge {
    /// The cap.
    pub limit: usize,
}

/// A snapshot that has been checked and is consistent in itself. Whether it fits an image, and what a cell may use, is for
/// the caller to see.
#[derive(Debug)]
pub struct Parked<'a> {
    /// What the cell is.
    pub header: Header,
    pub(crate) runs: Vec<Run>,
    pub(crate) difference: &'a [u8],
}

impl Parked<'_> {
    /// Length of the cell's memory.
    pub fn memory_bytes(&self) -> usize {
        self.header.wasm_pages as usize * WASM_PAGE
    }

    /// Turns the image, extended with zeros to [`memory_bytes`](Self::memory_bytes), into the cell's memory. On an error
    /// `memory` is neither and must be thrown away.
    pub fn apply(&self, memory: &mut [u8], dictionary: &Dictionary) -> Result<(), Unreadable> {
        difference::apply(memory, &self.runs, dictionary, self.difference)
    }
}

/// Makes a snapshot of `memory`, as the difference to the image `base`.
pub fn write(
    header: &Header,
    memory: &[u8],
    base: &[u8],
    dictionary: &Dictionary,
    limit: usize,
) -> Result<Vec<u8>, TooLarge> {
    let runs = difference::changed(memory, base, header.stack_pointer as usize / PAGE);
    let source = Source { memory, image: base, dictionary, effort: Effort::Usual };
    write_pages(begin(&SNAPSHOT), header, &runs, source, limit)
}

/// Where the pages of a snapshot or delta come from.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub memory: &'a [u8],
    pub image: &'a [u8],
    pub dictionary: &'a Dictionary,
    pub effort: Effort,
}

/// Returns the first bytes of a snapshot or delta.
pub(crate) fn begin(form: &Form) -> Vec<u8> {
    let mut out = Vec::with_capacity(PAGE);
    out.extend_from_slice(form.magic);
    out.extend_from_slice(&form.version.to_le_bytes());
    out
}

/// Returns the first bytes of a delta or patch.
pub(crate) fn begin_after(form: &Form, predecessor: &Checksum) -> Vec<u8> {
    let mut out = begin(form);
    out.extend_from_slice(predecessor);
    out
}

/// Appends the header, the pages in `runs` and the checksum to `out`, which may grow to `limit`.
pub(crate) fn write_pages(
    mut out: Vec<u8>,
    header: &Header,
    runs: &[Run],
    source: Source<'_>,
    limit: usize,
) -> Result<Vec<u8>, TooLarge> {
    append_header(&mut out, header, runs);
    let Source { memory, image, dictionary, effort } = source;
    difference::compress(memory, image, runs, dictionary, effort, &mut out, limit)?;
    seal(out, limit)
}

/// Appends the checksum.
pub(crate) fn seal(mut out: Vec<u8>, limit: usize) -> Result<Vec<u8>, TooLarge> {
    let checksum = Sha256::digest(&out);
    out.extend_from_slice(&checksum);
    if out.len() > limit { Err(TooLarge { limit }) } else { Ok(out) }
}

pub(crate) fn append_header(out: &mut Vec<u8>, header: &Header, runs: &[Run]) {
    out.extend_from_slice(&header.engine.0);
    out.extend_from_slice(&header.image.0);
    out.extend_from_slice(&header.stack_pointer.to_le_bytes());
    out.extend_from_slice(&header.wasm_pages.to_le_bytes());
    number(out, header.next_request);
    number(out, header.pending.len() as u32);
    let mut previous = 0;
    for id in &header.pending {
        number(out, id - previous);
        previous = *id;
    }
    number(out, runs.len() as u32);
    let mut end = 0;
    for run in runs {
        number(out, run.first - end);
        number(out, run.count);
        end = run.first + run.count;
    }
}

/// Checks a snapshot.
pub fn read(bytes: &[u8]) -> Result<Parked<'_>, Unreadable> {
    let (mut reader, _) = open(bytes, &SNAPSHOT)?;
    read_pages(&mut reader)
}

/// Checks the name and the checksum of a snapshot or delta. Returns what lies between them, and the checksum.
pub(crate) fn open<'a>(bytes: &'a [u8], form: &Form) -> Result<(Reader<'a>, Checksum), Unreadable> {
    let rest = bytes.strip_prefix(form.magic).ok_or(Unreadable::NotASnapshot)?;
    let (version, rest) = rest.split_first_chunk().ok_or(Unreadable::NotASnapshot)?;
    let version = u16::from_le_bytes(*version);
    if version != form.version {
        return Err(Unreadable::Version { found: version, known: form.version });
    }
    let (contents, checksum) = rest.split_last_chunk().ok_or(Unreadable::Damaged("it is cut off"))?;
    if Sha256::digest(&bytes[..bytes.len() - CHECKSUM_BYTES]).as_slice() != checksum {
        return Err(Unreadable::Damaged("its checksum does not match"));
    }
    Ok((Reader(contents), *checksum))
}

/// Reads the header and the runs. The difference is all that follows.
pub(crate) fn read_pages<'a>(reader: &mut Reader<'a>) -> Result<Parked<'a>, Unreadable> {
    let engine = ContentHash(reader.array()?);
    let image = ContentHash(reader.array()?);
    let stack_pointer = u32::from_le_bytes(reader.array()?);
    let wasm_pages = u32::from_le_bytes(reader.array()?);
    if wasm_pages > MAX_WASM_PAGES {
        return Err(Unreadable::Damaged("its memory is larger than there can be"));
    }
    let next_request = reader.number()?;
    let pending = ascending_ids(reader, next_request)?;
    let runs = ascending_runs(reader, wasm_pages, stack_pointer)?;
    let header = Header { engine, image, stack_pointer, wasm_pages, next_request, pending };
    Ok(Parked { header, runs, difference: reader.0 })
}

fn ascending_ids(reader: &mut Reader<'_>, next_request: u32) -> Result<Vec<u32>, Unreadable> {
    let count = reader.number()?;
    if count > MAX_PENDING {
        return Err(Unreadable::Damaged("it waits for more than there can be"));
    }
    let mut ids: Vec<u32> = Vec::new();
    for _ in 0..count {
        let distance = reader.number()?;
        let id = ids.last().map_or(Some(distance), |last| last.checked_add(distance).filter(|_| distance > 0));
        match id {
            Some(id) if id < next_request => ids.push(id),
            _ => return Err(Unreadable::Damaged("its request ids are out of order")),
        }
    }
    Ok(ids)
}

fn ascending_runs(reader: &mut Reader<'_>, wasm_pages: u32, stack_pointer: u32) -> Result<Vec<Run>, Unreadable> {
    let pages = u64::from(wasm_pages) * (WASM_PAGE / PAGE) as u64;
    let count = reader.number()?;
    let mut runs: Vec<Run> = Vec::new();
    let mut end = 0u64;
    for _ in 0..count {
        let (distance, length) = (u64::from(reader.number()?), u64::from(reader.number()?));
        let first = end + distance;
        end = first + length;
        let adjacent = distance == 0 && !runs.is_empty();
        if length == 0 || adjacent || end > pages || first * (PAGE as u64) < u64::from(stack_pointer) {
            return Err(Unreadable::Damaged("its pages are out of order"));
        }
        runs.push(Run { first: first as u32, count: length as u32 });
    }
    Ok(runs)
}

fn number(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes values from the front of a stored form.
pub(crate) struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Unreadable::Damaged("it is cut off"))?;
        self.0 = rest;
        Ok(*head)
    }

    /// A LEB128 number in its only shortest form.
    fn number(&mut self) -> Result<u32, Unreadable> {
        let mut value = 0u32;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array::<1>()?;
            let bits = u32::from(byte & 0x7f);
            let fits = shift < 28 || bits < 0x10;
            let shortest = shift == 0 || byte != 0;
            if !fits || !shortest {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Unreadable::Damaged("a number is malformed"))
    }
}
