//! Store time: what all processes on one store decide by.

/// Milliseconds since 1970.
pub type Millis = i64;

/// The clock of a store. Deadlines are compared by processes whose wall clocks may disagree, or be set while they run.
pub trait Clock {
    /// Returns store time: milliseconds since 1970, as good as the machine knew it when it booted.
    fn now(&self) -> Millis;
}
