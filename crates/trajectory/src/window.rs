//! The texts of a few entries at a time.

use std::collections::VecDeque;

use pincer_store::{EntryText, Outlines, SessionId};

use crate::branch::Mark;
use crate::manifest::Warnings;

/// The bytes of the texts that are read together.
const TOGETHER: u64 = 1 << 20;
/// The most entries that are read together.
const MOST_TOGETHER: usize = 256;
/// The windows that are kept: calls of programs begin and end among each other.
const KEPT: usize = 4;
/// The longest text that is read. A longer one is named, and left where it is.
pub(crate) const MOST_BODY: u32 = 8 << 20;

/// The texts that were read last.
pub(crate) struct Windows<'s, S> {
    store: &'s S,
    session: &'s SessionId,
    kept: VecDeque<Vec<EntryText>>,
    /// The most bytes of texts that were in memory at once.
    pub most: u64,
}

impl<'s, S: Outlines> Windows<'s, S> {
    pub(crate) fn new(store: &'s S, session: &'s SessionId) -> Self {
        Self { store, session, kept: VecDeque::new(), most: 0 }
    }

    /// Returns the text of the entry at an index of `marks`; nothing if it is too long, or cannot be read.
    pub(crate) fn text(&mut self, marks: &[Mark], index: usize, warnings: &mut Warnings) -> Option<&EntryText> {
        let position = marks[index].position;
        if marks[index].bytes > MOST_BODY {
            return None;
        }
        let of = |window: &Vec<EntryText>| window.binary_search_by_key(&position, |text| text.entry.position).ok();
        let (window, place) = match self.kept.iter().enumerate().find_map(|(window, texts)| Some((window, of(texts)?)))
        {
            Some(found) => found,
            None => {
                self.read(marks, index, warnings);
                (0, self.kept.front().and_then(of)?)
            }
        };
        self.kept.get(window)?.get(place)
    }

    /// Reads an entry, and those behind it that are likely to be wanted next.
    fn read(&mut self, marks: &[Mark], index: usize, warnings: &mut Warnings) {
        let (mut bytes, mut end) = (0, index);
        for mark in &marks[index..] {
            bytes += u64::from(mark.bytes);
            let is_next = mark.is_used && mark.bytes <= MOST_BODY && bytes <= TOGETHER && end - index < MOST_TOGETHER;
            if end > index && !is_next {
                break;
            }
            end += 1;
        }
        let (first, last) = (marks[index].position, marks[end - 1].position);
        // Old ones go before new ones come.
        let size = |texts: &Vec<EntryText>| texts.iter().map(|text| text.entry.body.len() as u64).sum::<u64>();
        let read: u64 = marks[index..end].iter().map(|mark| u64::from(mark.bytes)).sum();
        while self.kept.len() >= KEPT
            || !self.kept.is_empty() && self.kept.iter().map(size).sum::<u64>() + read > KEPT as u64 * TOGETHER
        {
            self.kept.pop_back();
        }
        let texts = match self.store.entry_texts(self.session, first, last).wait() {
            Ok(texts) => texts,
            Err(_) if end - index > 1 => self.one_by_one(&marks[index..end], warnings),
            Err(error) => {
                warnings.add(format!("entry {first} cannot be read: {error}"));
                Vec::new()
            }
        };
        self.most = self.most.max(self.kept.iter().map(size).sum::<u64>() + size(&texts));
        self.kept.push_front(texts);
    }

    fn one_by_one(&self, marks: &[Mark], warnings: &mut Warnings) -> Vec<EntryText> {
        let mut found = Vec::new();
        for Mark { position, .. } in marks {
            match self.store.entry_texts(self.session, *position, *position).wait() {
                Ok(texts) => found.extend(texts),
                Err(error) => warnings.add(format!("entry {position} cannot be read: {error}")),
            }
        }
        found
    }
}
