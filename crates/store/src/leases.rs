//! Which of the processes that share a store are alive.

use crate::{OwnerId, Reply};

/// This process as an owner of runs, and the others. A process is alive for as long as it holds its lease, however it ends.
pub trait Leases: Send + Sync {
    /// Returns the name of this process, whether or not it holds its lease.
    fn own(&self) -> &OwnerId;
    /// Takes the lease of this process, unless it has it: from now on all others see it alive.
    fn hold(&self) -> Reply<OwnerId>;
    /// Returns whether the process of this name is alive. If that cannot be found out, it counts as alive: waiting in vain is
    /// better than doing something twice.
    fn is_alive(&self, owner: &OwnerId) -> Reply<bool>;
    /// Gives the lease up. All others take this process for gone from now on.
    fn release(&self);
}
