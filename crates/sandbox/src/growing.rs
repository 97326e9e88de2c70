//! The growth of a cell's memory, within a budget that it shares with others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bridge::Stop;
use crate::engine::LongTurn;
use crate::watchdog::Signal;
use crate::{Allotment, Limit};

/// How long a turn waits for memory before it looks whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(20);

/// Requests of so many bytes together are counted.
const COUNTED_FROM: usize = 64 << 10;

/// The memory of a cell with a budget.
pub(crate) struct Growing {
    pub allotment: Allotment,
    pub signal: Arc<Signal>,
    pub long_turn: Option<LongTurn>,
    /// The memory that it has.
    memory: usize,
    /// The bytes of the requests of this turn, which the host keeps: those that are counted, and those that are not yet.
    requests: usize,
    uncounted: usize,
}

impl Growing {
    pub(crate) fn new(allotment: Allotment, signal: Arc<Signal>, long_turn: Option<LongTurn>) -> Self {
        Self { allotment, signal, long_turn, memory: 0, requests: 0, uncounted: 0 }
    }

    /// Waits until there is memory for a request of so many bytes too. Small ones are counted together.
    pub(crate) fn hold_request(&mut self, bytes: usize, deadline: Option<Instant>) -> Result<(), Stop> {
        self.uncounted += bytes;
        if self.uncounted < COUNTED_FROM {
            return Ok(());
        }
        self.allotment.hold(self.uncounted);
        self.requests += std::mem::take(&mut self.uncounted);
        // A turn that does not get it ends.
        self.grow(self.memory, deadline)
    }

    /// Hands the memory for the requests so far over to the allotment of their keeper.
    pub(crate) fn hand_requests_over(&mut self, to: &mut Allotment) {
        self.allotment.hand_over(std::mem::take(&mut self.requests), to);
    }

    /// Waits until the memory may have `bytes`, in the middle of a turn with this deadline. Without one there is nothing to wait
    /// for: the host makes the cell, and must have seen to its memory before.
    pub(crate) fn grow(&mut self, bytes: usize, deadline: Option<Instant>) -> Result<(), Stop> {
        if !self.allotment.could_ever_have(bytes) {
            return Err(Limit::Memory { limit: self.allotment.budget().bytes() }.into());
        }
        if self.allotment.try_grow(bytes) {
            self.memory = bytes;
            return Ok(());
        }
        let Some(deadline) = deadline else { return Err(Stop::NoMemory { needed: bytes }) };
        let budget = self.allotment.budget().bytes();
        let mut growth = self.allotment.grow(bytes);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.signal.is_interrupted() {
                return Err(Stop::Interrupted);
            }
            if left.is_zero() {
                return Err(Limit::MemoryBudget { budget }.into());
            }
            let mut is_granted = false;
            let mut wait = || is_granted = growth.wait(left.min(PATIENCE));
            match &self.long_turn {
                Some(long_turn) => (long_turn.stand_still)(&mut wait),
                None => wait(),
            }
            if is_granted {
                drop(growth);
                self.memory = bytes;
                return Ok(());
            }
        }
    }
}
