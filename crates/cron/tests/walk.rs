//! Cron expressions against a walk over every minute, through the changes of the clock.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use pincer_cron::Schedule;
use proptest::prelude::*;

const MINUTE: i64 = 60_000;
/// Zones whose clock changes by an hour, by half an hour, at midnight, never, and one that has left out a day.
const ZONES: [&str; 8] = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "America/Santiago",
    "Asia/Kolkata",
    "UTC",
    "Pacific/Apia",
];

/// An expression as sets, so that this test reads none.
#[derive(Clone, Debug)]
struct Sets {
    minutes: BTreeSet<i8>,
    /// `None` is every hour.
    hours: Option<BTreeSet<i8>>,
    days: Option<BTreeSet<i8>>,
    weekdays: Option<BTreeSet<i8>>,
}

impl Sets {
    fn text(&self) -> String {
        let list = |set: &BTreeSet<i8>| set.iter().map(i8::to_string).collect::<Vec<_>>().join(",");
        let open = |set: &Option<BTreeSet<i8>>| set.as_ref().map_or_else(|| "*".to_owned(), list);
        format!("{} {} {} * {}", list(&self.minutes), open(&self.hours), open(&self.days), open(&self.weekdays))
    }

    fn fits(&self, local: DateTime) -> bool {
        let day = self.days.as_ref().map(|days| days.contains(&local.day()));
        let weekday = self.weekdays.as_ref().map(|days| days.contains(&local.date().weekday().to_sunday_zero_offset()));
        // As in every cron: if both are named, one is enough.
        let day_fits = match (day, weekday) {
            (Some(day), Some(weekday)) => day || weekday,
            (day, weekday) => day.or(weekday).unwrap_or(true),
        };
        let hour_fits = self.hours.as_ref().is_none_or(|hours| hours.contains(&local.hour()));
        self.minutes.contains(&local.minute()) && hour_fits && day_fits
    }

    /// Walks from minute to minute.
    fn walk(&self, zone: &TimeZone, after: i64, minutes: i64) -> Option<i64> {
        let local = |at: i64| zone.to_datetime(Timestamp::from_millisecond(at).unwrap());
        let mut at = after.div_euclid(MINUTE) * MINUTE;
        for _ in 0..minutes {
            let before = local(at);
            at += MINUTE;
            let now = local(at);
            if self.hours.is_none() {
                if self.fits(now) {
                    return Some(at);
                }
                continue;
            }
            // The clock has jumped over local times that fit.
            let mut skipped = before.checked_add(jiff::Span::new().minutes(1)).unwrap();
            while skipped < now {
                if self.fits(skipped) {
                    return Some(at);
                }
                skipped = skipped.checked_add(jiff::Span::new().minutes(1)).unwrap();
            }
            // The clock shows a time for the second time if it showed it some minutes ago.
            let is_repeated = || (1..=180).any(|ago| local(at - ago * MINUTE) == now);
            if self.fits(now) && !is_repeated() {
                return Some(at);
            }
        }
        None
    }
}

fn some_of(range: std::ops::Range<i8>, most: usize) -> impl Strategy<Value = BTreeSet<i8>> {
    proptest::collection::btree_set(range, 1..=most)
}

fn sets() -> impl Strategy<Value = Sets> {
    let hours = prop_oneof![Just(None), some_of(0..5, 4).prop_map(Some), some_of(0..24, 3).prop_map(Some)];
    let days = prop_oneof![3 => Just(None), 1 => some_of(1..29, 4).prop_map(Some)];
    let weekdays = prop_oneof![3 => Just(None), 1 => some_of(0..7, 3).prop_map(Some)];
    (some_of(0..60, 4), hours, days, weekdays).prop_map(|(minutes, hours, days, weekdays)| Sets {
        minutes,
        hours,
        days,
        weekdays,
    })
}

/// A moment within two days of a change of the clock, or any.
fn moments() -> impl Strategy<Value = (usize, i64)> {
    let near = (0..ZONES.len(), 0..12_usize, -2 * 1440..2 * 1440_i64).prop_map(|(zone, change, minutes)| {
        // From December 2011 on: Samoa left out a day.
        let from: Timestamp = "2011-10-01T00:00:00Z".parse().unwrap();
        let found = TimeZone::get(ZONES[zone]).unwrap();
        let change = found.following(from).nth(change).map_or(from, |change| change.timestamp());
        (zone, change.as_millisecond() + minutes * MINUTE)
    });
    let any = (0..ZONES.len(), 1_300_000_000_000..1_900_000_000_000_i64);
    prop_oneof![4 => near, 1 => any]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_next_time_is_the_one_that_a_walk_finds(sets in sets(), (zone, after) in moments()) {
        let walked = sets.walk(&TimeZone::get(ZONES[zone]).unwrap(), after, 4 * 1440);
        let next = Schedule::cron(&sets.text(), Some(ZONES[zone])).unwrap().next(0, after).unwrap().unwrap();
        match walked {
            Some(at) => prop_assert_eq!(next, at, "{} in {} after {}", sets.text(), ZONES[zone], after),
            None => prop_assert!(next > after + 4 * 1440 * MINUTE - MINUTE),
        }
    }

    #[test]
    fn no_text_breaks_the_reader(text in "[0-9a-zA-Z*/,\\-#?@ LW+]{0,40}") {
        if let Ok(schedule) = Schedule::cron(&text, Some("Europe/Berlin")) {
            let _ = schedule.next(0, 1_767_351_600_000);
        }
        let _ = Schedule::every(&text);
        let _ = Schedule::at(&text, None, 0);
    }
}

/// The first times after a moment, in local time.
fn times(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = Schedule::cron(expression, Some(zone)).expect("a schedule");
    let mut at = after.parse::<Timestamp>().expect("a time").as_millisecond();
    let mut next = || {
        at = schedule.next(0, at).expect("a time").expect("one");
        pincer_cron::local(at, Some(zone))[8..].to_owned()
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn a_local_time_that_is_skipped_comes_when_the_clock_jumps_and_a_repeated_one_comes_once() {
    let spring = "2026-03-28T22:00:00Z";
    let autumn = "2026-10-24T21:00:00Z";
    for (expression, from, expected) in [
        ("30 2 * * *", spring, ["29 03:00:00 +02:00", "30 02:30:00 +02:00"]),
        ("15 1,2 * * *", spring, ["29 01:15:00 +01:00", "29 03:00:00 +02:00"]),
        ("30 2 * * *", autumn, ["25 02:30:00 +02:00", "26 02:30:00 +01:00"]),
        ("15 1,2 * * *", autumn, ["25 01:15:00 +02:00", "25 02:15:00 +02:00"]),
        ("0 0 9 * * *", autumn, ["25 09:00:00 +01:00", "26 09:00:00 +01:00"]),
    ] {
        assert_eq!(times(expression, "Europe/Berlin", from, 2), expected, "{expression}");
    }
    // Several that are left out come as one.
    assert_eq!(
        times("*/15 2 28 3 *", "Europe/Berlin", "2027-03-27T23:00:00Z", 2),
        ["28 03:00:00 +02:00", "28 02:00:00 +02:00"]
    );
    assert_eq!(
        times("30 2 * * *", "Pacific/Apia", "2011-12-29T13:00:00Z", 2),
        ["31 00:00:00 +14:00", "31 02:30:00 +14:00"]
    );
}

#[test]
fn what_comes_every_hour_neither_pauses_nor_hurries_when_the_clock_changes() {
    let spring = times("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 2);
    assert_eq!(spring, ["29 01:30:00 +01:00", "29 03:30:00 +02:00"]);
    let autumn = times("30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 3);
    assert_eq!(autumn, ["25 02:30:00 +02:00", "25 02:30:00 +01:00", "25 03:30:00 +01:00"]);
}

#[test]
fn a_wrong_expression_is_told_with_its_field() {
    for (expression, told) in [
        ("61 * * * *", "the minute field \"61\""),
        ("* 25 * * *", "the hour field \"25\""),
        ("* * 0 * *", "the day of month field \"0\""),
        ("* * * 13 *", "the month field \"13\""),
        ("* * * * 8", "the day of week field \"8\""),
        ("99 * * * * *", "the second field \"99\""),
        ("a * * * *", "the minute field \"a\""),
        ("*/0 * * * *", "step cannot be zero"),
        ("* * * *", "needs five fields"),
        ("@reboot", "needs five fields"),
        ("", "needs five fields"),
        ("* * * * * * *", "needs five fields"),
        ("0 0 30 2 *", "fits no time"),
    ] {
        let error = Schedule::cron(expression, Some("UTC")).expect_err(expression).to_string();
        assert!(error.contains(told), "{expression}: {error}");
    }
    let error = Schedule::cron("0 9 * * *", Some("Europe/Berln")).expect_err("a zone").to_string();
    assert!(error.contains("no time zone \"Europe/Berln\""), "{error}");
    let long = format!("{} * * * *", "1,".repeat(500) + "1");
    assert!(Schedule::cron(&long, Some("UTC")).expect_err("too long").to_string().len() < 800);
}
