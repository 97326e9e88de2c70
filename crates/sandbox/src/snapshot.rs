//! A parked cell as bytes.
//!
//! ```text
//! "PNCR" | version u16 | engine hash 32 | image hash 32 | stack pointer u32 | memory length in 64 KiB pages u32
//! | next request id, count of pending ids, the ids | count of runs, the runs | compressed difference | SHA-256 of all before
//! ```
//! Counts, ids and runs are LEB128 numbers; ids and runs ascend and are stored as the distance from their predecessor. Two
//! snapshots of the same cell are the same bytes.

use sha2::{Digest, Sha256};

use crate::bridge::Pending;
use crate::delta::Run;
use crate::rewrite::{PAGE, WASM_PAGE};
use crate::{ContentHash, RestoreError};

const MAGIC: &[u8; 4] = b"PNCR";
const VERSION: u16 = 1;
pub(crate) const CHECKSUM_BYTES: usize = 32;

/// Everything but the difference itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub engine: ContentHash,
    pub image: ContentHash,
    pub stack_pointer: u32,
    pub wasm_pages: u32,
    pub next_request: u32,
    pub pending: Vec<u32>,
    pub runs: Vec<Run>,
}

impl Header {
    pub fn pending(&self) -> Pending {
        Pending { ids: self.pending.iter().copied().collect(), next: self.next_request }
    }

    pub fn memory_bytes(&self) -> usize {
        self.wasm_pages as usize * WASM_PAGE
    }
}

/// Writes the header; the difference is appended to it, then [`seal`] closes the snapshot.
pub(crate) fn begin(header: &Header) -> Vec<u8> {
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
    number(&mut out, header.runs.len() as u32);
    let mut end = 0;
    for run in &header.runs {
        number(&mut out, run.first - end);
        number(&mut out, run.count);
        end = run.first + run.count;
    }
    out
}

pub(crate) fn seal(out: &mut Vec<u8>) {
    let checksum = Sha256::digest(&*out);
    out.extend_from_slice(&checksum);
}

/// Checks a snapshot and splits it into header and difference. What comes back is consistent in itself; whether it fits an
/// image and the limits of a cell is for the caller to see.
pub(crate) fn open(bytes: &[u8]) -> Result<(Header, &[u8]), RestoreError> {
    if bytes.len() < MAGIC.len() + 2 || !bytes.starts_with(MAGIC) {
        return Err(RestoreError::NotASnapshot);
    }
    let version = u16::from_le_bytes([bytes[4], bytes[5]]);
    if version != VERSION {
        return Err(RestoreError::Version { found: version, known: VERSION });
    }
    let sealed = bytes.len().checked_sub(CHECKSUM_BYTES).ok_or(RestoreError::Damaged("it is cut off"))?;
    let (body, checksum) = bytes.split_at(sealed);
    if Sha256::digest(body).as_slice() != checksum {
        return Err(RestoreError::Damaged("its checksum does not match"));
    }
    let mut reader = Reader(body.get(MAGIC.len() + 2..).unwrap_or_default());
    let engine = ContentHash(reader.array()?);
    let image = ContentHash(reader.array()?);
    let stack_pointer = u32::from_le_bytes(reader.array()?);
    let wasm_pages = u32::from_le_bytes(reader.array()?);
    let next_request = reader.number()?;
    let pending = ascending_ids(&mut reader, next_request)?;
    let runs = ascending_runs(&mut reader, wasm_pages, stack_pointer)?;
    Ok((Header { engine, image, stack_pointer, wasm_pages, next_request, pending, runs }, reader.0))
}

fn ascending_ids(reader: &mut Reader<'_>, next_request: u32) -> Result<Vec<u32>, RestoreError> {
    let count = reader.number()?;
    let mut ids: Vec<u32> = Vec::new();
    for _ in 0..count {
        let distance = reader.number()?;
        let id = ids.last().map_or(Some(distance), |last| last.checked_add(distance).filter(|_| distance > 0));
        match id {
            Some(id) if id < next_request => ids.push(id),
            _ => return Err(RestoreError::Damaged("its request ids are out of order")),
        }
    }
    Ok(ids)
}

fn ascending_runs(reader: &mut Reader<'_>, wasm_pages: u32, stack_pointer: u32) -> Result<Vec<Run>, RestoreError> {
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
            return Err(RestoreError::Damaged("its pages are out of order"));
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
    fn array<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(RestoreError::Damaged("it is cut off"))?;
        self.0 = rest;
        Ok(*head)
    }

    /// A LEB128 number in its only shortest form.
    fn number(&mut self) -> Result<u32, RestoreError> {
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
        Err(RestoreError::Damaged("a number is malformed"))
    }
}
