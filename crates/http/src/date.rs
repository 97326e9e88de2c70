//! Moments in headers.

use std::time::{Duration, SystemTime};

/// Reads a date of HTTP: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn parse_date(text: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(text).ok()
}

/// Reads a timestamp of RFC 3339, to the second: `2026-11-16T12:00:00Z`, `2026-11-16T12:00:00.5+01:00`.
pub fn parse_timestamp(text: &str) -> Option<SystemTime> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone);
    let mut clock = clock.split('.').next()?.splitn(3, ':').map(str::parse::<i64>);
    let (hour, minute, second) = (clock.next()?.ok()?, clock.next()?.ok()?, clock.next()?.ok()?);
    let is_right = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second)
        && (1970..10_000).contains(&year);
    if !is_right {
        return None;
    }
    let offset = if zone.eq_ignore_ascii_case("z") {
        0
    } else {
        let (hours, minutes) = zone[1..].split_once(':')?;
        let part = |text: &str, most: i64| text.parse::<i64>().ok().filter(|number| (0..most).contains(number));
        let offset = part(hours, 24)? * 3600 + part(minutes, 60)? * 60;
        if zone.starts_with('-') { -offset } else { offset }
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    let seconds = u64::try_from(seconds).ok()?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

/// The days from 1970 to a date. Years begin in March here, so that a leap day is their last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let of_year = (153 * month + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Option<u64> {
        parse_timestamp(text).and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).map(|since| since.as_secs())
    }

    #[test]
    fn timestamps_are_seconds_since_1970() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2000-02-29T12:34:56.789Z"), Some(951_827_696));
        assert_eq!(seconds("2024-12-31T23:59:59+01:00"), Some(1_735_685_999));
        assert_eq!(seconds("2026-11-16t12:00:00-05:30"), Some(1_794_850_200));
        for wrong in [
            "",
            "2026",
            "2026-13-01T00:00:00Z",
            "2026-01-01T25:00:00Z",
            "2026-01-01T00:00:00",
            "x-y-zT1:2:3Z",
            "9223372036854775807-01-01T00:00:00Z",
            "2026-01-01T00:00:00+9223372036854775807:00",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
