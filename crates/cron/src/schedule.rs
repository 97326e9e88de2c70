//! A schedule: at a time, every so often, or by a cron expression.

use serde::{Deserialize, Serialize};

use crate::duration::{in_words, period};
use crate::expression::Expression;
use crate::time::{local, moment, utc, zone_name};
use crate::{Millis, ScheduleError};

/// A schedule. As JSON it is `{"kind":"at","at":…,"tz":…}`, `{"kind":"every","everyMs":…}` or `{"kind":"cron","expr":…,"tz":…}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Schedule {
    /// Once.
    At {
        /// When, in UTC.
        at: String,
        /// The name of the time zone in which people are shown it, if one was named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tz: Option<String>,
    },
    /// Again and again.
    Every {
        /// The time between two runs, in milliseconds.
        every_ms: Millis,
    },
    /// When the clock of a zone shows a time that fits.
    Cron {
        /// The expression.
        expr: String,
        /// The name of the time zone.
        tz: String,
    },
}

impl Schedule {
    /// Reads a moment in the future.
    pub fn at(text: &str, zone: Option<&str>, now: Millis) -> Result<Self, ScheduleError> {
        let at = moment(text, zone, now)?;
        let tz = zone.map(|name| zone_name(Some(name))).transpose()?;
        match at > now {
            true => Ok(Self::At { at: precise(at), tz }),
            false => Err(ScheduleError::Past { text: text.to_owned(), now: local(now, zone) }),
        }
    }

    /// Reads the time between two runs: a second at least.
    pub fn every(text: &str) -> Result<Self, ScheduleError> {
        Ok(Self::Every { every_ms: period(text)? })
    }

    /// Reads a cron expression that some time fits. Without a zone, it goes by the system's.
    pub fn cron(expression: &str, zone: Option<&str>) -> Result<Self, ScheduleError> {
        let read: Expression = expression.parse()?;
        let tz = zone_name(zone)?;
        read.next(&tz, 0)?;
        Ok(Self::Cron { expr: expression.split_whitespace().collect::<Vec<_>>().join(" "), tz })
    }

    /// Reads a stored schedule.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        serde_json::from_str(text).map_err(|source| ScheduleError::Stored { text: text.to_owned(), source })
    }

    /// Returns it as it is stored.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns whether it counts the time that passes, and not what a clock on the wall shows.
    pub fn is_elapsed(&self) -> bool {
        matches!(self, Self::Every { .. })
    }

    /// Returns the first time after `after` at which it is due. One that counts the time does so from `began`.
    pub fn next(&self, began: Millis, after: Millis) -> Result<Option<Millis>, ScheduleError> {
        match self {
            Self::At { at, .. } => Ok(Some(moment(at, Some("UTC"), after)?).filter(|at| *at > after)),
            Self::Every { every_ms } => {
                let every = (*every_ms).max(1);
                let periods = after.saturating_sub(began).div_euclid(every).saturating_add(1).max(1);
                Ok(Some(began.saturating_add(periods.saturating_mul(every))))
            }
            Self::Cron { expr, tz } => expr.parse::<Expression>()?.next(tz, after),
        }
    }

    /// Returns it in a few words, for a table.
    pub fn in_words(&self) -> String {
        match self {
            Self::At { at, tz } => {
                moment(at, Some("UTC"), 0).map_or_else(|_| at.clone(), |at| format!("at {}", local(at, tz.as_deref())))
            }
            Self::Every { every_ms } => format!("every {}", in_words(*every_ms)),
            Self::Cron { expr, tz } => format!("{expr} ({tz})"),
        }
    }

    /// Returns the time zone that it goes by, if it names one.
    pub fn zone(&self) -> Option<&str> {
        match self {
            Self::Cron { tz, .. } => Some(tz),
            Self::At { tz, .. } => tz.as_deref(),
            Self::Every { .. } => None,
        }
    }
}

/// Writes a moment without losing its milliseconds.
fn precise(at: Millis) -> String {
    let whole = utc(at);
    match at.rem_euclid(1000) {
        0 => whole,
        millis => format!("{}.{millis:03}Z", whole.trim_end_matches('Z')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_stored_and_read_again() {
        let all = [
            Schedule::at("2026-01-31T09:00", Some("Europe/Berlin"), 0).expect("at"),
            Schedule::at("90s", None, 7).expect("from now"),
            Schedule::every("10m").expect("every"),
            Schedule::cron(" 0  9 * * MON-FRI ", Some("europe/berlin")).expect("cron"),
        ];
        for schedule in &all {
            assert_eq!(&Schedule::parse(&schedule.to_json()).expect("read"), schedule);
        }
        assert_eq!(all[1].next(0, 7).expect("a time"), Some(90_007), "no millisecond is lost");
        assert_eq!(all[3].to_json(), r#"{"kind":"cron","expr":"0 9 * * MON-FRI","tz":"Europe/Berlin"}"#);
        assert!(Schedule::parse(r#"{"kind":"cron","expr":"* * * * *"}"#).is_err());
        assert!(Schedule::parse(r#"{"kind":"every","everyMs":5,"more":1}"#).is_err());
    }

    #[test]
    fn a_moment_comes_once_and_never_in_the_past() {
        let schedule = Schedule::at("2026-01-31T08:00:00Z", None, 0).expect("at");
        let at = 1_769_846_400_000;
        assert_eq!(schedule.next(0, at - 1).expect("a time"), Some(at));
        assert_eq!(schedule.next(0, at).expect("none"), None);
        let error = Schedule::at("2026-01-31T08:00:00Z", Some("UTC"), at).expect_err("past").to_string();
        assert!(error.contains("has gone by: it is 2026-01-31 08:00:00"), "{error}");
    }

    #[test]
    fn a_moment_is_shown_in_the_zone_in_which_it_was_named() {
        for (zone, shown) in
            [("Europe/Berlin", "at 2026-01-31 09:00:00 +01:00"), ("asia/tokyo", "at 2026-01-31 09:00:00 +09:00")]
        {
            let schedule = Schedule::at("2026-01-31T09:00", Some(zone), 0).expect("at");
            let read = Schedule::parse(&schedule.to_json()).expect("read");
            assert_eq!(read.in_words(), shown);
            assert_eq!(read.zone().map(str::to_lowercase), Some(zone.to_lowercase()));
        }
        let older = Schedule::parse(r#"{"kind":"at","at":"2026-01-31T08:00:00Z"}"#).expect("one of an older version");
        assert_eq!(older.zone(), None);
    }

    #[test]
    fn a_period_keeps_its_beat_however_late_it_is_asked() {
        let schedule = Schedule::every("10s").expect("every");
        for (after, next) in
            [(1_000, 11_000), (10_999, 11_000), (11_000, 21_000), (95_500, 101_000), (0, 11_000), (-50_000, 11_000)]
        {
            assert_eq!(schedule.next(1_000, after).expect("a time"), Some(next), "{after}");
        }
        assert_eq!(Schedule::Every { every_ms: i64::MAX }.next(5, 6).expect("a time"), Some(i64::MAX));
        assert!(Schedule::Every { every_ms: 0 }.next(0, i64::MAX).is_ok());
    }
}
