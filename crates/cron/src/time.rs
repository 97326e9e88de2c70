//! Times and time zones.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, Zoned};

use crate::duration::duration;
use crate::{Millis, ScheduleError};

/// Returns the time zone of this name.
pub(crate) fn zone(name: &str) -> Result<TimeZone, ScheduleError> {
    TimeZone::get(name.trim()).map_err(|_| ScheduleError::Zone { name: name.to_owned() })
}

/// Returns the name of a time zone as its database writes it, or that of the system's. A stored schedule must mean the same to every
/// process, whatever zone that one runs in.
pub(crate) fn zone_name(name: Option<&str>) -> Result<String, ScheduleError> {
    let zone = match name {
        Some(name) => zone(name)?,
        // A system that says nothing goes by UTC.
        None => TimeZone::try_system().unwrap_or(TimeZone::UTC),
    };
    match zone.iana_name() {
        Some(name) => Ok(name.to_owned()),
        None => Err(ScheduleError::UnnamedZone),
    }
}

pub(crate) fn timestamp(at: Millis) -> Timestamp {
    let end = if at < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_millisecond(at).unwrap_or(end)
}

/// Returns the moment at which the clock of a zone shows a local time: the first, if it shows it twice. If a change of the clock leaves it
/// out, that is the moment at which the clock jumps.
pub(crate) fn moment_of(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
        // With the offset after the change the time lies before the change, and the first change from there is it.
        AmbiguousOffset::Gap { after, .. } => Some(zone.following(after.to_timestamp(local).ok()?).next()?.timestamp()),
    }
}

/// Reads a moment: with an offset, in local time of a zone (the system's without one), or as a duration from now.
pub fn moment(text: &str, zone_name: Option<&str>, now: Millis) -> Result<Millis, ScheduleError> {
    let refused = || ScheduleError::Time { text: text.to_owned() };
    let trimmed = text.trim();
    let from_now = trimmed.strip_prefix("in ").or_else(|| trimmed.strip_prefix('+')).unwrap_or(trimmed);
    if let Ok(duration) = duration(from_now) {
        return now.checked_add(duration).filter(|at| *at <= Timestamp::MAX.as_millisecond()).ok_or_else(refused);
    }
    if let Ok(at) = trimmed.parse::<Timestamp>() {
        return Ok(at.as_millisecond());
    }
    // A date alone would be midnight, which is rarely meant.
    let civil = trimmed.parse::<DateTime>().ok().filter(|_| trimmed.contains(':')).ok_or_else(refused)?;
    let zone = match zone_name {
        Some(name) => zone(name)?,
        None => TimeZone::try_system().unwrap_or(TimeZone::UTC),
    };
    moment_of(&zone, civil).map(Timestamp::as_millisecond).ok_or_else(refused)
}

/// Writes a moment in UTC: `2026-01-31T08:00:00Z`.
pub fn utc(at: Millis) -> String {
    timestamp(at).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Writes a moment in local time of a zone: `2026-01-31 09:00:00 +01:00`. A zone that is not known is UTC.
pub fn local(at: Millis, zone_name: Option<&str>) -> String {
    let found = match zone_name {
        Some(name) => TimeZone::get(name).ok(),
        None => TimeZone::try_system().ok(),
    };
    Zoned::new(timestamp(at), found.unwrap_or(TimeZone::UTC)).strftime("%Y-%m-%d %H:%M:%S %:z").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_with_an_offset_in_a_zone_or_from_now() {
        let berlin = Some("Europe/Berlin");
        let read = |text| moment(text, berlin, 1_000).map(utc);
        assert_eq!(read("2026-01-31T09:00").expect("local"), "2026-01-31T08:00:00Z");
        assert_eq!(read("2026-07-31 09:00:05").expect("local"), "2026-07-31T07:00:05Z");
        assert_eq!(read("2026-01-31T09:00+03:00").expect("offset"), "2026-01-31T06:00:00Z");
        assert_eq!(read("2026-01-31T09:00:00Z").expect("utc"), "2026-01-31T09:00:00Z");
        for text in ["20m", "in 20m", "+20m"] {
            assert_eq!(moment(text, None, 1_000).expect(text), 1_201_000);
        }
        // The clock jumps from 2:00 to 3:00, and back from 3:00 to 2:00.
        for left_out in ["2026-03-29T02:00", "2026-03-29T02:30", "2026-03-29T02:59:59"] {
            assert_eq!(read(left_out).expect("when the clock jumps"), "2026-03-29T01:00:00Z", "{left_out}");
        }
        assert_eq!(read("2026-03-29T03:00").expect("there"), "2026-03-29T01:00:00Z");
        assert_eq!(read("2026-10-25T02:30").expect("the first"), "2026-10-25T00:30:00Z");
        for text in ["", "soon", "2026-02-30T09:00", "2026-01-31", "09:00", "99999999w", "2026-01-31T25:00"] {
            let error = moment(text, berlin, 1_000).expect_err(text).to_string();
            assert!(error.contains("is no time") && error.contains("20m"), "{error}");
        }
        let error = moment("2026-01-31T09:00", Some("Europe/Berln"), 0).expect_err("a zone").to_string();
        assert!(error.contains("no time zone \"Europe/Berln\""), "{error}");
    }

    #[test]
    fn moments_are_written_in_their_zone() {
        assert_eq!(local(1_767_600_000_000, Some("Europe/Berlin")), "2026-01-05 09:00:00 +01:00");
        assert_eq!(utc(i64::MAX), utc(Timestamp::MAX.as_millisecond()));
        assert_eq!(zone_name(Some("europe/berlin")).expect("a zone"), "Europe/Berlin");
    }
}
