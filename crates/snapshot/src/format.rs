//! A parked cell as bytes.
//!
//! ```text
//! "PNCR" | version u16 | engine hash 32 | image hash 32 | stack pointer u32 | memory length in 64 KiB pages u32
//! | next request id, count of pending ids, the ids | count of runs, the runs | compressed difference | SHA-256 of all before
//! ```
//! Counts, ids and runs are LEB128 numbers; ids and runs ascend and are stored as the distance from their predecessor. Two
//! snapshots of the same cell are the same bytes.

use sha2::{Digest, Sha256};

use crate::difference::{self, Dictionary, Run};
use crate::{ContentHash, PAGE, WASM_PAGE};

const MAGIC: &[u8; 4] = b"PNCR";
const VERSION: u16 = 1;
const CHECKSUM_BYTES: usize = 32;
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
    runs: Vec<Run>,
    difference: &'a [u8],
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
    let mut out = begin(header, &runs);
    difference::compress(memory, base, &runs, dictionary, &mut out, limit)?;
    let checksum = Sha256::digest(&out);
    out.extend_from_slice(&checksum);
    if out.len() > limit { Err(TooLarge { limit }) } else { Ok(out) }
}

/// Everything before the difference.
fn begin(header: &Header, runs: &[Run]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PAGE);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&header.engine.0);
    out.extend_from_slice(&header.image.0);
    out.extend_from_slice(&header.stack_pointer.to_le_bytes());
    out.extend_from_slice(&header.wasm_pages.to_le_bytes());
    number(&mut out, header.next_request);
    number(&mut out, header.pending.len() as u32);
    let mut previous = 0;
    for id in &header.pending {
        number(&mut out, id - previous);
        previous = *id;
    }
    number(&mut out, runs.len() as u32);
    let mut end = 0;
    for run in runs {
        number(&mut out, run.first - end);
        number(&mut out, run.count);
        end = run.first + run.count;
    }
    out
}

/// Checks a snapshot.
pub fn read(bytes: &[u8]) -> Result<Parked<'_>, Unreadable> {
    if bytes.len() < MAGIC.len() + 2 || !bytes.starts_with(MAGIC) {
        return Err(Unreadable::NotASnapshot);
    }
    let version = u16::from_le_bytes([bytes[4], bytes[5]]);
    if version != VERSION {
        return Err(Unreadable::Version { found: version, known: VERSION });
    }
    let sealed = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(Unreadable::Damaged("it is cut off"))?;
    let (body, checksum) = bytes.split_at(sealed);
    if Sha256::digest(body).as_slice() != checksum {
        return Err(Unreadable::Damaged("its checksum does not match"));
    }
    let mut reader = Reader(body.get(MAGIC.len() + 2..).unwrap_or_default());
    let engine = ContentHash(reader.array()?);
    let image = ContentHash(reader.array()?);
    let stack_pointer = u32::from_le_bytes(reader.array()?);
    let wasm_pages = u32::from_le_bytes(reader.array()?);
    if wasm_pages > MAX_WASM_PAGES {
        return Err(Unreadable::Damaged("its memory is larger than there can be"));
    }
    let next_request = reader.number()?;
    let pending = ascending_ids(&mut reader, next_request)?;
    let runs = ascending_runs(&mut reader, wasm_pages, stack_pointer)?;
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

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
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
