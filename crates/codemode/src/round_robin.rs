//! A queue in which users take turns, and so do the sessions of each, however much one of them asks for.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Whose a request is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Party {
    pub user: Arc<str>,
    pub session: Arc<str>,
}

/// Items that wait, by user and session.
pub(crate) struct Rota<T> {
    users: Ring<Ring<VecDeque<T>>>,
    len: usize,
}

/// Named things that take turns. None of them is empty.
struct Ring<T> {
    order: VecDeque<Arc<str>>,
    all: HashMap<Arc<str>, T>,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), all: HashMap::new() }
    }
}

impl<T: Default> Ring<T> {
    fn entry(&mut self, name: &Arc<str>) -> &mut T {
        if !self.all.contains_key(name) {
            self.order.push_back(Arc::clone(name));
        }
        self.all.entry(Arc::clone(name)).or_default()
    }

    /// Takes something of the first one for which `take` finds something. It is the last one then, or gone if it is empty.
    fn turn<U>(&mut self, mut take: impl FnMut(&str, &mut T) -> Option<U>, is_empty: impl Fn(&T) -> bool) -> Option<U> {
        for at in 0..self.order.len() {
            let name = &self.order[at];
            let Some(one) = self.all.get_mut(name) else { continue };
            let Some(taken) = take(name, one) else { continue };
            let is_empty = is_empty(one);
            if let Some(name) = self.order.remove(at) {
                match is_empty {
                    true => drop(self.all.remove(&name)),
                    false => self.order.push_back(name),
                }
            }
            return Some(taken);
        }
        None
    }
}

impl<T> Default for Rota<T> {
    fn default() -> Self {
        Self { users: Ring::default(), len: 0 }
    }
}

impl<T> Rota<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Counts items of a user.
    pub(crate) fn count(&self, user: &str, counts: impl Fn(&T) -> bool) -> usize {
        let items = |sessions: &Ring<VecDeque<T>>| sessions.all.values().flatten().filter(|item| counts(item)).count();
        self.users.all.get(user).map_or(0, items)
    }

    pub(crate) fn push(&mut self, party: &Party, item: T) {
        self.users.entry(&party.user).entry(&party.session).push_back(item);
        self.len += 1;
    }

    /// Takes the next item of a user who may have it.
    pub(crate) fn next(&mut self, mut may: impl FnMut(&str) -> bool) -> Option<T> {
        let of_session =
            |sessions: &mut Ring<VecDeque<T>>| sessions.turn(|_, items| items.pop_front(), VecDeque::is_empty);
        let next = self.users.turn(
            |user, sessions| if may(user) { of_session(sessions) } else { None },
            |sessions| sessions.order.is_empty(),
        );
        self.len -= usize::from(next.is_some());
        next
    }

    /// Forgets the items that are not wanted any more.
    pub(crate) fn retain(&mut self, mut is_wanted: impl FnMut(&T) -> bool) {
        self.users.all.retain(|_, sessions| {
            sessions.all.retain(|_, items| {
                items.retain(&mut is_wanted);
                !items.is_empty()
            });
            sessions.order.retain(|name| sessions.all.contains_key(name));
            !sessions.order.is_empty()
        });
        self.users.order.retain(|name| self.users.all.contains_key(name));
        self.len = self.users.all.values().flat_map(|sessions| sessions.all.values()).map(VecDeque::len).sum();
    }

    /// Returns the users with items, the next one first.
    pub(crate) fn users(&self) -> impl Iterator<Item = &Arc<str>> {
        self.users.order.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(user: &str, session: &str) -> Party {
        Party { user: user.into(), session: session.into() }
    }

    #[test]
    fn users_take_turns_and_so_do_their_sessions() {
        let mut rota = Rota::default();
        for (user, session, item) in [
            ("a", "1", "a1x"),
            ("a", "1", "a1y"),
            ("a", "1", "a1z"),
            ("a", "2", "a2x"),
            ("b", "1", "b1x"),
            ("b", "1", "b1y"),
        ] {
            rota.push(&party(user, session), item);
        }
        let order: Vec<_> = std::iter::from_fn(|| rota.next(|_| true)).collect();
        assert_eq!(order, ["a1x", "b1x", "a2x", "b1y", "a1y", "a1z"]);
        assert!(rota.is_empty() && rota.users.all.is_empty());
    }

    #[test]
    fn a_user_who_may_not_is_passed_over_and_keeps_the_turn() {
        let mut rota = Rota::default();
        for user in ["a", "b", "a", "b"] {
            rota.push(&party(user, "1"), user);
        }
        assert_eq!(rota.next(|user| user == "b"), Some("b"));
        assert_eq!(rota.next(|_| false), None);
        assert_eq!(std::iter::from_fn(|| rota.next(|_| true)).collect::<Vec<_>>(), ["a", "b", "a"]);
    }

    #[test]
    fn items_that_are_not_wanted_leave_nothing_behind() {
        let mut rota = Rota::default();
        for (user, item) in [("a", 1), ("b", 2), ("a", 3)] {
            rota.push(&party(user, "1"), item);
        }
        rota.retain(|item| *item == 3);
        assert_eq!((rota.len, rota.users().count()), (1, 1));
        assert_eq!((rota.next(|_| true), rota.next(|_| true)), (Some(3), None));
    }
}
