//! The hub of events: a subscriber gets what its filter lets through, in order, and is told how much it missed if it was too slow.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use pincer_store::{CallId, RunId};
use tokio::sync::Notify;

use crate::{Event, EventSink, RunOwner};

/// The events that wait for a subscriber at most. Of more, the oldest are left out.
const MOST_WAITING: usize = 1024;

/// Passes on what happens to calls. Clones are the same hub.
#[derive(Clone, Default)]
pub struct Hub(Arc<Shared>);

#[derive(Default)]
struct Shared {
    listeners: RwLock<Listeners>,
    /// How many of them look at inputs, outputs and updates.
    with_values: AtomicUsize,
}

#[derive(Default)]
struct Listeners {
    /// Are called in the middle of a call: for what must not miss anything.
    sinks: Vec<Arc<dyn EventSink>>,
    /// Subscribers that want everything.
    all: Vec<Arc<Queue>>,
    /// Subscribers that want what belongs to a call or a run, by its id.
    by_id: HashMap<String, Vec<Arc<Queue>>>,
}

/// The events that a subscriber wants.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Of these calls and runs; of all if there are none.
    ids: Vec<String>,
    values: bool,
}

impl Filter {
    /// Lets everything through, without inputs, outputs and updates: making them safe to show takes time.
    pub fn all() -> Self {
        Self::default()
    }

    /// Lets through what belongs to a call: the call itself, and those that are made within it.
    pub fn of_call(call: &CallId) -> Self {
        Self { ids: vec![call.to_string()], values: false }
    }

    /// Lets through what belongs to a run.
    pub fn of_run(run: &RunId) -> Self {
        Self { ids: vec![run.to_string()], values: false }
    }

    /// Adds inputs, outputs and updates, redacted.
    #[must_use]
    pub fn with_values(self) -> Self {
        Self { values: true, ..self }
    }
}

/// News for a subscriber.
#[derive(Clone, Debug)]
pub enum Told {
    /// Something happened.
    Event(Arc<Event>),
    /// So many events before the next one were left out, since the subscriber was too slow.
    Missed(u64),
}

/// A subscription. It ends when this is dropped.
pub struct Subscription {
    hub: Hub,
    queue: Arc<Queue>,
    filter: Filter,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    more: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Arc<Event>>,
    missed: u64,
}

impl Hub {
    /// Returns a subscription to what happens from now on.
    pub fn subscribe(&self, filter: Filter) -> Subscription {
        let queue = Arc::new(Queue::default());
        if filter.values {
            self.0.with_values.fetch_add(1, Ordering::Relaxed);
        }
        let mut listeners = self.0.listeners.write().unwrap_or_else(PoisonError::into_inner);
        if filter.ids.is_empty() {
            listeners.all.push(Arc::clone(&queue));
        }
        for id in &filter.ids {
            listeners.by_id.entry(id.clone()).or_default().push(Arc::clone(&queue));
        }
        drop(listeners);
        Subscription { hub: self.clone(), queue, filter }
    }

    /// Adds a sink, for good. It is called in the middle of calls, and misses nothing.
    pub fn observe(&self, sink: Arc<dyn EventSink>) {
        if sink.wants_values() {
            self.0.with_values.fetch_add(1, Ordering::Relaxed);
        }
        self.0.listeners.write().unwrap_or_else(PoisonError::into_inner).sinks.push(sink);
    }

    /// Returns whether a listener looks at inputs, outputs and updates.
    pub(crate) fn wants_values(&self) -> bool {
        self.0.with_values.load(Ordering::Relaxed) > 0
    }

    /// Passes an event on. Events of a run are numbered, and reach each subscriber in the order of their numbers.
    pub(crate) fn publish(&self, mut event: Event, run: Option<&RunOwner>) {
        let Some(run) = run else { return self.pass_on(event) };
        let mut last = run.last_event();
        *last += 1;
        event.seq = Some(*last);
        self.pass_on(event);
    }

    fn pass_on(&self, event: Event) {
        let listeners = self.0.listeners.read().unwrap_or_else(PoisonError::into_inner);
        listeners.sinks.iter().for_each(|sink| sink.event(&event));
        if listeners.all.is_empty() && listeners.by_id.is_empty() {
            return;
        }
        let event = Arc::new(event);
        listeners.all.iter().for_each(|queue| queue.push(&event));
        if listeners.by_id.is_empty() {
            return;
        }
        let ids = [
            event.parent.as_ref().map(CallId::as_str),
            Some(event.call.as_str()),
            event.run.as_ref().map(RunId::as_str),
        ];
        let mut told: Vec<&Arc<Queue>> = Vec::new();
        for queue in ids.into_iter().flatten().filter_map(|id| listeners.by_id.get(id)).flatten() {
            // It may belong to a subscriber by its call and by its run.
            if !told.iter().any(|other| Arc::ptr_eq(other, queue)) {
                queue.push(&event);
                told.push(queue);
            }
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, event: &Arc<Event>) {
        let mut waiting = self.lock();
        if waiting.events.len() == MOST_WAITING {
            waiting.events.pop_front();
            waiting.missed += 1;
        }
        waiting.events.push_back(Arc::clone(event));
        drop(waiting);
        self.more.notify_one();
    }
}

impl Subscription {
    /// Lets through what belongs to a run too, unless another subscription has it. Returns whether it does.
    pub fn take_run(&mut self, run: &RunId) -> bool {
        let mut listeners = self.hub.0.listeners.write().unwrap_or_else(PoisonError::into_inner);
        let queues = listeners.by_id.entry(run.to_string()).or_default();
        if queues.iter().any(|queue| !Arc::ptr_eq(queue, &self.queue)) {
            return false;
        }
        *queues = vec![Arc::clone(&self.queue)];
        self.filter.ids.push(run.to_string());
        true
    }

    /// Waits for what happens next.
    pub async fn next(&mut self) -> Told {
        loop {
            // One that comes between looking and waiting leaves its permit here.
            if let Some(told) = self.try_next() {
                return told;
            }
            self.queue.more.notified().await;
        }
    }

    /// Returns what has happened, if something has.
    pub fn try_next(&mut self) -> Option<Told> {
        let mut waiting = self.queue.lock();
        match std::mem::take(&mut waiting.missed) {
            0 => waiting.events.pop_front().map(Told::Event),
            missed => Some(Told::Missed(missed)),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if self.filter.values {
            self.hub.0.with_values.fetch_sub(1, Ordering::Relaxed);
        }
        let mut listeners = self.hub.0.listeners.write().unwrap_or_else(PoisonError::into_inner);
        let is_other = |queue: &Arc<Queue>| !Arc::ptr_eq(queue, &self.queue);
        listeners.all.retain(is_other);
        for id in &self.filter.ids {
            if let Some(queues) = listeners.by_id.get_mut(id) {
                queues.retain(is_other);
                if queues.is_empty() {
                    listeners.by_id.remove(id);
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use pincer_store::{Fence, Safety};
    use serde_json::Value;

    use super::*;
    use crate::EventKind;

    fn event(call: &str, parent: Option<&str>, run: Option<&RunOwner>) -> Event {
        Event {
            call: call.into(),
            parent: parent.map(CallId::from),
            tool: "t".into(),
            session: "s".into(),
            sender: None,
            agent_run: None,
            run: run.map(|run| run.id().clone()),
            line: None,
            seq: None,
            what: EventKind::Start { input: Value::Null },
        }
    }

    fn run(id: &str) -> RunOwner {
        RunOwner::new(id.into(), "p".into(), Fence::FIRST, Safety::Process)
    }

    fn taken(subscription: &mut Subscription) -> Vec<(String, Option<u64>)> {
        std::iter::from_fn(|| subscription.try_next())
            .map(|told| match told {
                Told::Event(event) => (event.call.to_string(), event.seq),
                Told::Missed(count) => (format!("missed {count}"), None),
            })
            .collect()
    }

    #[test]
    fn a_subscriber_gets_what_belongs_to_its_call_or_run_once_and_in_order() {
        let (hub, one, two) = (Hub::default(), run("cm_1"), run("cm_2"));
        let mut all = hub.subscribe(Filter::all());
        let mut of_call = hub.subscribe(Filter::of_call(&"exec_1".into()));
        let mut of_run = hub.subscribe(Filter::of_run(&"cm_2".into()));
        hub.publish(event("a", Some("exec_1"), Some(&one)), Some(&one));
        hub.publish(event("b", Some("exec_2"), Some(&two)), Some(&two));
        assert!(of_call.take_run(&"cm_1".into()) && !of_call.take_run(&"cm_2".into()));
        hub.publish(event("c", Some("exec_1"), Some(&one)), Some(&one));
        hub.publish(event("d", Some("exec_3"), Some(&one)), Some(&one));
        hub.publish(event("exec_1", None, None), None);
        let told = |calls: &[(&str, u64)]| -> Vec<(String, Option<u64>)> {
            calls.iter().map(|(call, seq)| ((*call).to_owned(), Some(*seq).filter(|seq| *seq > 0))).collect()
        };
        assert_eq!(taken(&mut all), told(&[("a", 1), ("b", 1), ("c", 2), ("d", 3), ("exec_1", 0)]));
        assert_eq!(taken(&mut of_call), told(&[("a", 1), ("c", 2), ("d", 3), ("exec_1", 0)]));
        assert_eq!(taken(&mut of_run), told(&[("b", 1)]));
        drop((all, of_call, of_run));
        let listeners = hub.0.listeners.read().unwrap();
        assert!(listeners.all.is_empty() && listeners.by_id.is_empty(), "nothing is left of a subscription");
    }

    #[test]
    fn a_subscriber_that_is_too_slow_is_told_how_much_it_missed() {
        let (hub, run) = (Hub::default(), run("cm_1"));
        let mut slow = hub.subscribe(Filter::all());
        for _ in 0..MOST_WAITING + 3 {
            hub.publish(event("a", None, Some(&run)), Some(&run));
        }
        let told = taken(&mut slow);
        assert_eq!((told[0].0.as_str(), told[1].1, told.len()), ("missed 3", Some(4), MOST_WAITING + 1));
        hub.publish(event("b", None, Some(&run)), Some(&run));
        assert_eq!(taken(&mut slow), [("b".to_owned(), Some(MOST_WAITING as u64 + 4))]);
    }

    #[tokio::test]
    async fn a_subscriber_waits_for_what_happens_next() {
        let hub = Hub::default();
        let mut subscription = hub.subscribe(Filter::all());
        let (told, ()) = tokio::join!(subscription.next(), async { hub.publish(event("a", None, None), None) });
        assert!(matches!(told, Told::Event(event) if event.call == "a"));
    }

    #[test]
    fn values_are_made_only_while_a_listener_looks_at_them() {
        let hub = Hub::default();
        let plain = hub.subscribe(Filter::all());
        assert!(!hub.wants_values());
        let curious = hub.subscribe(Filter::all().with_values());
        assert!(hub.wants_values());
        drop((plain, curious));
        assert!(!hub.wants_values());
        hub.observe(Arc::new(|_: &Event| ()));
        assert!(hub.wants_values());
    }
}
