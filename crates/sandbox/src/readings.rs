//! What a program reads besides the answers to its requests: the clock, and what it takes from its library.
//!
//! With these, its seed and its answers, a program takes the same way again.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most changes of the clock that are kept of one turn: a program that does nothing but look at it makes a thousand in a second.
pub const MAX_CLOCK_CHANGES: usize = 8 << 10;
/// The most loads that are kept of one turn.
pub const MAX_LOADS: usize = 1 << 10;
/// How often a replayed program may look at the clock when its recorded readings are used up. The time stands still then, so a loop that
/// waits for it would never end.
const MAX_PAST: u64 = 100_000;

/// The readings of a program in one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// The clock: by how many milliseconds it had changed, and how often it was read then. The first change counts from 1970.
    pub clock: Vec<(i64, u64)>,
    /// The values that it took from its library, in order.
    pub loads: Vec<Load>,
    /// Some are left out: there were more than are kept.
    pub is_cut: bool,
}

/// Something that a program took from its library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Which kind of thing.
    pub kind: LoadKind,
    /// Its name or path.
    pub name: String,
    /// It, as the guest got it. `None` if there was no such thing.
    pub text: Option<Arc<str>>,
}

/// The kinds of things that a library has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadKind {
    /// A lazy global.
    Global,
    /// A file.
    File,
}

impl Readings {
    /// Returns how often the clock was read.
    pub fn clock_reads(&self) -> u64 {
        self.clock.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    fn note_time(&mut self, last: &mut Option<i64>, now: i64) {
        let is_full = self.clock.len() >= MAX_CLOCK_CHANGES;
        match self.clock.last_mut() {
            Some((_, count)) if *last == Some(now) => *count = count.saturating_add(1),
            _ if is_full => self.is_cut = true,
            _ => {
                self.clock.push((now.saturating_sub(last.unwrap_or(0)), 1));
                *last = Some(now);
            }
        }
    }

    fn note_load(&mut self, kind: LoadKind, name: &str, text: Option<&Arc<str>>) {
        match self.loads.len() < MAX_LOADS {
            true => self.loads.push(Load { kind, name: name.to_owned(), text: text.map(Arc::clone) }),
            false => self.is_cut = true,
        }
    }
}

/// Where the readings of a cell come from, and whether they are kept.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    source: Source,
    /// The readings of this turn, if they are kept.
    kept: Option<Readings>,
    /// The last time that was noted in this turn.
    last: Option<i64>,
}

#[derive(Debug, Default)]
enum Source {
    /// The clock of the machine, and the library.
    #[default]
    World,
    Recorded(Playback),
}

/// Recorded readings on their way into a program.
#[derive(Debug, Default)]
struct Playback {
    readings: Readings,
    /// The change of the clock that is read now, and how often it has been.
    change: usize,
    reads: u64,
    now: i64,
    past: u64,
    load: usize,
}

impl Reader {
    /// Keeps the readings from now on.
    pub(crate) fn record(&mut self) {
        self.kept.get_or_insert_default();
    }

    /// Takes the readings of the next turn from here.
    pub(crate) fn replay(&mut self, readings: Readings) {
        self.source = Source::Recorded(Playback { readings, ..Playback::default() });
        self.record();
    }

    /// Returns what was kept of a turn.
    pub(crate) fn take(&mut self) -> Option<Readings> {
        self.last = None;
        self.kept.as_mut().map(std::mem::take)
    }

    /// Returns the time in whole milliseconds; `None` if a replayed program asks for it for ever.
    pub(crate) fn now(&mut self) -> Option<i64> {
        let now = match &mut self.source {
            Source::World => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            }
            Source::Recorded(playback) => playback.now()?,
        };
        if let Some(kept) = &mut self.kept {
            kept.note_time(&mut self.last, now);
        }
        Some(now)
    }

    /// Returns what the library has: `look_up` asks it, if it is to be asked.
    pub(crate) fn load(
        &mut self,
        kind: LoadKind,
        name: &str,
        look_up: impl FnOnce() -> Option<Arc<str>>,
    ) -> Option<Arc<str>> {
        let text = match &mut self.source {
            Source::World => look_up(),
            Source::Recorded(playback) => playback.load(kind, name),
        };
        if let Some(kept) = &mut self.kept {
            kept.note_load(kind, name, text.as_ref());
        }
        text
    }
}

impl Playback {
    fn now(&mut self) -> Option<i64> {
        while let Some((change, count)) = self.readings.clock.get(self.change) {
            if self.reads == 0 {
                self.now = self.now.saturating_add(*change);
            }
            if self.reads < *count {
                self.reads += 1;
                return Some(self.now);
            }
            (self.change, self.reads) = (self.change + 1, 0);
        }
        self.past += 1;
        (self.past <= MAX_PAST).then_some(self.now)
    }

    /// Returns the next thing if it is this one. Another one is not there: the program has taken another way.
    fn load(&mut self, kind: LoadKind, name: &str) -> Option<Arc<str>> {
        let next = self.readings.loads.get(self.load).filter(|load| load.kind == kind && load.name == name)?;
        self.load += 1;
        next.text.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_readings_of_the_clock_are_counted_and_come_back_in_their_order() {
        let (mut kept, mut last) = (Readings::default(), None);
        for now in [1000, 1000, 1000, 1002, 999, 999] {
            kept.note_time(&mut last, now);
        }
        assert_eq!((kept.clock.clone(), kept.clock_reads()), (vec![(1000, 3), (2, 1), (-3, 2)], 6));
        let mut reader = Reader::default();
        reader.replay(kept.clone());
        let again: Vec<_> = std::iter::from_fn(|| reader.now()).take(6).collect();
        assert_eq!(again, [1000, 1000, 1000, 1002, 999, 999]);
        assert_eq!(reader.take(), Some(kept));
    }

    #[test]
    fn a_clock_that_is_used_up_stands_still_and_is_not_read_for_ever() {
        let mut reader = Reader::default();
        reader.replay(Readings { clock: vec![(5, 1), (2, 1)], ..Readings::default() });
        let read = std::iter::from_fn(|| reader.now()).count() as u64;
        assert_eq!(read, 2 + MAX_PAST);
        let mut empty = Reader::default();
        empty.replay(Readings { clock: vec![(7, 0), (i64::MAX, 1), (i64::MAX, 1)], ..Readings::default() });
        assert_eq!([empty.now(), empty.now()], [Some(i64::MAX); 2], "of a hostile recording");
    }

    #[test]
    fn a_turn_keeps_so_many_readings_and_says_when_there_were_more() {
        let (mut kept, mut last) = (Readings::default(), None);
        for now in 0..MAX_CLOCK_CHANGES as i64 {
            kept.note_time(&mut last, now);
        }
        assert!(!kept.is_cut);
        kept.note_time(&mut last, -1);
        assert!(kept.is_cut && kept.clock.len() == MAX_CLOCK_CHANGES);
    }
}
