//! Errors in schedules.

/// An error in a schedule.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// One field of a cron expression is wrong.
    #[error("the {field} field {text:?} of the cron expression {expression:?} is wrong: {reason}")]
    Field {
        /// The name of the field.
        field: &'static str,
        /// The text in it.
        text: String,
        /// The whole expression.
        expression: String,
        /// The reason.
        reason: String,
    },
    /// The cron expression as a whole is wrong.
    #[error(
        "the cron expression {expression:?} cannot be read: it needs five fields (minute, hour, day of month, month, day of week), or six \
         with the second first, as in \"0 9 * * 1-5\"; @hourly, @daily, @weekly, @monthly and @yearly are known too"
    )]
    Expression {
        /// The expression.
        expression: String,
    },
    /// No time fits the cron expression.
    #[error("the cron expression {expression:?} fits no time: check its day of month against its month")]
    Never {
        /// The expression.
        expression: String,
    },
    /// There is no such time zone.
    #[error("there is no time zone {name:?}: name it like Europe/Berlin, America/New_York or UTC")]
    Zone {
        /// The name.
        name: String,
    },
    /// The time zone of the system has no name.
    #[error("the time zone of this system has no name: name one with `tz`, such as Europe/Berlin")]
    UnnamedZone,
    /// A time is none.
    #[error("{text:?} is no time: write 2026-01-31T09:00, 2026-01-31T09:00+01:00, or how long from now, as in 20m")]
    Time {
        /// The text.
        text: String,
    },
    /// A time has gone by.
    #[error("{text:?} has gone by: it is {now} now")]
    Past {
        /// The text.
        text: String,
        /// The time.
        now: String,
    },
    /// A duration is none.
    #[error("{text:?} is no duration: write a number with s, m, h, d or w, as in 90s, 10m or 1h30m")]
    Duration {
        /// The text.
        text: String,
    },
    /// A job would run too often, or too seldom.
    #[error("{text:?} is {}: a job runs every second at most, and once in ten years at least", if *is_short { "too short" } else { "too long" })]
    Range {
        /// The text.
        text: String,
        /// Whether it is too short.
        is_short: bool,
    },
    /// A stored schedule cannot be read.
    #[error("the schedule {text} cannot be read: change the job, or remove it")]
    Stored {
        /// The text.
        text: String,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}
