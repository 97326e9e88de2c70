//! Texts on their way to channels: sending one of the operator's own, listing them, and taking one back.

use std::io::{Read, stdin};
use std::thread::sleep;
use std::time::{Duration, Instant};

use pincer_runtime::Principal;
use pincer_store::{
    Clock, Deliveries, Delivery, DeliveryId, DeliveryPage, DeliverySource, DeliveryState, Enqueued, MOST_PENDING,
    NewDelivery, Route,
};
use pincer_store_sqlite::SqliteStore;
use pincer_tools::one_line;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::print::{chain, line, note};
use crate::refused::{Refused, report};
use crate::usage::LocationArguments;
use crate::usage_channels::SendArguments;
use crate::{DONE, FAILED, WAITING, WRONG_USAGE, settings, state};

/// The interval at which it is looked again whether a text was sent.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// The most bytes of a text.
const MOST_TEXT: u64 = 1 << 20;
/// The characters of a text that a row shows.
const SHOWN: usize = 60;

pub(super) fn send(locations: &LocationArguments, arguments: &SendArguments, as_json: bool) -> u8 {
    let sent = stored(locations, arguments).and_then(|(store, delivery)| {
        let waited = Duration::from_secs(arguments.timeout);
        let (mut delivery, began) = (delivery, Instant::now());
        while delivery.state == DeliveryState::Pending && began.elapsed() < waited {
            sleep(LOOK_AGAIN);
            delivery = store.delivery(&delivery.id).wait()?;
        }
        Ok(delivery)
    });
    let delivery = match sent {
        Ok(delivery) => delivery,
        Err(Refused(code, error)) => {
            note(&format!("error: {error}"));
            return code;
        }
    };
    if as_json {
        line(&document(&delivery).to_string());
    }
    let why = delivery.error.as_deref().map(|error| format!(": {}", one_line(error, 500))).unwrap_or_default();
    let (code, text) = match delivery.state {
        DeliveryState::Sent => (DONE, format!("sent {}", delivery.id)),
        DeliveryState::Pending if delivery.attempts == 0 => {
            (WAITING, format!("{} waits: `pincer channels start` sends it, if no other process does", delivery.id))
        }
        DeliveryState::Pending => (WAITING, format!("{} waits, and is tried again{why}", delivery.id)),
        DeliveryState::Failed | DeliveryState::Cancelled => {
            (FAILED, format!("error: {} was not sent{why}", delivery.id))
        }
    };
    match (as_json, code) {
        (true, _) => {}
        (false, DONE) => line(&text),
        (false, _) => note(&text),
    }
    code
}

/// Stores a text of the operator's.
fn stored(locations: &LocationArguments, arguments: &SendArguments) -> Result<(SqliteStore, Delivery), Refused> {
    let loaded = settings::ready(locations).map_err(|code| Refused(code, "the config cannot be used".into()))?;
    let config = &loaded.parsed.config;
    if !config.channels.get(&arguments.name).is_some_and(|channel| channel.enabled) {
        let why =
            format!("there is no channel {} that is turned on: `pincer channels list` shows them", arguments.name);
        return Err(Refused(WRONG_USAGE, why));
    }
    let mut text = arguments.message.clone();
    if text == "-" {
        text.clear();
        let read = stdin().take(MOST_TEXT + 1).read_to_string(&mut text);
        read.map_err(|error| Refused(FAILED, format!("standard input cannot be read: {error}")))?;
    }
    if text.trim().is_empty() || text.len() as u64 > MOST_TEXT {
        return Err(Refused(WRONG_USAGE, format!("the text must have something in it, and at most {MOST_TEXT} bytes")));
    }
    let store = state::open(locations).map_err(|error| Refused(FAILED, chain(&error)))?;
    let now = store.now();
    let id = DeliveryId::from(format!("dl_{}", Uuid::now_v7()));
    let new = NewDelivery {
        key: arguments.key.as_ref().map_or_else(|| id.to_string(), |key| format!("operator/{key}")),
        id,
        user: Principal::of_this_process().user().to_owned(),
        run: None,
        source: DeliverySource::Operator,
        route: Route {
            channel: arguments.name.clone(),
            account: None,
            to: arguments.to.clone(),
            thread: arguments.thread.clone(),
        },
        reply_to: None,
        text: text.into(),
        expires_at: now.checked_add(config.delivery_lifetime_ms(&arguments.name)),
        now,
    };
    let delivery = match store.enqueue(new).wait()? {
        Enqueued::New(delivery) | Enqueued::Same(delivery) => delivery,
        Enqueued::Different(other) => {
            return Err(Refused(WRONG_USAGE, format!("another text was sent under this id ({other}): use a new id")));
        }
        Enqueued::Full => {
            return Err(Refused(FAILED, format!("{MOST_PENDING} texts wait for {} already", arguments.to)));
        }
    };
    Ok((store, delivery))
}

pub(super) fn list(
    locations: &LocationArguments,
    channel: Option<String>,
    state: Option<DeliveryState>,
    limit: u32,
    as_json: bool,
) -> u8 {
    let listed = state::open(locations).map_err(|error| Refused(FAILED, chain(&error))).and_then(|store| {
        // A channel that no process runs ends none of its texts.
        while !store.expire_deliveries(store.now()).wait()?.is_empty() {}
        let all = store.deliveries(DeliveryPage { channel, state, limit }).wait()?;
        let rows: Vec<String> = all.iter().map(row).collect();
        let text = if rows.is_empty() { "nothing was to be sent".to_owned() } else { rows.join("\n") };
        Ok((all.iter().map(document).collect::<Value>(), text))
    });
    report(listed, as_json)
}

pub(super) fn cancel(locations: &LocationArguments, id: &str, as_json: bool) -> u8 {
    let cancelled = state::open(locations).map_err(|error| Refused(FAILED, chain(&error))).and_then(|store| {
        let id = found(&store, id)?;
        if !store.cancel_delivery(&id, "it was taken back by the operator", store.now()).wait()? {
            let state = store.delivery(&id).wait()?.state;
            return Err(Refused(FAILED, format!("{id} cannot be taken back: it is {}", state.as_str())));
        }
        Ok((document(&store.delivery(&id).wait()?), format!("{id} is not sent any more")))
    });
    report(cancelled, as_json)
}

/// Returns the one delivery whose id begins so.
fn found(store: &SqliteStore, id: &str) -> Result<DeliveryId, Refused> {
    if let Ok(delivery) = store.delivery(&id.into()).wait() {
        return Ok(delivery.id);
    }
    let pending = DeliveryPage { state: Some(DeliveryState::Pending), limit: u32::MAX, channel: None };
    let mut found = store.deliveries(pending).wait()?.into_iter().map(|delivery| delivery.id);
    let mut found = found.by_ref().filter(|known| known.as_str().starts_with(id));
    match (found.next(), found.next()) {
        (Some(only), None) => Ok(only),
        (None, _) => Err(Refused(FAILED, format!("no text that waits has the id {id}"))),
        (Some(_), Some(_)) => Err(Refused(WRONG_USAGE, format!("more than one id begins with {id}: write more of it"))),
    }
}

fn document(delivery: &Delivery) -> Value {
    json!({
        "id": delivery.id,
        "channel": delivery.route.channel,
        "to": delivery.route.to,
        "thread": delivery.route.thread,
        "source": delivery.source,
        "runId": delivery.run,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "text": delivery.text,
        "error": delivery.error,
        "messageId": delivery.message_id,
        "createdAt": delivery.created_at,
        "nextAt": (delivery.state == DeliveryState::Pending).then_some(delivery.next_at),
        "expiresAt": delivery.expires_at,
        "endedAt": delivery.ended_at,
    })
}

fn row(delivery: &Delivery) -> String {
    let Delivery { id, route, state, text, .. } = delivery;
    let why = delivery.error.as_deref().map(|error| format!("  ({})", one_line(error, SHOWN))).unwrap_or_default();
    let to = one_line(&route.to, SHOWN);
    format!("{id}  {:9}  {} {to}  {}{why}", state.as_str(), route.channel, one_line(text, SHOWN))
}
