//! The accidents that a commit survives.

/// The accidents that a commit is safe from when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safety {
    /// From the death of this process. A later commit that is safe from more makes this one so too.
    Process,
    /// From a power cut as well: it is on the disk. Costs what the disk takes, some 15 times as much on a good one.
    Power,
}
