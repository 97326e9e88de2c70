//! The calls that a server is at work on, and who made them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pincer_catalog::shortened;
use pincer_tools::{Context, UpdateSink};
use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use serde_json::{Value, json};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;

use crate::limits::{MOST_PROGRESS_CHARS, MOST_UPDATES};

/// The caller of a tool: told of its progress, and asked what the server asks.
#[derive(Clone)]
pub(crate) struct Caller {
    pub updates: Arc<dyn UpdateSink>,
    /// Two calls of one session and sender come from the same people.
    people: (String, Option<String>),
}

impl Caller {
    pub(crate) fn new(updates: Arc<dyn UpdateSink>, context: &Context) -> Self {
        Self { updates, people: (context.session.to_string(), context.sender.clone()) }
    }
}

/// The calls that a server is at work on.
#[derive(Default)]
pub(crate) struct InFlight {
    flights: Mutex<Vec<Flight>>,
    /// Held while a request is sent: the server may tell of it before it is known here.
    pub sending: AsyncMutex<()>,
}

struct Flight {
    id: RequestId,
    token: ProgressToken,
    caller: Caller,
    over: CancellationToken,
    pace: Pace,
}

/// How often something was told of late.
struct Pace {
    since: Instant,
    count: u32,
}

impl Pace {
    fn admits(&mut self) -> bool {
        if self.since.elapsed() > Duration::from_secs(1) {
            *self = Self { since: Instant::now(), count: 0 };
        }
        self.count = self.count.saturating_add(1);
        self.count <= MOST_UPDATES
    }
}

/// A call that is under way for as long as this is kept.
pub(crate) struct UnderWay {
    all: Arc<InFlight>,
    id: RequestId,
    over: CancellationToken,
}

/// Whom a server may ask.
pub(crate) struct Answerer {
    pub updates: Arc<dyn UpdateSink>,
    /// The call is over, and its questions with it.
    pub over: CancellationToken,
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, Vec<Flight>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(self: &Arc<Self>, id: RequestId, token: ProgressToken, caller: Caller) -> UnderWay {
        let over = CancellationToken::new();
        let pace = Pace { since: Instant::now(), count: 0 };
        self.lock().push(Flight { id: id.clone(), token, caller, over: over.clone(), pace });
        UnderWay { all: Arc::clone(self), id, over }
    }

    /// Tells whoever made the call of its progress. What comes too often is not told.
    pub(crate) fn progress(&self, told: ProgressNotificationParam) {
        let updates = {
            let mut flights = self.lock();
            let flight = flights.iter_mut().find(|flight| flight.token == told.progress_token);
            let Some(flight) = flight else { return };
            if !flight.pace.admits() {
                return;
            }
            Arc::clone(&flight.caller.updates)
        };
        let message = told.message.map(|message| shortened(&message, MOST_PROGRESS_CHARS).into());
        let mut update = json!({ "progress": told.progress });
        for (key, value) in [("total", told.total.map(Value::from)), ("message", message)] {
            if let Some(value) = value {
                update[key] = value;
            }
        }
        updates.update(update);
    }

    /// Whom a question of the server is for: the maker of the call that it comes with, if that is known; otherwise of the
    /// latest one, as long as all come from the same people. A question must not reach anybody else.
    pub(crate) async fn asked(&self, origin: Option<&RequestId>) -> Option<Answerer> {
        // A call that is being sent may be the one that the question is about.
        let _known = self.sending.lock().await;
        let flights = self.lock();
        let found = match origin {
            Some(id) => flights.iter().find(|flight| flight.id == *id),
            None => {
                let last = flights.last()?;
                flights.iter().all(|flight| flight.caller.people == last.caller.people).then_some(last)
            }
        };
        found.map(|flight| Answerer { updates: Arc::clone(&flight.caller.updates), over: flight.over.clone() })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.over.cancel();
        self.all.lock().retain(|flight| flight.id != self.id);
    }
}
