//! Deliveries in rows.

use std::sync::Arc;

use pincer_store::{
    AgentRunId, Deliveries, Delivery, DeliveryChange, DeliveryId, DeliveryPage, DeliveryState, Enqueued, Fence,
    MOST_PENDING, Millis, NewDelivery, OwnerId, Reply, Route, Safety, StoreError,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::sync::watch;

use crate::SqliteStore;
use crate::rows::{id, optional_id, state};
use crate::store::Refused;

const COLUMNS: &str = "id, user, run, source, key, channel, account, recipient, thread, reply_to, text, state, attempts, next_at, \
                       sent_bytes, is_checked, error, message_id, created_at, expires_at, ended_at, owner, fence, original";
/// The first pending delivery of each route of a channel. The index holds pending deliveries only.
pub(crate) const FIRST: &str =
    "SELECT min(number) FROM delivery WHERE state = 'pending' AND channel = ?1 GROUP BY route";
/// The pending deliveries whose time is over.
pub(crate) const EXPIRED: &str = "SELECT number FROM delivery WHERE state = 'pending' AND expires_at <= ?1
                                  AND (owner IS NULL OR expires_at <= ?1 - 3600000) LIMIT 100";
/// The most deliveries that are forgotten in one step: other processes must not wait for long.
const FORGOTTEN_AT_ONCE: u32 = 500;

fn read(row: &Row<'_>) -> rusqlite::Result<Delivery> {
    Ok(Delivery {
        id: id(row, 0)?,
        user: row.get(1)?,
        run: optional_id(row, 2)?,
        source: state(row, 3)?,
        key: row.get(4)?,
        route: Route { channel: row.get(5)?, account: row.get(6)?, to: row.get(7)?, thread: row.get(8)? },
        reply_to: row.get(9)?,
        text: row.get(10)?,
        state: state(row, 11)?,
        attempts: row.get(12)?,
        next_at: row.get(13)?,
        sent_bytes: u64::try_from(row.get::<_, i64>(14)?).unwrap_or(0),
        is_checked: row.get(15)?,
        error: row.get(16)?,
        message_id: row.get(17)?,
        created_at: row.get(18)?,
        expires_at: row.get(19)?,
        ended_at: row.get(20)?,
        owner: optional_id(row, 21)?,
        fence: Fence(row.get(22)?),
        original: row.get(23)?,
    })
}

/// Returns the text that tells a route from every other one of its channel. Lengths stand before the parts, so no two are alike.
fn route_key(route: &Route) -> String {
    let part = |part: &Option<String>| part.as_ref().map_or("-".to_owned(), |part| format!("{}:{part}", part.len()));
    format!("{}{}{}", part(&route.account), part(&Some(route.to.clone())), part(&route.thread))
}

fn find(connection: &Connection, id: &DeliveryId) -> Result<Delivery, Refused> {
    let query = format!("SELECT {COLUMNS} FROM delivery WHERE id = ?1");
    let found = connection.prepare_cached(&query)?.query_row([id.as_str()], read).optional()?;
    found.ok_or_else(|| missing(id))
}

fn missing(id: &DeliveryId) -> Refused {
    StoreError::Missing { what: "delivery", id: id.to_string() }.into()
}

fn is_full(connection: &Connection, route: &Route) -> rusqlite::Result<bool> {
    let count = "SELECT count(*) FROM delivery WHERE state = 'pending' AND channel = ?1 AND route = ?2";
    let of = (&route.channel, route_key(route));
    Ok(connection.prepare_cached(count)?.query_row(of, |row| row.get::<_, u32>(0))? >= MOST_PENDING)
}

fn insert(connection: &Connection, new: &NewDelivery, failed: Option<&str>) -> Result<(), Refused> {
    let insert = "INSERT INTO delivery (id, user, run, source, key, channel, account, recipient, thread, route, reply_to, text, state,
                    next_at, error, created_at, expires_at, ended_at)
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?14, ?16, ?17)
                  ON CONFLICT (user, key) DO NOTHING";
    let Route { channel, account, to, thread } = &new.route;
    let state = if failed.is_some() { DeliveryState::Failed } else { DeliveryState::Pending };
    connection.prepare_cached(insert)?.execute(params![
        new.id.as_str(),
        new.user,
        new.run.as_ref().map(AgentRunId::as_str),
        new.source.as_str(),
        new.key,
        channel,
        account,
        to,
        thread,
        route_key(&new.route),
        new.reply_to,
        &*new.text,
        state.as_str(),
        new.now,
        failed,
        new.expires_at,
        failed.map(|_| new.now),
    ])?;
    Ok(())
}

/// Stores deliveries as part of another commit, which their route being full must not fail.
pub(crate) fn store(connection: &Connection, deliveries: &[NewDelivery]) -> Result<(), Refused> {
    for new in deliveries {
        let why = format!("{MOST_PENDING} texts wait for this route already");
        insert(connection, new, is_full(connection, &new.route)?.then_some(&why))?;
    }
    Ok(())
}

fn enqueue(connection: &Connection, new: &NewDelivery) -> Result<Enqueued, Refused> {
    let known = format!("SELECT {COLUMNS}, coalesce(original, text) = ?3 FROM delivery WHERE user = ?1 AND key = ?2");
    let of = (&new.user, &new.key, &*new.text);
    let known = connection.prepare_cached(&known)?.query_row(of, |row| Ok((read(row)?, row.get::<_, bool>(24)?)));
    if let Some((known, is_same)) = known.optional()? {
        return Ok(match is_same && known.route == new.route {
            true => Enqueued::Same(known),
            false => Enqueued::Different(known.id),
        });
    }
    if is_full(connection, &new.route)? {
        return Ok(Enqueued::Full);
    }
    insert(connection, new, None)?;
    Ok(Enqueued::New(find(connection, &new.id)?))
}

fn change(connection: &Connection, id: &DeliveryId, fence: Fence, change: &DeliveryChange) -> Result<(), Refused> {
    const WHOSE: &str = "WHERE id = ?1 AND fence = ?2 AND state = 'pending'";
    let end = |state: DeliveryState, error: Option<&str>, message_id: Option<&str>, at: Millis| {
        let end = format!(
            "UPDATE delivery SET state = ?3, error = ?4, message_id = coalesce(?5, message_id), ended_at = ?6, owner = NULL,
             fence = fence + 1, sent_bytes = CASE WHEN ?3 = 'sent' THEN length(CAST(text AS BLOB)) ELSE sent_bytes END {WHOSE}"
        );
        connection.prepare_cached(&end)?.execute(params![id.as_str(), fence.0, state.as_str(), error, message_id, at])
    };
    let changed = match change {
        DeliveryChange::Checked { text } => {
            let update = format!(
                "UPDATE delivery SET is_checked = 1, original = iif(?3 IS NULL, original, coalesce(original, text)),
                 text = coalesce(?3, text) {WHOSE}"
            );
            connection.prepare_cached(&update)?.execute(params![id.as_str(), fence.0, text.as_deref()])
        }
        DeliveryChange::Part { sent_bytes, message_id } => {
            let sent = i64::try_from(*sent_bytes).unwrap_or(i64::MAX);
            let update = format!("UPDATE delivery SET sent_bytes = ?3, message_id = coalesce(?4, message_id) {WHOSE}");
            connection.prepare_cached(&update)?.execute(params![id.as_str(), fence.0, sent, message_id])
        }
        DeliveryChange::Later { next_at, error } => {
            let update =
                format!("UPDATE delivery SET next_at = ?3, error = ?4, owner = NULL, fence = fence + 1 {WHOSE}");
            connection.prepare_cached(&update)?.execute(params![id.as_str(), fence.0, next_at, error])
        }
        DeliveryChange::Sent { message_id, at } => end(DeliveryState::Sent, None, message_id.as_deref(), *at),
        DeliveryChange::Failed { error, at } => end(DeliveryState::Failed, Some(error), None, *at),
        DeliveryChange::Cancelled { error, at } => end(DeliveryState::Cancelled, Some(error), None, *at),
    };
    if changed? == 0 { Err(missing(id)) } else { Ok(()) }
}

/// Cancels what waits in a backup: it may have been sent since.
pub(crate) fn cancel_all(connection: &Connection, now: Millis) -> rusqlite::Result<usize> {
    let cancel = "UPDATE delivery SET state = 'cancelled', ended_at = ?1, owner = NULL, fence = fence + 1,
                  error = 'the store was restored from a backup, and this may have been sent since' WHERE state = 'pending'";
    connection.execute(cancel, [now])
}

/// Removes the texts of the runs of a session that is forgotten. Those that wait were promised, and are sent.
pub(crate) fn forget_of_session(connection: &Connection, session: i64) -> rusqlite::Result<()> {
    let forget =
        "DELETE FROM delivery WHERE state <> 'pending' AND run IN (SELECT id FROM agent_run WHERE session = ?1)";
    connection.prepare_cached(forget)?.execute([session]).map(drop)
}

impl SqliteStore {
    /// Returns news of deliveries that this process stores. Those of other processes are told by
    /// [`Changes`](pincer_store::Changes).
    pub fn delivery_news(&self) -> watch::Receiver<u64> {
        self.core.delivery_news.subscribe()
    }

    /// Tells of deliveries once a commit with them is done.
    pub(crate) fn told_of_deliveries<T: Send + 'static>(&self, has_some: bool, reply: Reply<T>) -> Reply<T> {
        if !has_some {
            return reply;
        }
        let core = Arc::clone(&self.core);
        reply.map(move |done| {
            if done.is_ok() {
                core.delivery_news.send_modify(|count| *count += 1);
            }
            done
        })
    }
}

impl Deliveries for SqliteStore {
    fn enqueue(&self, delivery: NewDelivery) -> Reply<Enqueued> {
        let bytes = delivery.text.len();
        let reply = self.transaction(Safety::Power, bytes, move |connection| enqueue(connection, &delivery));
        self.told_of_deliveries(true, reply)
    }

    fn delivery(&self, id: &DeliveryId) -> Reply<Delivery> {
        self.look_up(|connection| find(connection, id))
    }

    fn first_deliveries(&self, channel: &str) -> Reply<Vec<Delivery>> {
        self.look_up(|connection| {
            let query = format!("SELECT {COLUMNS} FROM delivery WHERE number IN ({FIRST}) ORDER BY next_at, number");
            Ok(connection.prepare_cached(&query)?.query_map([channel], read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn claim_delivery(&self, id: &DeliveryId, seen: Fence, owner: &OwnerId) -> Reply<Delivery> {
        let (id, owner) = (id.clone(), owner.clone());
        self.transaction(Safety::Process, 0, move |connection| {
            let claim = "UPDATE delivery SET owner = ?3, fence = fence + 1, attempts = attempts + 1
                         WHERE id = ?1 AND fence = ?2 AND state = 'pending'";
            match connection.prepare_cached(claim)?.execute((id.as_str(), seen.0, owner.as_str()))? {
                0 => Err(missing(&id)),
                _ => find(connection, &id),
            }
        })
    }

    fn change_delivery(&self, id: &DeliveryId, fence: Fence, new: DeliveryChange) -> Reply<()> {
        let id = id.clone();
        self.transaction(Safety::Process, 0, move |connection| change(connection, &id, fence, &new))
    }

    fn cancel_delivery(&self, id: &DeliveryId, reason: &str, now: Millis) -> Reply<bool> {
        let (id, reason) = (id.clone(), reason.to_owned());
        self.transaction(Safety::Power, 0, move |connection| {
            let delivery = find(connection, &id)?;
            if delivery.state != DeliveryState::Pending {
                return Ok(false);
            }
            let end = DeliveryChange::Cancelled { error: reason.clone(), at: now };
            change(connection, &id, delivery.fence, &end).map(|()| true)
        })
    }

    fn hurry_deliveries(&self, channel: &str, now: Millis) -> Reply<usize> {
        let channel = channel.to_owned();
        self.transaction(Safety::Process, 0, move |connection| {
            let hurry = "UPDATE delivery SET next_at = ?2
                         WHERE state = 'pending' AND channel = ?1 AND owner IS NULL AND next_at > ?2";
            Ok(connection.prepare_cached(hurry)?.execute((&channel, now))?)
        })
    }

    fn expire_deliveries(&self, now: Millis) -> Reply<Vec<Delivery>> {
        self.transaction(Safety::Process, 0, move |connection| {
            let expired = format!("SELECT {COLUMNS} FROM delivery WHERE number IN ({EXPIRED})");
            let mut expired = connection.prepare_cached(&expired)?;
            let expired: Vec<Delivery> = expired.query_map([now], read)?.collect::<rusqlite::Result<_>>()?;
            let ended = expired.into_iter().map(|delivery| {
                let end = DeliveryChange::Failed { error: delivery.late(), at: now };
                change(connection, &delivery.id, delivery.fence, &end)?;
                find(connection, &delivery.id)
            });
            ended.collect()
        })
    }

    fn deliveries(&self, page: DeliveryPage) -> Reply<Vec<Delivery>> {
        self.read(move |connection| {
            let query = format!(
                "SELECT {COLUMNS} FROM delivery WHERE (?1 IS NULL OR channel = ?1) AND (?2 IS NULL OR state = ?2)
                 ORDER BY number DESC LIMIT ?3"
            );
            let of = (&page.channel, page.state.map(DeliveryState::as_str), page.limit);
            Ok(connection.prepare_cached(&query)?.query_map(of, read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn deliveries_of_run(&self, run: &AgentRunId) -> Reply<Vec<Delivery>> {
        self.look_up(|connection| {
            let query = format!("SELECT {COLUMNS} FROM delivery WHERE run = ?1 ORDER BY number");
            Ok(connection.prepare_cached(&query)?.query_map([run.as_str()], read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn forget_deliveries(&self, ended_before: Millis) -> Reply<usize> {
        self.transaction(Safety::Process, 0, move |connection| {
            let forget = "DELETE FROM delivery WHERE number IN (SELECT number FROM delivery
                            WHERE ended_at IS NOT NULL AND ended_at < ?1 AND NOT EXISTS (SELECT 1 FROM agent_run
                                WHERE agent_run.id = delivery.run AND agent_run.ended_at IS NULL) LIMIT ?2)";
            Ok(connection.prepare_cached(forget)?.execute((ended_before, FORGOTTEN_AT_ONCE))?)
        })
    }
}
