//! Places for live cells, and the order in which users get them.
//!
//! There are as many places as the engine can have cells. A program that only waits, for a timer, a call or a person, **rests**:
//! it keeps its place until another program needs it. When its place is wanted, its cell becomes bytes until there is something
//! to tell the program. Users take turns, see `round_robin.rs`, and one of them never has all places: a program that computes cannot be
//! put aside, and the next user must not wait for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::round_robin::{Party, Rota};

/// With fewer places than this, one user may have all of them: they belong to a command, not to a server.
const SHARED_FROM: usize = 8;

/// All places for live cells. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Places(Arc<Mutex<State>>);

struct State {
    total: usize,
    free: usize,
    /// How many each user has.
    held: HashMap<Arc<str>, usize>,
    waiting: Rota<Waiting>,
    /// How fast the requests of each user in the queue are served.
    paces: HashMap<Arc<str>, Pace>,
    /// How many requests in the queue have been given up.
    gone: usize,
    /// The places of programs that rest, the longest first.
    resting: BTreeMap<u64, Resting>,
    next_rest: u64,
    /// Places that were asked for and are not free yet.
    leaving: usize,
    /// The memory of the cells in them.
    leaving_bytes: usize,
}

struct Waiting {
    user: Arc<str>,
    tell: oneshot::Sender<Place>,
}

struct Resting {
    user: Arc<str>,
    wanted: CancellationToken,
    /// The memory of the cell.
    bytes: usize,
}

/// A place for one live cell. It is free again when this is dropped.
pub(crate) struct Place {
    places: Places,
    user: Arc<str>,
    rest: Rest,
}

enum Rest {
    Works,
    Rests { number: u64, wanted: CancellationToken, bytes: usize },
}

impl Places {
    pub(crate) fn new(total: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            total,
            free: total,
            held: HashMap::new(),
            waiting: Rota::default(),
            paces: HashMap::new(),
            gone: 0,
            resting: BTreeMap::new(),
            next_rest: 0,
            leaving: 0,
            leaving_bytes: 0,
        })))
    }

    /// Returns a place when there is one for this party.
    pub(crate) async fn place(&self, party: &Party) -> Place {
        let told = {
            let mut state = self.lock();
            if state.waiting.is_empty() && state.free > 0 && state.may_have(&party.user) {
                return state.take(self, &party.user);
            }
            let (tell, told) = oneshot::channel();
            state.waiting.push(party, Waiting { user: Arc::clone(&party.user), tell });
            state.paces.entry(Arc::clone(&party.user)).or_insert_with(|| Pace::new(Instant::now()));
            state.serve(self);
            told
        };
        let mut waits = Waits { places: self, told: Some(told) };
        let place = match &mut waits.told {
            Some(told) => told.await,
            None => return std::future::pending().await,
        };
        waits.told = None;
        match place {
            Ok(place) => place,
            // Only the last clone of the places ends the queue.
            Err(_) => std::future::pending().await,
        }
    }

    /// Returns how long one more request of a user would wait at the pace of the last ones. Never too long a time: as long as
    /// too few have been served to tell, it is the time in which the next one could have been.
    pub(crate) fn expected_wait(&self, user: &str) -> Duration {
        let state = self.lock();
        let ahead = state.waiting.count(user, |waiting| !waiting.tell.is_closed()) as u32;
        state.paces.get(user).map_or(Duration::ZERO, |pace| pace.each(Instant::now()) * ahead)
    }

    /// Asks programs that rest for their places, the longest first, until their cells have so many bytes of memory.
    pub(crate) fn make_room(&self, bytes: usize) {
        let mut state = self.lock();
        while state.leaving_bytes < bytes {
            let Some(number) = state.resting.keys().next().copied() else { return };
            state.ask_for(number);
        }
    }

    /// How many programs have a place and do not rest.
    pub(crate) fn working(&self) -> usize {
        let state = self.lock();
        state.total - state.free - state.resting.len() - state.leaving
    }

    /// Numbers that no panic can leave half-changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How fast requests are served.
struct Pace {
    since: Instant,
    served: u32,
}

impl Pace {
    /// When so many have been served, older ones count less.
    const REMEMBERED: u32 = 64;

    fn new(since: Instant) -> Self {
        Self { since, served: 0 }
    }

    fn serve(&mut self, now: Instant) {
        self.served += 1;
        if self.served == Self::REMEMBERED {
            *self = Self { since: now - (now - self.since) / 2, served: self.served / 2 };
        }
    }

    /// The time for each.
    fn each(&self, now: Instant) -> Duration {
        (now - self.since) / (self.served + 1)
    }
}

/// A request for a place that has not been answered.
struct Waits<'p> {
    places: &'p Places,
    told: Option<oneshot::Receiver<Place>>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let Some(mut told) = self.told.take() else { return };
        told.close();
        // A place that came just now goes back, and its request is no longer in the queue.
        if told.try_recv().is_ok() {
            return;
        }
        let mut state = self.places.lock();
        state.gone += 1;
        if 2 * state.gone > state.waiting.len() {
            let State { waiting, paces, .. } = &mut *state;
            waiting.retain(|waiting| !waiting.tell.is_closed());
            paces.retain(|user, _| waiting.count(user, |_| true) > 0);
            state.gone = 0;
        }
    }
}

impl State {
    fn of(&self, user: &str) -> usize {
        self.held.get(user).copied().unwrap_or(0)
    }

    /// The most places that a user may have of those that the others leave.
    fn most(&self, left: usize) -> usize {
        if self.total < SHARED_FROM { left } else { (3 * left).div_ceil(4) }
    }

    /// Whether a user may have one place more.
    fn may_have(&self, user: &str) -> bool {
        let of_user = self.of(user);
        of_user < self.most(self.free + of_user)
    }

    fn take(&mut self, places: &Places, user: &Arc<str>) -> Place {
        self.free -= 1;
        *self.held.entry(Arc::clone(user)).or_default() += 1;
        Place { places: places.clone(), user: Arc::clone(user), rest: Rest::Works }
    }

    /// Notes that a request of a user has left the queue, and whether it was served.
    fn keep_pace(&mut self, user: &Arc<str>, was_served: bool) {
        match self.paces.get_mut(user) {
            Some(pace) if self.waiting.count(user, |_| true) > 0 => {
                if was_served {
                    pace.serve(Instant::now());
                }
            }
            _ => drop(self.paces.remove(user)),
        }
    }

    /// Gives free places to those whose turn it is, and asks for as many as are still needed.
    fn serve(&mut self, places: &Places) {
        while self.free > 0 {
            let mut waiting = std::mem::take(&mut self.waiting);
            let next = waiting.next(|user| self.may_have(user));
            self.waiting = waiting;
            let Some(Waiting { user, tell }) = next else { break };
            let place = self.take(places, &user);
            let sent = tell.send(place);
            self.keep_pace(&user, sent.is_ok());
            if let Err(mut place) = sent {
                // The lock is held here, so the place must not give itself back.
                place.give_back(self);
                std::mem::forget(place);
                self.gone = self.gone.saturating_sub(1);
            }
        }
        let users: Vec<Arc<str>> = self.waiting.users().cloned().collect();
        let mut needed = self.waiting.len().saturating_sub(self.gone + self.leaving);
        let mut in_vain = 0;
        for user in users.iter().cycle() {
            if needed == 0 || in_vain == users.len() {
                break;
            }
            match self.ask_for_one(user) {
                true => (needed, in_vain) = (needed - 1, 0),
                false => in_vain += 1,
            }
        }
    }

    /// Asks the program that has rested the longest for its place: one of this user, or of a user who has more places. Otherwise
    /// many requests of one user would put the few programs of another aside whenever they wait.
    fn ask_for_one(&mut self, user: &str) -> bool {
        // Places that were asked for may all become this user's.
        let of_user = self.of(user) + self.leaving;
        let may_ask = |other: &str| other == user || of_user == 0 || self.of(other) > of_user + 1;
        let number = self.resting.iter().find(|(_, resting)| may_ask(&resting.user)).map(|(number, _)| *number);
        number.is_some_and(|number| {
            self.ask_for(number);
            true
        })
    }

    fn ask_for(&mut self, number: u64) {
        let Some(resting) = self.resting.remove(&number) else { return };
        resting.wanted.cancel();
        self.leaving += 1;
        self.leaving_bytes += resting.bytes;
    }
}

impl Place {
    /// The program has nothing to do: others may have the place, and the memory of its cell.
    pub(crate) fn rest(&mut self, bytes: usize) {
        let places = self.places.clone();
        let mut state = places.lock();
        if let Rest::Works = self.rest {
            let (number, wanted) = (state.next_rest, CancellationToken::new());
            state.next_rest += 1;
            state.resting.insert(number, Resting { user: Arc::clone(&self.user), wanted: wanted.clone(), bytes });
            self.rest = Rest::Rests { number, wanted, bytes };
            if !state.waiting.is_empty() {
                state.serve(&places);
            }
        }
    }

    /// Waits until another program needs this place. Only a place that rests is ever wanted.
    pub(crate) async fn wanted(&self) {
        match &self.rest {
            Rest::Rests { wanted, .. } => wanted.cancelled().await,
            Rest::Works => std::future::pending().await,
        }
    }

    /// The program goes on. It keeps the place, also if another has just asked for it.
    pub(crate) fn work(&mut self) {
        let places = self.places.clone();
        let mut state = places.lock();
        self.stop_resting(&mut state);
        if !state.waiting.is_empty() {
            state.serve(&places);
        }
    }

    fn stop_resting(&mut self, state: &mut State) {
        if let Rest::Rests { number, bytes, .. } = std::mem::replace(&mut self.rest, Rest::Works)
            && state.resting.remove(&number).is_none()
        {
            state.leaving -= 1;
            state.leaving_bytes -= bytes;
        }
    }

    fn give_back(&mut self, state: &mut State) {
        self.stop_resting(state);
        state.free += 1;
        if let Some(held) = state.held.get_mut(&self.user) {
            *held -= 1;
            if *held == 0 {
                state.held.remove(&self.user);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let places = self.places.clone();
        let mut state = places.lock();
        self.give_back(&mut state);
        state.serve(&places);
    }
}

#[cfg(test)]
mod tests;
