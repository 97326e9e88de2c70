//! Durations, as people write them.

use crate::{Millis, ScheduleError};

const UNITS: [(&str, Millis); 5] =
    [("w", 7 * 86_400_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
/// The shortest and the longest time between two runs of a job.
pub(crate) const SHORTEST: Millis = 1000;
pub(crate) const LONGEST: Millis = 3653 * 86_400_000;

/// Reads a duration such as `90s`, `10m`, `1h30m` or `2d`, in milliseconds.
///
/// ```
/// assert_eq!(pincer_cron::duration("1h30m")?, 5_400_000);
/// assert!(pincer_cron::duration("10").is_err());
/// # Ok::<(), pincer_cron::ScheduleError>(())
/// ```
pub fn duration(text: &str) -> Result<Millis, ScheduleError> {
    let refused = || ScheduleError::Duration { text: text.to_owned() };
    let (mut rest, mut total, mut last) = (text.trim(), 0i64, usize::MAX);
    if rest.is_empty() {
        return Err(refused());
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: Millis = rest[..digits].parse().map_err(|_| refused())?;
        rest = rest[digits..].trim_start();
        let word = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let known = UNITS.iter().position(|(unit, _)| is_unit(&rest[..word], unit)).ok_or_else(refused)?;
        // From the largest unit to the smallest, each once: `10m1h` is a slip of the pen.
        if last != usize::MAX && known <= last {
            return Err(refused());
        }
        last = known;
        rest = rest[word..].trim_start();
        let part = number.checked_mul(UNITS[known].1).ok_or_else(refused)?;
        total = total.checked_add(part).ok_or_else(refused)?;
    }
    Ok(total)
}

/// Returns whether a word means a unit: `m`, `min`, `minute`, `minutes`.
fn is_unit(word: &str, unit: &str) -> bool {
    let longer: &[&str] = match unit {
        "w" => &["week", "weeks"],
        "d" => &["day", "days"],
        "h" => &["hour", "hours"],
        "m" => &["min", "mins", "minute", "minutes"],
        _ => &["sec", "secs", "second", "seconds"],
    };
    word == unit || longer.contains(&word)
}

/// Reads the time between two runs of a job.
pub(crate) fn period(text: &str) -> Result<Millis, ScheduleError> {
    let period = duration(text)?;
    match period {
        ..SHORTEST => Err(ScheduleError::Range { text: text.to_owned(), is_short: true }),
        SHORTEST..=LONGEST => Ok(period),
        _ => Err(ScheduleError::Range { text: text.to_owned(), is_short: false }),
    }
}

/// Writes a duration as [`duration`] reads it: `1h30m`.
pub fn in_words(millis: Millis) -> String {
    let mut left = millis.max(0);
    let mut text = String::new();
    for (unit, size) in UNITS {
        if left >= size {
            text.push_str(&format!("{}{unit}", left / size));
            left %= size;
        }
    }
    if text.is_empty() { format!("{left}ms") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, millis) in [
            ("1s", 1000),
            ("90s", 90_000),
            ("10m", 600_000),
            ("1h 30m", 5_400_000),
            ("2 days", 172_800_000),
            ("1w", 604_800_000),
        ] {
            assert_eq!(duration(text).expect(text), millis);
            assert_eq!(duration(&in_words(millis)).expect(text), millis, "{text}");
        }
        for text in
            ["", "10", "m", "10x", "10m1h", "1h1h", "-5m", "1.5h", "99999999999999999999s", "9999999999999999w", "５m"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(period("0s").is_err() && period("4000d").is_err());
        assert_eq!(period("1s").expect("a period"), 1000);
    }
}
