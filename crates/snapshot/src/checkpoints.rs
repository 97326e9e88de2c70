//! Checkpoints of a cell that goes on: a snapshot, then what changed.
//!
//! To make and store a whole snapshot before each call takes too long. So a cell is written once, as the **base**, and each
//! further checkpoint is a **delta** that goes with it. The base and its deltas are a **chain**, from which
//! [`read_chain`](crate::read_chain) makes the cell again. How a change is found depends on the size of the cell: a small one is
//! compared with a [copy](crate::copied), a large one by [hashes](crate::hashed).

use crate::PAGE;
use crate::copied::Copied;
use crate::difference::{self, Dictionary, Effort, Run};
use crate::format::{Checksum, Header, SNAPSHOT, Source, TooLarge, begin, write_pages};
use crate::hashed::{Hashed, Pages};

/// The most deltas that follow a snapshot.
pub const MAX_DELTAS: usize = 8;

/// One checkpoint, to be stored with those before it.
#[derive(Debug, PartialEq, Eq)]
pub enum Checkpoint {
    /// A snapshot. It makes all checkpoints before it needless.
    Full(Vec<u8>),
    /// What changed.
    Delta {
        /// The delta. [`read_chain`](crate::read_chain) needs it with the snapshot and the other deltas before it.
        bytes: Vec<u8>,
        /// How many of the deltas before it, counted from the newest, it makes needless. They must be left out: it does not
        /// follow them.
        replaces: usize,
    },
}

/// Makes the checkpoints of one cell.
#[derive(Debug)]
pub struct Checkpoints {
    copied_pages: usize,
    chain: Option<Tracked>,
}

/// The chain that has been written of a cell since its last snapshot.
#[derive(Debug)]
enum Tracked {
    Copied(Copied),
    Hashed(Hashed),
}

/// A snapshot or delta that has been written.
#[derive(Debug)]
pub(crate) struct Link {
    pub checksum: Checksum,
    pub bytes: usize,
    pub pages: usize,
}

impl Link {
    pub(crate) fn of(bytes: &[u8], runs: &[Run]) -> Self {
        let checksum = bytes.last_chunk().copied().unwrap_or_default();
        Self { checksum, bytes: bytes.len(), pages: runs.iter().map(|run| run.count as usize).sum() }
    }
}

impl Checkpoints {
    /// Makes a start with no chain. If a snapshot holds at most `copied_pages` pages, a copy of them is kept; of more there
    /// are hashes.
    pub fn new(copied_pages: usize) -> Self {
        Self { copied_pages, chain: None }
    }

    /// Forgets what has been written: the next checkpoint is a snapshot.
    pub fn forget(&mut self) {
        self.chain = None;
    }

    /// Makes the next checkpoint. A snapshot with its deltas has at most `limit` bytes. After an error the next checkpoint is
    /// a snapshot.
    pub fn next(
        &mut self,
        header: &Header,
        memory: &[u8],
        image: &[u8],
        dictionary: &Dictionary,
        limit: usize,
    ) -> Result<Checkpoint, TooLarge> {
        let source = Source { memory, image, dictionary, effort: Effort::Little };
        let first = header.stack_pointer as usize / PAGE;
        let mut pages = None;
        if let Some(mut chain) = self.chain.take().filter(|chain| chain.can_go_on(memory, first)) {
            if let Some(delta) = chain.delta(header, source, limit) {
                self.chain = Some(chain);
                return Ok(delta);
            }
            pages = chain.into_pages();
        }
        let runs = difference::changed(memory, image, first);
        let bytes = write_pages(begin(&SNAPSHOT), header, &runs, source, limit)?;
        let base = Link::of(&bytes, &runs);
        self.chain = if base.pages <= self.copied_pages {
            Some(Tracked::Copied(Copied::new(base, memory, first, runs)))
        } else {
            pages.or_else(|| Pages::of(memory, first)).map(|pages| Tracked::Hashed(Hashed::new(base, pages)))
        };
        Ok(Checkpoint::Full(bytes))
    }
}

impl Tracked {
    fn can_go_on(&self, memory: &[u8], first: usize) -> bool {
        match self {
            Self::Copied(chain) => chain.can_go_on(memory, first),
            Self::Hashed(chain) => chain.can_go_on(memory, first),
        }
    }

    fn delta(&mut self, header: &Header, source: Source<'_>, limit: usize) -> Option<Checkpoint> {
        match self {
            Self::Copied(chain) => chain.patch(header, source, limit),
            Self::Hashed(chain) => chain.delta(header, source, limit),
        }
    }

    /// Returns the hashes of the current memory, if there are any.
    fn into_pages(self) -> Option<Pages> {
        match self {
            Self::Copied(_) => None,
            Self::Hashed(chain) => Some(chain.into_pages()),
        }
    }
}
