//! When a session begins anew by itself.

use chrono::{DateTime, Days, Local, NaiveTime, TimeZone};
use pincer_store::{Millis, Session};

/// The rules by which a session begins anew with the next message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// Each day at this hour, in local time.
    pub daily_at: Option<u32>,
    /// After so many milliseconds without a message.
    pub idle: Option<Millis>,
}

/// Why a session begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stale {
    /// The hour of the day has passed.
    Daily,
    /// No message came for too long.
    Idle,
}

impl Stale {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Daily => "daily",
            Self::Idle => "idle",
        }
    }
}

impl Freshness {
    /// Returns why the session is to begin anew now, if it is. One whose run waits for a person never is.
    pub fn stale(&self, session: &Session, now: Millis) -> Option<Stale> {
        if session.active.is_some() || session.entries == 0 {
            return None;
        }
        if self.idle.is_some_and(|idle| now - session.interacted_at >= idle) {
            return Some(Stale::Idle);
        }
        let hour = self.daily_at?;
        let boundary = last_passed(&Local, hour, now)?;
        (session.created_at < boundary).then_some(Stale::Daily)
    }
}

/// Returns when the hour of the day last began.
fn last_passed<Z: TimeZone>(zone: &Z, hour: u32, now: Millis) -> Option<Millis> {
    let now = DateTime::from_timestamp_millis(now)?.with_timezone(zone);
    let time = NaiveTime::from_hms_opt(hour, 0, 0)?;
    let days = [now.date_naive(), now.date_naive().checked_sub_days(Days::new(1))?];
    days.into_iter().find_map(|day| {
        // An hour that the clock leaves out begins when the clock goes on.
        let at = day.and_time(time).and_local_timezone(zone.clone()).earliest()?;
        (at <= now).then(|| at.timestamp_millis())
    })
}

#[cfg(test)]
mod tests {
    use chrono::FixedOffset;

    use super::*;

    #[test]
    fn the_last_passed_hour_is_of_today_or_yesterday() {
        let zone = FixedOffset::east_opt(2 * 3600).expect("a zone");
        let at = |text: &str| DateTime::parse_from_rfc3339(text).expect("a time").timestamp_millis();
        let check = |now: &str, boundary: &str| assert_eq!(last_passed(&zone, 4, at(now)), Some(at(boundary)), "{now}");
        check("2026-03-02T04:00:00+02:00", "2026-03-02T04:00:00+02:00");
        check("2026-03-02T03:59:59+02:00", "2026-03-01T04:00:00+02:00");
        check("2026-03-01T23:00:00+00:00", "2026-03-01T04:00:00+02:00");
    }
}
