//! The growth of a cell's memory, within a budget that it shares with others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bridge::Stop;
use crate::engine::LongTurn;
use crate::watchdog::Signal;
use crate::{Allotment, Limit};

/// How long a turn waits for memory before it looks whether it is still wanted.
const PATIENCE: Duration = Duration::from_millis(20);

/// The memory of a cell with a budget.
pub(crate) struct Growing {
    pub allotment: Allotment,
    pub signal: Arc<Signal>,
    pub long_turn: Option<LongTurn>,
}

impl Growing {
    /// Waits until the memory may have `bytes`, in the middle of a turn with this deadline. Without one there is nothing to wait
    /// for: the host makes the cell, and must have seen to its memory before.
    pub fn grow(&mut self, bytes: usize, deadline: Option<Instant>) -> Result<(), Stop> {
        if !self.allotment.could_ever_have(bytes) {
            return Err(Limit::Memory { limit: self.allotment.budget().bytes() }.into());
        }
        if self.allotment.try_grow(bytes) {
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
                return Ok(());
            }
        }
    }
}
