//! One budget for the memory of all cells of a process.
//!
//! A cell has an [`Allotment`]: the bytes that it holds now, and the most that it may come to hold. A growth that does not fit
//! waits until others give memory back. Cells in the middle of a turn cannot be put aside, so they could all wait for each
//! other; the budget therefore grants a growth only if all of them could still come to their most, one after the other (the
//! banker's algorithm). The one that needs the least to get there never waits. Cells between two turns claim nothing.
//!
//! Users share: one has at most three quarters of what the others leave, except for the cell of theirs that needs the least.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// The memory that all cells of a process may have together. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    shortage: OnceLock<Box<dyn Fn(usize) + Send + Sync>>,
}

struct State {
    bytes: usize,
    used: usize,
    peak: usize,
    cells: HashMap<u64, Held>,
    /// The bytes of each user.
    users: HashMap<Arc<str>, usize>,
    /// Growths that do not fit yet, the oldest first.
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    /// No cell may come to hold more than this.
    largest: usize,
}

struct Held {
    user: Arc<str>,
    bytes: usize,
    most: usize,
    /// It is in the middle of a turn, or about to be: it may grow, and cannot be put aside.
    claims: bool,
}

impl Held {
    fn missing(&self) -> usize {
        self.most.saturating_sub(self.bytes)
    }
}

struct Waiting {
    cell: u64,
    to: usize,
    waker: Waker,
}

impl MemoryBudget {
    /// Makes a budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        let state = State {
            bytes,
            used: 0,
            peak: 0,
            cells: HashMap::new(),
            users: HashMap::new(),
            waiting: BTreeMap::new(),
            next: 0,
            largest: 0,
        };
        Self(Arc::new(Shared { state: Mutex::new(state), shortage: OnceLock::new() }))
    }

    /// Makes a budget that everything fits into.
    pub fn unlimited() -> Self {
        Self::new(usize::MAX / 4)
    }

    /// Sets the function that is told, on any thread, how many bytes growths wait for. It is told again after each release until
    /// nothing waits, and must not block. Only the first function counts.
    pub fn on_shortage(&self, told: impl Fn(usize) + Send + Sync + 'static) {
        let _ = self.0.shortage.set(Box::new(told));
    }

    /// Returns how large it is.
    pub fn bytes(&self) -> usize {
        self.0.lock().bytes
    }

    /// Returns how much of it is taken.
    pub fn used(&self) -> usize {
        self.0.lock().used
    }

    /// Returns the most that was ever taken.
    pub fn peak(&self) -> usize {
        self.0.lock().peak
    }

    /// Returns how many bytes growths wait for; 0 if none waits.
    pub fn wanted(&self) -> usize {
        self.0.lock().wanted()
    }

    /// Opens an allotment without any bytes. It counts `host` bytes for buffers besides what it is grown to, and its cell may
    /// come to have `most` bytes of memory. With 0 of both it only has what is handed over to it.
    pub fn open(&self, user: &Arc<str>, host: usize, most: usize) -> Allotment {
        let mut state = self.0.lock();
        let number = state.next_number();
        let most = host.saturating_add(most).min(state.bytes);
        state.largest = state.largest.max(most);
        state.cells.insert(number, Held { user: Arc::clone(user), bytes: 0, most, claims: false });
        drop(state);
        Allotment { budget: self.clone(), number, host, most }
    }
}

/// The part of a [`MemoryBudget`] that one cell has. Dropping it gives all of it back.
pub struct Allotment {
    budget: MemoryBudget,
    number: u64,
    host: usize,
    most: usize,
}

impl Allotment {
    /// Returns the budget that this is a part of.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// Waits until there are so many bytes for the memory of the cell. One that has more keeps it.
    pub fn grow(&mut self, bytes: usize) -> Growth<'_> {
        let to = self.host.saturating_add(bytes);
        Growth { allotment: self, to, ticket: None }
    }

    /// Grows if that is possible on the spot.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> bool {
        let to = self.host.saturating_add(bytes);
        self.budget.0.lock().grow(self.number, to)
    }

    /// Counts so many bytes more for buffers, from the next time that it grows.
    pub(crate) fn hold(&mut self, bytes: usize) {
        self.host = self.host.saturating_add(bytes);
    }

    /// Hands bytes that it has for buffers over to another allotment, at once.
    pub(crate) fn hand_over(&mut self, bytes: usize, to: &mut Allotment) {
        self.host = self.host.saturating_sub(bytes);
        self.budget.0.change(|state| state.hand_over(self.number, to.number, bytes));
    }

    /// Claims what the cell may need in its next turn. Returns `false` if that could leave cells waiting for each other; then the
    /// cell should be put aside. It may run all the same if it cannot be: its growth waits until its deadline at worst.
    pub fn claim(&mut self) -> bool {
        self.budget.0.lock().claim(self.number)
    }

    /// Gives up the claim of the turn before, but not the bytes.
    pub(crate) fn rest(&mut self) {
        self.budget.0.change(|state| state.set_claim(self.number, false));
    }

    /// Returns whether so many bytes would fit if there were no other cell.
    pub(crate) fn could_ever_have(&self, bytes: usize) -> bool {
        self.host.saturating_add(bytes) <= self.most
    }

    /// Counts `bytes` instead of the memory of the cell, which is gone, and its buffers: that is what was made of it.
    pub fn shrink(&mut self, bytes: usize) {
        self.budget.0.change(|state| {
            state.shrink(self.number, bytes);
            state.set_claim(self.number, false);
        });
    }
}

impl Drop for Allotment {
    fn drop(&mut self) {
        self.budget.0.change(|state| {
            state.shrink(self.number, 0);
            state.cells.remove(&self.number);
        });
    }
}

/// A growth that may have to wait. Dropping it takes the request back.
#[must_use]
pub struct Growth<'a> {
    allotment: &'a Allotment,
    to: usize,
    ticket: Option<u64>,
}

impl Growth<'_> {
    /// Returns whether it is granted; if it is not, `waker` is told when that changes.
    fn is_granted(&mut self, waker: &Waker) -> bool {
        let shared = &self.allotment.budget.0;
        let mut state = shared.lock();
        let Some(ticket) = self.ticket else {
            if state.grow(self.allotment.number, self.to) {
                return true;
            }
            let ticket = state.next_number();
            let waiting = Waiting { cell: self.allotment.number, to: self.to, waker: waker.clone() };
            state.waiting.insert(ticket, waiting);
            self.ticket = Some(ticket);
            let wanted = state.wanted();
            drop(state);
            shared.tell(wanted);
            return false;
        };
        match state.waiting.get_mut(&ticket) {
            Some(waiting) => {
                waiting.waker.clone_from(waker);
                false
            }
            None => {
                self.ticket = None;
                true
            }
        }
    }

    /// Waits on this thread, for at most `time`. Returns whether it is granted.
    pub(crate) fn wait(&mut self, time: Duration) -> bool {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        if self.is_granted(&waker) {
            return true;
        }
        thread::park_timeout(time);
        self.is_granted(&waker)
    }
}

impl Future for Growth<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.is_granted(context.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

impl Drop for Growth<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            // Others of the same user may have waited only behind this one.
            self.allotment.budget.0.change(|state| drop(state.waiting.remove(&ticket)));
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Shared {
    /// Numbers that no panic can leave half-changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something after which growths may fit that did not fit before.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        if state.waiting.is_empty() {
            return;
        }
        let granted = state.serve();
        let wanted = state.wanted();
        drop(state);
        granted.into_iter().for_each(Waker::wake);
        self.tell(wanted);
    }

    fn tell(&self, wanted: usize) {
        if let (1.., Some(told)) = (wanted, self.shortage.get()) {
            told(wanted);
        }
    }
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn wanted(&self) -> usize {
        let held = |cell: &u64| self.cells.get(cell).map_or(0, |held| held.bytes);
        self.waiting.values().map(|waiting| waiting.to.saturating_sub(held(&waiting.cell))).sum()
    }

    /// Grants a growth that need not wait.
    fn grow(&mut self, number: u64, to: usize) -> bool {
        let Some(cell) = self.cells.get(&number) else { return false };
        let is_user = |waiting: &Waiting| self.cells.get(&waiting.cell).is_some_and(|other| other.user == cell.user);
        let is_behind = !self.waiting.is_empty() && self.waiting.values().any(is_user);
        if to > cell.bytes && (is_behind && !self.needs_least(cell) || !self.may_have(number, cell, to)) {
            return false;
        }
        self.take(number, to);
        true
    }

    fn take(&mut self, number: u64, to: usize) {
        let Some(cell) = self.cells.get_mut(&number) else { return };
        let more = to.saturating_sub(cell.bytes);
        cell.bytes += more;
        cell.claims = true;
        self.used += more;
        self.peak = self.peak.max(self.used);
        match self.users.get_mut(&cell.user) {
            Some(of_user) => *of_user += more,
            None => drop(self.users.insert(Arc::clone(&cell.user), more)),
        }
    }

    fn hand_over(&mut self, from: u64, to: u64, bytes: usize) {
        let of = |number| self.cells.get(&number).map_or(0, |cell: &Held| cell.bytes);
        let (left, more) = (of(from).saturating_sub(bytes), of(to) + bytes.min(of(from)));
        self.shrink(from, left);
        self.take(to, more);
        self.set_claim(to, false);
    }

    fn shrink(&mut self, number: u64, to: usize) {
        let Some(cell) = self.cells.get_mut(&number) else { return };
        let less = cell.bytes.saturating_sub(to);
        cell.bytes -= less;
        self.used -= less;
        if let Some(of_user) = self.users.get_mut(&cell.user) {
            *of_user -= less;
            if *of_user == 0 {
                self.users.remove(&cell.user);
            }
        }
    }

    fn set_claim(&mut self, number: u64, claims: bool) {
        if let Some(cell) = self.cells.get_mut(&number) {
            cell.claims = claims;
        }
    }

    fn claim(&mut self, number: u64) -> bool {
        let Some(cell) = self.cells.get(&number) else { return false };
        let may_claim = cell.claims || self.is_safe(number, cell.bytes, self.bytes - self.used);
        self.set_claim(number, may_claim);
        may_claim
    }

    /// Returns the cells of a user: what needs nothing is no cell.
    fn cells_of(&self, user: &str) -> impl Iterator<Item = &Held> {
        self.cells.values().filter(move |other| &*other.user == user && other.most > 0)
    }

    /// Whether no other cell of its user needs less to come to its most.
    fn needs_least(&self, cell: &Held) -> bool {
        self.cells_of(&cell.user).map(Held::missing).min().is_none_or(|least| cell.missing() <= least)
    }

    /// Whether the user of a cell may have so many bytes more.
    fn is_within_share(&self, cell: &Held, more: usize) -> bool {
        let of_user = self.users.get(&cell.user).copied().unwrap_or(0);
        of_user + more <= (self.bytes - self.used + of_user) / 4 * 3 || self.needs_least(cell)
    }

    fn may_have(&self, number: u64, cell: &Held, to: usize) -> bool {
        let more = to - cell.bytes;
        let Some(free) = (self.bytes - self.used).checked_sub(more) else { return false };
        self.is_within_share(cell, more) && self.is_safe(number, to, free)
    }

    /// Whether a cell waits for its user's share until another cell of that user, which does not run, gives memory back.
    fn is_held_up(&self, cell: &Held) -> bool {
        let least = self.cells_of(&cell.user).min_by_key(|other| other.missing());
        !self.is_within_share(cell, 1) && least.is_some_and(|least| !least.claims)
    }

    /// Whether all cells with a claim could still come to their most, one after the other, if this one had so many bytes. Those
    /// that come after it in that order are as well off as without it.
    fn is_safe(&self, number: u64, to: usize, mut free: usize) -> bool {
        // Any of them could at once.
        if free >= self.largest {
            return true;
        }
        // Cells that do not run are not counted on to give anything back.
        let (mut claiming, mut fixed) = (Vec::new(), 0);
        for (other, cell) in &self.cells {
            if *other == number {
                claiming.push((cell.most, to, true));
            } else if cell.claims && !self.is_held_up(cell) {
                claiming.push((cell.most, cell.bytes, false));
            } else {
                fixed += cell.bytes;
            }
        }
        let there_is = self.bytes - fixed;
        let missing = |(most, bytes, _): &(usize, usize, bool)| (*most).min(there_is).saturating_sub(*bytes);
        claiming.sort_unstable_by_key(|cell| (missing(cell), !cell.2));
        for cell in claiming {
            if missing(&cell) > free {
                return false;
            }
            let (_, bytes, is_it) = cell;
            if is_it {
                return true;
            }
            free += bytes;
        }
        true
    }

    /// Grants what fits now, in order, and returns the wakers of that. A user's growth that does not fit holds up those that the
    /// user asked for later, except for the cell that needs the least, and nothing of other users.
    fn serve(&mut self) -> Vec<Waker> {
        let (mut granted, mut held_up) = (Vec::new(), Vec::<Arc<str>>::new());
        let tickets: Vec<u64> = self.waiting.keys().copied().collect();
        for ticket in tickets {
            let Some(Waiting { cell: number, to, .. }) = self.waiting.get(&ticket) else { continue };
            let (number, to) = (*number, *to);
            let Some(cell) = self.cells.get(&number) else { continue };
            let is_next = !held_up.contains(&cell.user) || self.needs_least(cell);
            if is_next && (to <= cell.bytes || self.may_have(number, cell, to)) {
                self.take(number, to);
                granted.extend(self.waiting.remove(&ticket).map(|waiting| waiting.waker));
            } else if !held_up.contains(&cell.user) {
                held_up.push(Arc::clone(&cell.user));
            }
        }
        granted
    }
}

#[cfg(test)]
mod tests;
