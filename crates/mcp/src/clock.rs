//! The time as the machine knows it: how old something is that is kept, and until when a login holds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the milliseconds of Unix time.
pub(crate) fn unix_millis() -> u64 {
    since_epoch().as_millis() as u64
}

/// Returns the seconds of Unix time.
pub(crate) fn unix_seconds() -> u64 {
    since_epoch().as_secs()
}

/// A machine whose clock is before 1970 is in 1970.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
