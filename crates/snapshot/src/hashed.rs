//! Checkpoints of a large cell: the pages that changed, found with a hash of each.
//!
//! To compare and compress a heap of 20 MB takes some 50 ms, which is too long to do before each call. So a large heap is
//! written once, as the **base**, and each further checkpoint adds a **delta**.
//!
//! # How changed pages are found
//!
//! A 128-bit hash is kept for each page. To hash 24 MB takes 1.2 ms with XXH3 (`twox-hash`, which uses AVX2 where the CPU has
//! it; `xxhash-rust` with the default target features: 1.5 ms). To keep a copy of memory and compare it takes 1.8 ms, and
//! the copy. To let the kernel track writes (`userfaultfd`) needs rights that most containers do not give.
//!
//! # Which deltas are merged
//!
//! A chain has at most [`MAX_WHOLE`] deltas. A new delta takes over what is left of the one before it if most of that one has
//! changed again. If the chain is full, it takes over the newest one in any case, and those before it as long as that at most
//! doubles it. So among 160 checkpoints of which each changes other pages, a page is written three times at most. If each
//! eighth delta took over all that changed since the base, it would be written up to twenty times.
//!
//! # Patches
//!
//! From one call to the next mostly the same pages change, and few words in each. So the pages of the newest delta are copied,
//! and while no others change, a [patch] of their words follows that delta, each in the place of the one before. Most of the
//! time that a checkpoint takes beside hashing is then saved: 0.2 ms to compress and store some 40 pages.
//!
//! # When a chain ends
//!
//! When more than half of the base's pages have changed, or the deltas have more than half of its bytes, a new base is
//! cheaper.

use twox_hash::XxHash3_128;

use crate::PAGE;
use crate::checkpoints::{Checkpoint, Link, MAX_DELTAS};
use crate::copies::Copies;
use crate::difference::{self, Run, ZERO_PAGE, page};
use crate::format::{DELTA, Header, Source, begin_after, write_pages};
use crate::parts;
use crate::patch::{self, append_page};

/// One less than there can be, for a patch may follow.
const MAX_WHOLE: usize = MAX_DELTAS - 1;
/// The largest patch. A larger change is shorter as compressed pages.
const MAX_PATCH: usize = 16 << 10;
/// The most pages of which copies are kept.
const MAX_COPIES: usize = 256;
/// The pages that are hashed at a time.
const PART_PAGES: usize = 64;

/// The chain that has been written of a large cell since its last snapshot.
#[derive(Debug)]
pub(crate) struct Hashed {
    base: Link,
    deltas: Vec<Link>,
    pages: Pages,
    /// The pages of the newest delta, if they are not too many.
    copies: Option<Copies>,
    /// A patch follows the newest delta.
    is_patched: bool,
}

impl Hashed {
    /// Begins a chain with a snapshot. The hashes in `pages` are those of the memory it was made of.
    pub(crate) fn new(base: Link, mut pages: Pages) -> Self {
        pages.links.fill(BASE);
        Self { base, deltas: Vec::new(), pages, copies: None, is_patched: false }
    }

    /// Makes the next delta, or returns `None` if a new base is cheaper or the chain would be larger than `limit`. The
    /// hashes are those of the current memory in any case.
    pub(crate) fn delta(&mut self, header: &Header, source: Source<'_>, limit: usize) -> Option<Checkpoint> {
        let before = self.deltas.len();
        self.pages.update(source.memory, before as u8 + 1);
        if 2 * self.delta_bytes() > self.base.bytes {
            return None;
        }
        if let Some(bytes) = self.patch(header, source, limit) {
            let replaces = usize::from(self.is_patched);
            self.is_patched = true;
            return Some(Checkpoint::Delta { bytes, replaces });
        }
        let counts = self.pages.counts();
        let changed: usize = counts[1..].iter().sum();
        if 2 * changed > self.base.pages {
            return None;
        }
        let kept = self.kept(&counts);
        self.deltas.truncate(kept);
        let link = kept as u8 + 1;
        let runs = self.pages.merge(link);
        let room = limit.checked_sub(self.base.bytes + self.delta_bytes())?;
        let out = begin_after(&DELTA, &self.deltas.last().unwrap_or(&self.base).checksum);
        let bytes = write_pages(out, header, &runs, source, room).ok()?;
        let delta = Link::of(&bytes, &runs);
        self.copies = (delta.pages <= MAX_COPIES).then(|| Copies::of(source.memory, runs));
        self.deltas.push(delta);
        let replaces = before - kept + usize::from(self.is_patched);
        self.is_patched = false;
        Some(Checkpoint::Delta { bytes, replaces })
    }

    /// Makes a patch of what changed since the newest delta, if it has all those pages and few of their words changed.
    fn patch(&self, header: &Header, source: Source<'_>, limit: usize) -> Option<Vec<u8>> {
        let mut copy_of = self.copies.as_ref()?.find();
        let mut changes = Vec::with_capacity(PAGE);
        let runs = self.pages.of_link(self.deltas.len() as u8 + 1);
        for index in difference::indexes(&runs) {
            append_page(page(source.memory, index), copy_of(index)?, &mut changes);
            if changes.len() > MAX_PATCH {
                return None;
            }
        }
        let room = limit.checked_sub(self.base.bytes + self.delta_bytes())?;
        patch::write(self.deltas.last()?, header, &runs, &changes, room)
    }

    /// Gives up the chain, but not the hashes, which are those of the current memory.
    pub(crate) fn into_pages(self) -> Pages {
        self.pages
    }

    /// Returns whether the memory can have grown from that of the chain.
    pub(crate) fn can_go_on(&self, memory: &[u8], first: usize) -> bool {
        self.pages.can_become(memory, first)
    }

    /// Returns how many deltas the next one leaves as they are. `counts` tells how many pages each link has that no later one
    /// has; the next delta is the last one.
    fn kept(&self, counts: &[usize; MAX_DELTAS + 2]) -> usize {
        let is_full = self.deltas.len() == MAX_WHOLE;
        let mut kept = self.deltas.len();
        let mut pages = counts[kept + 1];
        for delta in self.deltas.iter().rev() {
            let left = counts[kept];
            if kept < MAX_WHOLE && 2 * left > delta.pages && !(is_full && left <= pages) {
                break;
            }
            pages += left;
            kept -= 1;
        }
        kept
    }

    fn delta_bytes(&self) -> usize {
        self.deltas.iter().map(|delta| delta.bytes).sum()
    }
}

/// The number of the base among the links. That of the first delta is 1.
const BASE: u8 = 0;

/// The state of each page in a chain, from the stack pointer on.
#[derive(Debug)]
pub(crate) struct Pages {
    /// The hash has to tell change and nothing more, and the guest sees neither it nor the seed. If two contents of a page
    /// collided, the guest's own state would be stored wrongly; nothing outside its sandbox depends on that.
    seed: u64,
    first: usize,
    hashes: Vec<u128>,
    /// The newest link that has the page.
    links: Vec<u8>,
}

impl Pages {
    /// Hashes `memory` from page `first` on. Returns `None` if the system has no randomness: then there are no deltas.
    pub(crate) fn of(memory: &[u8], first: usize) -> Option<Self> {
        let mut pages = Self { seed: getrandom::u64().ok()?, first, hashes: Vec::new(), links: Vec::new() };
        pages.update(memory, BASE);
        Some(pages)
    }

    /// Returns whether these can be the pages of `memory` at an earlier time. WebAssembly memory never shrinks.
    fn can_become(&self, memory: &[u8], first: usize) -> bool {
        self.first == first && self.first + self.hashes.len() <= memory.len() / PAGE
    }

    /// Hashes `memory` and notes the pages that have changed as those of `link`.
    fn update(&mut self, memory: &[u8], link: u8) {
        let count = (memory.len() / PAGE).saturating_sub(self.first);
        if count > self.hashes.len() {
            // The base holds memory that has grown since, in that a restored cell finds zeros there.
            self.hashes.resize(count, XxHash3_128::oneshot_with_seed(self.seed, &ZERO_PAGE));
            self.links.resize(count, BASE);
        }
        let seed = self.seed;
        let known = self.hashes.chunks_mut(PART_PAGES).zip(self.links.chunks_mut(PART_PAGES));
        let memory = memory.get(self.first * PAGE..).unwrap_or_default();
        parts::each(memory, memory.chunks(PART_PAGES * PAGE).zip(known), |(memory, (hashes, links))| {
            for (page, (hash, newest)) in memory.chunks_exact(PAGE).zip(hashes.iter_mut().zip(links)) {
                let now = XxHash3_128::oneshot_with_seed(seed, page);
                if now != *hash {
                    (*hash, *newest) = (now, link);
                }
            }
        });
    }

    /// Counts the pages by the newest link that has them.
    fn counts(&self) -> [usize; MAX_DELTAS + 2] {
        let mut counts = [0; MAX_DELTAS + 2];
        self.links.iter().for_each(|link| counts[usize::from(*link)] += 1);
        counts
    }

    /// Moves the pages of all links after `link` to it, and returns the pages that it then has.
    fn merge(&mut self, link: u8) -> Vec<Run> {
        self.links.iter_mut().for_each(|newest| *newest = link.min(*newest));
        self.of_link(link)
    }

    /// Returns the pages of which `link` is the newest.
    fn of_link(&self, link: u8) -> Vec<Run> {
        let pages = self.links.iter().enumerate().filter(|(_, newest)| **newest == link);
        difference::runs(pages.map(|(index, _)| self.first + index))
    }
}
