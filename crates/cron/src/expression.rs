//! Cron expressions: which local times fit, and which moments those are where the clock changes.
//!
//! The search for a local time is `croner`'s. The way from local times to moments is ours, because `croner` treats a list of hours
//! (`15 1,2 * * *`) in another way than one hour, and finds nothing beyond a day that a zone has left out.

use std::str::FromStr;

use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::time::{moment_of, timestamp, zone};
use crate::{Millis, ScheduleError};

/// The names of the fields, in the order in which they are written if there are six.
const FIELDS: [&str; 6] = ["second", "minute", "hour", "day of month", "month", "day of week"];
/// The longest expression that is read.
const LONGEST: usize = 200;
/// The most changes of the clock, or times that the clock has left out or repeats, that are passed in a search.
const MOST_STEPS: usize = 20_000;

/// A cron expression that was read.
pub(crate) struct Expression {
    text: String,
    cron: Cron,
    hours: Hours,
}

/// The way in which an expression treats hours that the clock leaves out or repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hours {
    /// The hours are named: each local time happens once a day.
    Named,
    /// Every hour, or every so many: the time between two runs stays the same.
    Every,
}

impl FromStr for Expression {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let too_long = text.len() > LONGEST;
        let cron = match parse(&text) {
            Ok(cron) if !too_long => cron,
            Ok(_) => return Err(ScheduleError::Expression { expression: text.chars().take(LONGEST).collect() }),
            Err(_) => return Err(wrong(&text)),
        };
        let hours = &cron.pattern.hours;
        let hour = cron.as_str().split(' ').rev().nth(3).unwrap_or_default();
        let is_every = hour.starts_with('*') || hours.values().len() == 24;
        Ok(Self { hours: if is_every { Hours::Every } else { Hours::Named }, text, cron })
    }
}

fn parse(text: &str) -> Result<Cron, CronError> {
    CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build().parse(text)
}

/// Says which field is wrong: the one that cannot be read among others that can.
fn wrong(text: &str) -> ScheduleError {
    let fields: Vec<&str> = text.split(' ').collect();
    let names = FIELDS.get(FIELDS.len().saturating_sub(fields.len())..).unwrap_or_default();
    let short = |text: &str| text.chars().take(LONGEST).collect::<String>();
    if matches!(fields.len(), 5 | 6) {
        for (position, (field, name)) in fields.iter().zip(names).enumerate() {
            let mut alone = vec!["*"; fields.len()];
            alone[position] = field;
            if let Err(error) = parse(&alone.join(" ")) {
                let (text, expression) = (short(field), short(text));
                return ScheduleError::Field { field: name, text, expression, reason: reason(name, &error) };
            }
        }
    }
    ScheduleError::Expression { expression: short(text) }
}

/// Says what may stand in a field.
fn reason(field: &str, error: &CronError) -> String {
    let range = match field {
        "second" | "minute" => "0-59",
        "hour" => "0-23",
        "day of month" => "1-31 or L",
        "month" => "1-12 or JAN-DEC",
        _ => "0-7 (0 and 7 are Sunday) or SUN-SAT",
    };
    let said = match error {
        CronError::ComponentError(said) | CronError::InvalidPattern(said) => said.trim_end_matches('.').to_lowercase(),
        _ => "it has a character that means nothing there".to_owned(),
    };
    format!("{said}. It takes {range}, with * , - and /")
}

impl Expression {
    /// Returns the first moment after `after` that fits, in a zone.
    pub(crate) fn next(&self, zone_name: &str, after: Millis) -> Result<Option<Millis>, ScheduleError> {
        let zone = zone(zone_name)?;
        let after = timestamp(after);
        let found = match self.hours {
            Hours::Named => self.next_of_named(&zone, after),
            Hours::Every => self.next_of_every(&zone, after),
        };
        match found {
            Some(at) => Ok(Some(at.as_millisecond())),
            None => Err(ScheduleError::Never { expression: self.text.clone() }),
        }
    }

    fn next_local(&self, from: DateTime, is_inclusive: bool) -> Option<DateTime> {
        self.cron.find_next_occurrence(&from, is_inclusive).ok()
    }

    /// Each local time once: one that is left out at the moment when the clock jumps, one that is repeated the first time.
    fn next_of_named(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        let mut local = zone.to_datetime(after);
        for _ in 0..MOST_STEPS {
            local = self.next_local(local, false)?;
            let at = moment_of(zone, local)?;
            if at > after {
                return Some(at);
            }
        }
        None
    }

    /// Every moment at which the clock shows a time that fits: between two changes of the clock, moments and local times go hand in hand.
    fn next_of_every(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        let (mut from, mut is_inclusive) = (after, false);
        for _ in 0..MOST_STEPS {
            let offset = zone.to_offset(from);
            let change = zone.following(from).next().map(|change| change.timestamp());
            let local = self.next_local(offset.to_datetime(from), is_inclusive);
            let at = local.and_then(|local| offset.to_timestamp(local).ok());
            match (at, change) {
                (Some(at), Some(change)) if at < change => return Some(at),
                (at, None) => return at,
                (None, Some(_)) => return None,
                (Some(_), Some(change)) => (from, is_inclusive) = (change, true),
            }
        }
        None
    }
}
