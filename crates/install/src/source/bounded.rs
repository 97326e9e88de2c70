//! Compressed data that may only grow so much.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::source::zip::Damage;

/// Headers and padding come on top of the content of the files.
const OVERHEAD: u64 = 64 << 20;

/// A decoder that fails when more comes out than fits with what went in.
pub(crate) struct Bounded<D> {
    decoder: Damage<D>,
    went_in: Rc<Cell<u64>>,
    came_out: u64,
    limits: Limits,
}

/// Counts what is read.
pub(crate) struct Counted<R> {
    reader: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.count.set(self.count.get() + count as u64);
        Ok(count)
    }
}

impl<D: Read> Bounded<D> {
    pub(crate) fn new<R>(reader: R, decoder: impl FnOnce(Counted<R>) -> D, limits: &Limits) -> Self {
        let went_in = Rc::new(Cell::new(0));
        let decoder = Damage(decoder(Counted { reader, count: Rc::clone(&went_in) }));
        Self { decoder, went_in, came_out: 0, limits: *limits }
    }
}

impl<D: Read> Read for Bounded<D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(buffer)?;
        self.came_out += count as u64;
        let limits = &self.limits;
        let by_ratio = self.went_in.get().saturating_mul(limits.ratio).max(limits.bytes_of_any_ratio);
        if self.came_out > by_ratio {
            return Err(io::Error::other(Refusal::Bomb(limits.ratio)));
        }
        if self.came_out > limits.bytes.saturating_add(OVERHEAD) {
            return Err(io::Error::other(Refusal::TooLarge(limits.bytes)));
        }
        Ok(count)
    }
}
