//! The way of a stored text to its channel: one process, one text of a place at a time, again until the channel takes it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pincer_hooks::events::Sending as Verdict;
use pincer_store::{
    Changes, Clock, Deliveries, Delivery, DeliveryChange, DeliveryId, Leases, Millis, OwnerId, StoreError,
};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::one_line;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::channel::{Outgoing, SendError};
use crate::hooks::TextHooks;
use crate::inbox::Shared;
use crate::parts::next_part;
use crate::{Channel, Notice};

/// The interval at which texts of other processes are noticed.
const LOOK_FOR_NEWS: Duration = Duration::from_millis(200);
/// The interval at which it is looked anyway: the death of a process that was sending changes nothing in the store.
const LOOK_ANYWAY: Duration = Duration::from_secs(2);
/// The texts that one channel is given at a time.
const MOST_AT_ONCE: usize = 8;
/// The pause after the first attempt, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The longest time that a channel may want to be left alone.
const LONGEST_WISH: Duration = Duration::from_secs(3600);
/// The time that a process that ends waits for the texts that it is sending.
const ENDING: Duration = Duration::from_secs(5);
/// The pause before a change that the store did not take is tried again.
const STORE_AGAIN: Duration = Duration::from_millis(200);
/// The most bytes of a reason that are stored.
const MOST_REASON: usize = 500;

/// Sends what is stored for some channels.
pub(crate) struct Outbox {
    shared: Arc<Shared>,
    store: Arc<SqliteStore>,
    channels: Vec<Arc<dyn Channel>>,
    /// The texts that this process is sending.
    sending: Mutex<HashSet<DeliveryId>>,
}

impl Outbox {
    pub(crate) fn new(shared: Arc<Shared>, channels: Vec<Arc<dyn Channel>>) -> Arc<Self> {
        let store = Arc::clone(shared.agent.runtime().store());
        Arc::new(Self { shared, store, channels, sending: Mutex::default() })
    }

    fn sending(&self) -> MutexGuard<'_, HashSet<DeliveryId>> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends texts until `stop`, and then lets those finish that it has begun with.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut changes = self.store.watch(LOOK_FOR_NEWS);
        let mut news = self.store.delivery_news();
        let mut tasks = JoinSet::new();
        while !stop.is_cancelled() {
            news.mark_unchanged();
            let pause = match self.send_due(&mut tasks).await {
                Ok(pause) => pause,
                Err(error) => {
                    tracing::warn!("what waits for channels cannot be read, and is tried again: {error}");
                    STORE_AGAIN
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.shared.wake.notified() => {}
                () = changes.changed() => {}
                _ = news.changed() => {}
                Some(_) = tasks.join_next() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        // The next process sends unfinished texts again, under their ids.
        let _ = tokio::time::timeout(ENDING, async { while tasks.join_next().await.is_some() {} }).await;
    }

    /// Begins to send what is due. Returns how soon something else may be.
    async fn send_due(self: &Arc<Self>, tasks: &mut JoinSet<()>) -> Result<Duration, StoreError> {
        let now = self.store.now();
        let (mut pause, mut alive) = (LOOK_ANYWAY, HashMap::new());
        for channel in &self.channels {
            let first = self.store.first_deliveries(channel.name()).await?;
            let mut busy = first.iter().filter(|delivery| self.sending().contains(&delivery.id)).count();
            for delivery in first {
                if self.sending().contains(&delivery.id) {
                    continue;
                }
                let wait = due_at(&delivery).saturating_sub(now);
                if wait > 0 {
                    pause = pause.min(Duration::from_millis(u64::try_from(wait).unwrap_or(0)));
                    continue;
                }
                if busy >= MOST_AT_ONCE {
                    // One of them ends, and then it is looked again.
                    break;
                }
                if self.is_elsewhere(&delivery, &mut alive).await? {
                    continue;
                }
                busy += 1;
                self.sending().insert(delivery.id.clone());
                let sending = Sending { outbox: Arc::clone(self), id: delivery.id.clone() };
                let (outbox, channel) = (Arc::clone(self), Arc::clone(channel));
                tasks.spawn(async move {
                    let _sending = sending;
                    outbox.deliver(&*channel, delivery).await;
                });
            }
        }
        Ok(pause)
    }

    /// Returns whether a living process is sending a text.
    async fn is_elsewhere(&self, delivery: &Delivery, alive: &mut HashMap<OwnerId, bool>) -> Result<bool, StoreError> {
        let leases = self.shared.agent.runtime().leases();
        let Some(owner) = delivery.owner.as_ref().filter(|owner| *owner != leases.own()) else { return Ok(false) };
        if let Some(known) = alive.get(owner) {
            return Ok(*known);
        }
        let is_alive = leases.is_alive(owner).await?;
        alive.insert(owner.clone(), is_alive);
        Ok(is_alive)
    }

    /// Sends one text, as far as the channel takes it now.
    async fn deliver(&self, channel: &dyn Channel, seen: Delivery) {
        let leases = self.shared.agent.runtime().leases();
        let claimed = match leases.hold().await {
            Ok(own) => self.store.claim_delivery(&seen.id, seen.fence, &own).await,
            Err(error) => Err(error),
        };
        let mut delivery = match claimed {
            Ok(delivery) => delivery,
            // Another process was faster, or it was cancelled.
            Err(StoreError::Missing { .. }) => return,
            Err(error) => {
                tracing::warn!(delivery = %seen.id, "a text cannot be claimed, and is sent later: {error}");
                tokio::time::sleep(STORE_AGAIN).await;
                return;
            }
        };
        let hooks = TextHooks::of(&self.shared, &delivery).await;
        let end = match self.checked(hooks.as_ref(), &mut delivery).await {
            Ok(()) => self.sent(channel, &delivery).await,
            Err(end) => end,
        };
        let Some(end) = end else { return };
        if let DeliveryChange::Failed { error, .. } = &end {
            self.shared.observer.tell(Notice::NotDelivered {
                channel: channel.name().to_owned(),
                delivery: delivery.id.to_string(),
                why: error.clone(),
            });
        }
        if self.change(&delivery, end.clone()).await
            && let Some(hooks) = hooks
        {
            hooks.tell(&delivery, &delivery.text, &end).await;
        }
    }

    /// Asks hooks about a text, once: their answer is stored before anything is sent. If the text is not sent, fails with the change of its
    /// delivery.
    async fn checked(&self, hooks: Option<&TextHooks>, delivery: &mut Delivery) -> Result<(), Option<DeliveryChange>> {
        let Some(hooks) = hooks.filter(|_| !delivery.is_checked && delivery.sent_bytes == 0) else { return Ok(()) };
        let cancelled = |why: &str| {
            let error = one_line(why, MOST_REASON);
            Err(Some(DeliveryChange::Cancelled { error, at: self.store.now() }))
        };
        let content = match hooks.sending(delivery).await {
            Verdict::Cancel(why) => return cancelled(&why.unwrap_or_else(|| "a hook cancelled it".into())),
            Verdict::Send { content, .. } if content.trim().is_empty() => {
                return cancelled("a hook left nothing of it");
            }
            Verdict::Send { content, .. } => content,
        };
        let text = (content != delivery.text).then(|| content.as_str().into());
        if !self.change(delivery, DeliveryChange::Checked { text }).await {
            return Err(None);
        }
        (delivery.text, delivery.is_checked) = (content, true);
        Ok(())
    }

    /// Sends the parts of a text that are not sent yet. Returns what came of it; nothing if it is no longer in the hands of this process.
    async fn sent(&self, channel: &dyn Channel, delivery: &Delivery) -> Option<DeliveryChange> {
        let at = self.store.now();
        if delivery.expires_at.is_some_and(|expires| expires <= at) {
            return Some(DeliveryChange::Failed { error: delivery.late(), at });
        }
        let capabilities = channel.capabilities();
        let mut offset = usize::try_from(delivery.sent_bytes).unwrap_or(usize::MAX);
        let mut message_id = None;
        while offset < delivery.text.len() {
            let part = next_part(&delivery.text, offset, capabilities.max_text);
            if !part.text.trim().is_empty() {
                let outgoing = Outgoing {
                    delivery: delivery.id.clone(),
                    offset: offset as u64,
                    route: delivery.route.clone(),
                    reply_to: delivery.reply_to.clone(),
                    text: part.text,
                };
                let late =
                    || SendError::passing(format!("it took longer than {} s", capabilities.send_timeout.as_secs()));
                let sent = tokio::time::timeout(capabilities.send_timeout, channel.send(outgoing)).await;
                match sent.unwrap_or_else(|_| Err(late())) {
                    Ok(id) => message_id = id.or(message_id),
                    Err(error) => return Some(self.not_sent(delivery, &error)),
                }
            }
            offset = part.end;
            if offset < delivery.text.len() {
                let change = DeliveryChange::Part { sent_bytes: offset as u64, message_id: message_id.clone() };
                if !self.change(delivery, change).await {
                    return None;
                }
            }
        }
        Some(DeliveryChange::Sent { message_id, at: self.store.now() })
    }

    /// Returns what becomes of a text that was not sent.
    fn not_sent(&self, delivery: &Delivery, error: &SendError) -> DeliveryChange {
        let at = self.store.now();
        let reason = one_line(&error.to_string(), MOST_REASON);
        match error {
            SendError::Permanent { .. } => DeliveryChange::Failed { error: reason, at },
            SendError::Passing { retry_after, .. } => {
                let pause = retry_after.map_or_else(|| pause(delivery.attempts), |wish| wish.min(LONGEST_WISH));
                let next_at = at.saturating_add(i64::try_from(pause.as_millis()).unwrap_or(i64::MAX));
                DeliveryChange::Later { next_at, error: reason }
            }
        }
    }

    /// Stores a change, however often that is tried: a text that was sent must not be forgotten. Returns `false` if another process has the
    /// text.
    async fn change(&self, delivery: &Delivery, change: DeliveryChange) -> bool {
        let mut is_told = false;
        loop {
            match self.store.change_delivery(&delivery.id, delivery.fence, change.clone()).await {
                Ok(()) => return true,
                Err(StoreError::Missing { .. }) => return false,
                Err(error) if !std::mem::replace(&mut is_told, true) => {
                    tracing::warn!(delivery = %delivery.id, "what came of a text cannot be stored, and is tried again: {error}");
                }
                Err(_) => {}
            }
            tokio::time::sleep(STORE_AGAIN).await;
        }
    }
}

/// A text that this process is sending, until it is dropped.
struct Sending {
    outbox: Arc<Outbox>,
    id: DeliveryId,
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.outbox.sending().remove(&self.id);
    }
}

/// Returns when something is done about a text: it is sent, or has failed.
fn due_at(delivery: &Delivery) -> Millis {
    delivery.expires_at.map_or(delivery.next_at, |expires| expires.min(delivery.next_at))
}

/// Returns the pause after so many attempts.
fn pause(attempts: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1))).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds = [1, 2, 3, 9, 40].map(|attempts| pause(attempts).as_secs());
        assert_eq!(seconds, [1, 2, 4, 256, 300]);
    }
}
