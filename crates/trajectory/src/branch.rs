//! The branch in use, and the order of what happened on it. Of each entry only a few numbers are in memory.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::num::{NonZeroU32, NonZeroU64};

use pincer_store::{EntryKind, EntryOutline, EntryPage, Millis, Outlines, Session, StoreError};

use crate::manifest::Warnings;

/// The entries whose outlines are read at once.
const PAGE: u32 = 1000;
/// The most entries that room is made for at once: a damaged session may claim any number.
const MOST_RESERVED: u32 = 1 << 20;

/// An entry, as far as the order needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub position: u32,
    pub parent: Option<NonZeroU32>,
    pub is_nested: bool,
    pub is_used: bool,
    /// The bytes of its body.
    pub bytes: u32,
    /// The digest of the call that it belongs to.
    call: Option<NonZeroU64>,
    /// The digest of its run.
    run: Option<NonZeroU64>,
    /// How long it took, if it is a call of a program.
    took_ms: u32,
    /// When it began, if it is a call of a program.
    began_at: Millis,
    /// Its place in time: no entry comes before one that is above it on the branch.
    at: Millis,
}

/// An event at a point of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// An entry as a whole.
    Entry,
    /// The beginning of a call that a program made.
    Began,
    /// Its end.
    Ended,
    /// A question, by its index.
    Asked,
    /// The answer to it.
    Decided,
}

/// A point in time. There are two for each call of a program, so it is small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub at: Millis,
    /// Decides between points at the same time.
    order: u32,
    /// The index of a mark or of a question, and below it what is told.
    packed: u32,
}

/// The bits for what is told.
const WHAT_BITS: u32 = 3;

impl Point {
    fn new(at: Millis, order: u32, index: usize, what: What) -> Self {
        // A session has fewer entries than these bits count: a position is as long, and each entry takes more than eight bytes.
        Self { at, order, packed: (index as u32) << WHAT_BITS | what as u32 }
    }

    /// Returns the index of a mark, or of a question.
    pub(crate) fn index(self) -> u32 {
        self.packed >> WHAT_BITS
    }

    pub(crate) fn what(self) -> What {
        match self.packed & ((1 << WHAT_BITS) - 1) {
            0 => What::Entry,
            1 => What::Began,
            2 => What::Ended,
            3 => What::Asked,
            _ => What::Decided,
        }
    }
}

/// The entries of a session.
pub(crate) struct Outline {
    pub marks: Vec<Mark>,
    /// The last entry of the branch in use.
    pub leaf: Option<u32>,
    /// The last mark in use of each run, by the digest of its id.
    pub runs: HashMap<NonZeroU64, u32>,
}

/// Reads the outline of a session, as it is when this begins. A row that cannot be read is passed over.
pub(crate) fn read<S: Outlines>(store: &S, session: &Session, warnings: &mut Warnings) -> Result<Outline, StoreError> {
    let mut marks: Vec<Mark> = Vec::with_capacity(session.entries.min(MOST_RESERVED) as usize);
    let mut after = 0;
    while after < session.entries {
        let limit = PAGE.min(session.entries - after);
        let (page, end) = match store.outline(&session.id, EntryPage { after, limit }).wait() {
            Ok(page) => {
                let is_last = page.len() < limit as usize;
                let end = page.last().map_or(after, |last| last.position);
                (page, if is_last { session.entries } else { end })
            }
            Err(error) if is_fatal(&error) => return Err(error),
            Err(_) => (one_by_one(store, session, after, limit, warnings), after + limit),
        };
        for outline in page.iter().filter(|outline| outline.position <= session.entries) {
            if outline.kind.is_none() {
                warnings.add(format!("entry {} is of a kind that is not known", outline.position));
            }
            marks.push(mark(outline));
        }
        after = end;
    }
    let missing = u64::from(session.entries).saturating_sub(marks.len() as u64);
    if missing > 0 {
        warnings.add(format!("{missing} of {} entries are not in the store", session.entries));
    }
    let mut outline = Outline { marks, leaf: session.leaf, runs: HashMap::new() };
    outline.find_branch(warnings);
    outline.runs = last_of_runs(&outline.marks);
    Ok(outline)
}

fn is_fatal(error: &StoreError) -> bool {
    matches!(error, StoreError::Missing { .. })
}

/// Reads the rows of a page one by one, after reading them together has failed.
fn one_by_one<S: Outlines>(
    store: &S,
    session: &Session,
    after: u32,
    count: u32,
    warnings: &mut Warnings,
) -> Vec<EntryOutline> {
    let mut found = Vec::new();
    for position in after + 1..=after.saturating_add(count) {
        match store.outline(&session.id, EntryPage { after: position - 1, limit: 1 }).wait() {
            Ok(page) => found.extend(page.into_iter().filter(|outline| outline.position == position)),
            Err(error) => warnings.add(format!("entry {position} cannot be read: {error}")),
        }
    }
    found
}

fn mark(outline: &EntryOutline) -> Mark {
    let took = outline.took_ms.unwrap_or(0);
    Mark {
        position: outline.position,
        parent: outline.parent.and_then(NonZeroU32::new),
        is_nested: outline.kind == Some(EntryKind::NestedCall),
        is_used: false,
        bytes: u32::try_from(outline.bytes).unwrap_or(u32::MAX),
        call: outline.call.as_deref().map(digest),
        run: outline.run.as_ref().map(|run| digest(run.as_str())),
        took_ms: u32::try_from(took.max(0)).unwrap_or(u32::MAX),
        began_at: outline.began_at.unwrap_or_else(|| outline.at.saturating_sub(took)),
        at: outline.at,
    }
}

/// Returns a number for a text that is seldom that of another one.
pub(crate) fn digest(text: &str) -> NonZeroU64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN)
}

/// Returns the last entry in use of each run, by the digest of its id. The ids themselves would take more than the entries.
fn last_of_runs(marks: &[Mark]) -> HashMap<NonZeroU64, u32> {
    let used = (0..).zip(marks).filter(|(_, mark)| mark.is_used && !mark.is_nested);
    used.filter_map(|(index, mark)| Some((mark.run?, index))).collect()
}

impl Outline {
    fn index_of(&self, position: u32) -> Option<usize> {
        self.marks.binary_search_by_key(&position, |mark| mark.position).ok()
    }

    /// Returns the index of the last entry up to a position that may be on a branch.
    fn last_until(&self, position: u32) -> Option<usize> {
        let end = self.marks.partition_point(|mark| mark.position <= position);
        self.marks[..end].iter().rposition(|mark| !mark.is_nested)
    }

    /// Marks the entries of the branch in use. Where a parent is missing, the branch goes on with the entry before.
    fn find_branch(&mut self, warnings: &mut Warnings) {
        let mut next = match self.leaf {
            Some(leaf) => self.index_of(leaf).or_else(|| {
                warnings.add(format!(
                    "entry {leaf}, the last one of the branch, is missing: the branch ends with the one before"
                ));
                self.last_until(leaf)
            }),
            None if self.marks.is_empty() => None,
            None => {
                warnings.add("it is not known with which entry the branch ends: the last one is taken");
                self.last_until(u32::MAX)
            }
        };
        self.leaf = next.map(|index| self.marks[index].position);
        while let Some(index) = next {
            self.marks[index].is_used = true;
            let Mark { position, parent, .. } = self.marks[index];
            let Some(parent) = parent.map(NonZeroU32::get) else { break };
            next = match self.index_of(parent) {
                // A parent comes before its children, so no cycle is longer than this.
                Some(found) if parent < position && !self.marks[found].is_nested => Some(found),
                found => {
                    let why = match found {
                        None => "is missing",
                        Some(_) if parent >= position => "does not come before it, so the entries form a circle",
                        Some(_) => "is a call of a program",
                    };
                    warnings.add(format!(
                        "the parent of entry {position}, entry {parent}, {why}: the branch goes on with the entry before"
                    ));
                    position.checked_sub(1).and_then(|before| self.last_until(before))
                }
            };
        }
        for index in 0..self.marks.len() {
            let Mark { is_nested, parent, .. } = self.marks[index];
            if is_nested {
                let reply = parent.and_then(|parent| self.index_of(parent.get()));
                self.marks[index].is_used =
                    reply.is_some_and(|reply| !self.marks[reply].is_nested && self.marks[reply].is_used);
            }
        }
    }

    /// Returns what happened, in its order: by the time, and within a millisecond as one thing followed from the other.
    ///
    /// The calls of a program are stored with the result of the call that ran it. They happened before.
    pub(crate) fn points(&mut self, questions: &[(Option<Millis>, Option<Millis>)]) -> Vec<Point> {
        let used = self.marks.iter().filter(|mark| mark.is_used);
        let count: usize = used.map(|mark| if mark.is_nested { 2 } else { 1 }).sum();
        let mut points = Vec::with_capacity(count + 2 * questions.len());
        let (mut order, mut latest, mut index) = (0, Millis::MIN, 0);
        while index < self.marks.len() {
            let children = self.children_behind(index);
            let mark = self.marks[index];
            let end = latest.max(mark.at);
            for child in children.clone().chain((mark.is_nested).then_some(index)) {
                if self.marks[child].is_used {
                    self.add_nested(child, (latest, end), &mut order, &mut points);
                }
            }
            if mark.is_used && !mark.is_nested {
                latest = end;
                self.marks[index].at = end;
                points.push(Point::new(end, order, index, What::Entry));
                order += 1;
            }
            index = children.end.max(index + 1);
        }
        for (number, (asked, decided)) in (0..).zip(questions) {
            let at = |at: Option<Millis>, what, order| at.map(|at| Point::new(at, order, number, what));
            points.extend(at(*asked, What::Asked, u32::MAX - 1));
            points.extend(at(*decided, What::Decided, u32::MAX));
        }
        points.sort_unstable_by_key(|point| (point.at, point.order, point.packed));
        points
    }

    /// Returns the calls of programs that were stored with the result at this index.
    fn children_behind(&self, index: usize) -> std::ops::Range<usize> {
        let result = &self.marks[index];
        let first = index + 1;
        if result.is_nested || result.call.is_none() {
            return first..first;
        }
        let is_child = |mark: &&Mark| mark.is_nested && mark.call == result.call;
        let count = self.marks[first..].iter().take_while(is_child).count();
        first..first + count
    }

    /// Adds a call that a program made. It lies between the reply that ran the program and the time at which it was stored.
    fn add_nested(&self, index: usize, (latest, end): (Millis, Millis), order: &mut u32, points: &mut Vec<Point>) {
        let Mark { parent, began_at, took_ms, .. } = self.marks[index];
        let reply = parent.and_then(|parent| self.index_of(parent.get())).map_or(latest, |reply| self.marks[reply].at);
        let (low, high) = (reply.min(end), end.max(reply));
        let began = began_at.clamp(low, high);
        let ended = began.saturating_add(took_ms.into()).clamp(began, high);
        points.push(Point::new(began, *order, index, What::Began));
        points.push(Point::new(ended, *order + 1, index, What::Ended));
        *order += 2;
    }
}
