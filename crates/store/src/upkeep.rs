//! Upkeep: runs end in time, are forgotten later, and their space goes back to the system.

use crate::{Millis, Reply, RunId};

/// Upkeep, done now and then by each process.
pub trait Upkeep {
    /// Ends the runs that wait longer than they may, and returns their ids.
    fn expire_runs(&self, now: Millis) -> Reply<Vec<RunId>>;
    /// Forgets runs that ended before, with their calls; returns how many. If there are many, some are left for the next time.
    fn forget_runs(&self, ended_before: Millis) -> Reply<usize>;
    /// Returns when the next run expires, or is to be forgotten if it is remembered for so long.
    fn next_due(&self, remembered: Millis) -> Reply<Option<Millis>>;
    /// Gives free space back to the system, if there is much. `true` if there is more to give back.
    fn give_space_back(&self) -> Reply<bool>;
}
