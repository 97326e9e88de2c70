//! When a job of the schedule is due: at a time, every so often, or by a cron expression in a time zone.
//!
//! Everything in here is a function of its arguments: it looks at no clock but for the name of the system's time zone, and runs
//! nothing. Times are milliseconds since 1970.
//!
//! ```
//! use pincer_cron::Schedule;
//!
//! let schedule = Schedule::cron("0 9 * * 1-5", Some("Europe/Berlin"))?;
//! // Friday, 2026-01-02, 12:00 in Berlin: the next time is Monday at 9.
//! let next = schedule.next(0, 1_767_351_600_000)?;
//! assert_eq!(next, Some(1_767_600_000_000));
//! # Ok::<(), pincer_cron::ScheduleError>(())
//! ```

mod duration;
mod error;
mod expression;
mod schedule;
mod time;

pub use duration::{duration, in_words};
pub use error::ScheduleError;
pub use schedule::Schedule;
pub use time::{local, moment, utc};

/// Milliseconds since 1970.
pub type Millis = i64;
