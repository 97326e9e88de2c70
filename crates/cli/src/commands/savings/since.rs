//! The beginning of the time that is looked at.

use chrono::{Local, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, TimeZone};
use pincer_store::Millis;
use pincer_tools::one_line;

use crate::WRONG_USAGE;
use crate::refused::Refused;

/// Reads how long ago it was, or a date or a time: without an offset, in local time.
pub(super) fn since(text: &str, now: Millis) -> Result<Millis, Refused> {
    let text = text.trim();
    if let Ok(ago) = pincer_cron::duration(text) {
        return Ok(now.saturating_sub(ago));
    }
    let midnight = NaiveDate::parse_from_str(text, "%Y-%m-%d").map(|day| day.and_time(NaiveTime::MIN));
    let at = match midnight {
        Ok(midnight) => local(midnight),
        // A duration from now is none from before.
        Err(_) => {
            pincer_cron::moment(text, None, now).ok().filter(|_| !text.starts_with("in ") && !text.starts_with('+'))
        }
    };
    at.ok_or_else(|| {
        let shown = one_line(text, 80);
        Refused(
            WRONG_USAGE,
            format!("{shown:?} is no time to count from: write 7d, 12h, 2026-11-01 or 2026-11-01T08:00"),
        )
    })
}

fn local(at: NaiveDateTime) -> Option<Millis> {
    match Local.from_local_datetime(&at) {
        LocalResult::Single(at) | LocalResult::Ambiguous(at, _) => Some(at.timestamp_millis()),
        // The clock was set forward over midnight: the day begins an hour later.
        LocalResult::None => {
            Local.from_local_datetime(&(at + chrono::TimeDelta::hours(1))).earliest().map(|at| at.timestamp_millis())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_a_duration_a_date_or_a_time() {
        let now = 1_794_830_400_000;
        let read = |text: &str| since(text, now).unwrap_or_else(|refused| panic!("{text}: {}", refused.1));
        assert_eq!(read("12h"), now - 12 * 3_600_000);
        assert_eq!(read(" 7d "), now - 7 * 86_400_000);
        assert_eq!(read("2026-11-01T08:00:00Z"), 1_793_520_000_000);
        let midnight = Local.with_ymd_and_hms(2026, 11, 1, 0, 0, 0).earliest().expect("a time").timestamp_millis();
        assert_eq!((read("2026-11-01"), read("2026-11-01T00:00")), (midnight, midnight));
        for text in ["", "yesterday", "7", "+7d", "in 7d", "2026-13-01", "2026-02-30", "-7d", "\u{1b}[2J"] {
            let refused = since(text, now).err().unwrap_or_else(|| panic!("{text:?} is taken for a time"));
            assert!(
                refused.0 == WRONG_USAGE && refused.1.contains("7d") && !refused.1.contains('\u{1b}'),
                "{}",
                refused.1
            );
        }
    }
}
