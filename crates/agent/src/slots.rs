//! How many runs go on at a time, and which one is next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::request::Priority;

/// The slots for runs. Clones share them.
#[derive(Clone)]
pub(crate) struct Slots(Arc<Mutex<State>>);

struct State {
    free: usize,
    most_in_background: usize,
    in_background: usize,
    /// Those that wait, by priority and then by the order in which they came.
    waiting: BTreeMap<(Priority, u64), oneshot::Sender<Slot>>,
    next: u64,
}

/// The right to go on. It is given back when this is dropped.
pub(crate) struct Slot {
    slots: Slots,
    priority: Priority,
}

impl Slots {
    /// Makes so many slots. Background runs take a part of them, and never the last one.
    pub(crate) fn new(count: usize, in_background: usize) -> Self {
        let most_in_background = in_background.min(count.saturating_sub(1)).max(1);
        let waiting = BTreeMap::new();
        Self(Arc::new(Mutex::new(State { free: count, most_in_background, in_background: 0, waiting, next: 0 })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot. Of those that wait, the one with the highest priority is next, then the one that came first.
    pub(crate) async fn take(&self, priority: Priority) -> Slot {
        let told = {
            let mut state = self.lock();
            let (tell, told) = oneshot::channel();
            let number = state.next;
            state.next += 1;
            state.waiting.insert((priority, number), tell);
            self.hand_out(&mut state);
            told
        };
        match told.await {
            Ok(slot) => slot,
            // The sender is only dropped with a slot in it, or never.
            Err(_) => Slot { slots: self.clone(), priority },
        }
    }

    fn hand_out(&self, state: &mut State) {
        while state.free > 0 {
            let is_due = |(priority, _): &(Priority, u64)| {
                *priority != Priority::Background || state.in_background < state.most_in_background
            };
            let Some(key) = state.waiting.keys().find(|key| is_due(key)).copied() else { return };
            let Some(tell) = state.waiting.remove(&key) else { return };
            state.free -= 1;
            state.in_background += usize::from(key.0 == Priority::Background);
            let slot = Slot { slots: self.clone(), priority: key.0 };
            if let Err(slot) = tell.send(slot) {
                // Whoever waited has gone. Not by `drop`: the lock is held.
                state.free += 1;
                state.in_background -= usize::from(slot.priority == Priority::Background);
                std::mem::forget(slot);
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        state.free += 1;
        state.in_background -= usize::from(self.priority == Priority::Background);
        self.slots.hand_out(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_highest_priority_is_next_and_then_the_first() {
        let slots = Slots::new(1, 3);
        let first = slots.take(Priority::Normal).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for (name, priority) in [
            ("background", Priority::Background),
            ("a", Priority::Normal),
            ("b", Priority::Normal),
            ("person", Priority::Foreground),
        ] {
            let (slots, order) = (slots.clone(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let _slot = slots.take(priority).await;
                order.lock().unwrap_or_else(PoisonError::into_inner).push(name);
            }));
            tokio::task::yield_now().await;
        }
        drop(first);
        for task in tasks {
            task.await.expect("it ends");
        }
        assert_eq!(*order.lock().unwrap_or_else(PoisonError::into_inner), ["person", "a", "b", "background"]);
    }

    #[tokio::test]
    async fn a_slot_of_one_who_has_gone_is_handed_on() {
        let slots = Slots::new(1, 3);
        let first = slots.take(Priority::Normal).await;
        let mut gone = Box::pin(slots.take(Priority::Normal));
        assert!(futures_util::poll!(&mut gone).is_pending());
        drop(gone);
        drop(first);
        let _second = slots.take(Priority::Background).await;
    }

    #[tokio::test]
    async fn the_last_slot_is_never_one_in_the_background() {
        let slots = Slots::new(2, 9);
        let _first = slots.take(Priority::Background).await;
        let mut second = Box::pin(slots.take(Priority::Background));
        assert!(futures_util::poll!(&mut second).is_pending());
        let _person = slots.take(Priority::Foreground).await;
    }
}
