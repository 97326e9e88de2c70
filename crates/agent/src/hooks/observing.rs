//! Hooks that only observe: they are told in order, session by session, and nothing waits for them.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pincer_tools::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The events that wait for the observers of one session at most.
const MOST_WAITING: usize = 256;

/// The longest that the end of an observer takes. A closure that never gives way does not end at all.
const ENDING: Duration = Duration::from_secs(1);

type Key = (String, String);
type Waiting = HashMap<Key, VecDeque<BoxFuture<'static, ()>>>;

/// Tells observers what has happened.
#[derive(Clone)]
pub(crate) struct Observing(Arc<State>);

struct State {
    /// The events that wait, for each session that observers are told of at the moment.
    waiting: Mutex<Waiting>,
    /// The number of such sessions.
    busy: watch::Sender<usize>,
    /// Observers are not waited for any more: those that are being told are ended.
    left: CancellationToken,
}

impl Default for Observing {
    fn default() -> Self {
        Self(Arc::new(State { waiting: Mutex::default(), busy: watch::Sender::new(0), left: CancellationToken::new() }))
    }
}

impl Observing {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has observers told, behind all that they were told of this session before. If they are too slow, events are left out.
    pub(crate) fn push(&self, of: Key, telling: BoxFuture<'static, ()>) {
        let mut waiting = self.lock();
        if let Some(queue) = waiting.get_mut(&of) {
            if queue.len() >= MOST_WAITING {
                tracing::warn!(session = of.1, "hooks that observe are too slow, and are not told of an event");
                return;
            }
            queue.push_back(telling);
            return;
        }
        waiting.insert(of.clone(), VecDeque::new());
        self.0.busy.send_replace(waiting.len());
        drop(waiting);
        let observing = self.clone();
        tokio::spawn(async move {
            let mut next = Some(telling);
            while let Some(telling) = next {
                // A command ends with all that it has started when it is dropped.
                observing.0.left.run_until_cancelled(telling).await;
                next = observing.next(&of);
            }
        });
    }

    /// Returns what is told next. After the last one the session is forgotten.
    fn next(&self, of: &Key) -> Option<BoxFuture<'static, ()>> {
        let mut waiting = self.lock();
        let next = waiting.get_mut(of).and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.remove(of);
            self.0.busy.send_replace(waiting.len());
        }
        next
    }

    /// Ends the observers that are being told, and tells them nothing more.
    pub(crate) fn leave(&self) {
        self.0.left.cancel();
    }

    /// Waits until observers have been told everything, for so long at most. Those that are late are ended.
    pub(crate) async fn drain(&self, limit: Duration) {
        let mut busy = self.0.busy.subscribe();
        let is_late = tokio::time::timeout(limit, busy.wait_for(|busy| *busy == 0)).await.is_err();
        if is_late {
            tracing::warn!("hooks that observe did not end within {} s and are ended", limit.as_secs());
            self.leave();
            let _ = tokio::time::timeout(ENDING, busy.wait_for(|busy| *busy == 0)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn observers_of_a_session_are_told_in_order_and_other_sessions_do_not_wait() {
        let observing = Observing::default();
        let told: Arc<Mutex<Vec<&str>>> = Arc::default();
        let push = |key: &str, name: &'static str, seconds| {
            let told = Arc::clone(&told);
            let telling = Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                told.lock().unwrap_or_else(PoisonError::into_inner).push(name);
            });
            observing.push(("u".into(), key.into()), telling);
        };
        push("a", "a1", 3);
        push("a", "a2", 1);
        push("b", "b1", 2);
        observing.drain(Duration::from_secs(60)).await;
        assert_eq!(*told.lock().unwrap_or_else(PoisonError::into_inner), ["b1", "a1", "a2"]);
        assert!(observing.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_observer_that_hangs_is_ended() {
        let observing = Observing::default();
        observing.push(("u".into(), "a".into()), Box::pin(std::future::pending()));
        for _ in 0..2 * MOST_WAITING {
            observing.push(("u".into(), "a".into()), Box::pin(std::future::ready(())));
        }
        assert_eq!(observing.lock().values().map(VecDeque::len).sum::<usize>(), MOST_WAITING);
        observing.drain(Duration::from_secs(1)).await;
        assert!(observing.lock().is_empty());
    }

    #[tokio::test]
    async fn nothing_waits_for_observers_that_are_left() {
        let observing = Observing::default();
        observing.push(("u".into(), "a".into()), Box::pin(std::future::pending()));
        observing.leave();
        observing.push(("u".into(), "b".into()), Box::pin(std::future::pending()));
        observing.drain(Duration::MAX).await;
        assert!(observing.lock().is_empty());
    }
}
