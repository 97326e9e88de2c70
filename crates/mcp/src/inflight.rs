//! The calls that a server is at work on, and who made them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pincer_tools::{Context, UpdateSink};
use rmcp::model::{ProgressToken, RequestId};

/// Who made a call.
#[derive(Clone)]
pub(crate) struct Caller {
    pub updates: Arc<dyn UpdateSink>,
    /// Two calls of one session and sender come from the same people.
    people: (String, Option<String>),
}

impl Caller {
    pub fn new(updates: Arc<dyn UpdateSink>, context: &Context) -> Self {
        Self { updates, people: (context.session.clone(), context.sender.clone()) }
    }
}

/// The calls that a server is at work on.
#[derive(Default)]
pub(crate) struct InFlight(Mutex<Vec<Flight>>);

struct Flight {
    id: RequestId,
    token: ProgressToken,
    caller: Caller,
}

/// A call that is under way for as long as this is kept.
pub(crate) struct UnderWay {
    all: Arc<InFlight>,
    id: RequestId,
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, Vec<Flight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(self: &Arc<Self>, id: RequestId, token: ProgressToken, caller: Caller) -> UnderWay {
        self.lock().push(Flight { id: id.clone(), token, caller });
        UnderWay { all: Arc::clone(self), id }
    }

    /// Who is told of progress under this token.
    pub fn by_token(&self, token: &ProgressToken) -> Option<Arc<dyn UpdateSink>> {
        let flights = self.lock();
        flights.iter().find(|flight| flight.token == *token).map(|flight| Arc::clone(&flight.caller.updates))
    }

    /// Whom a question of the server is for: the maker of the call that it comes with, if that is known; otherwise of the
    /// latest one, as long as all come from the same people. A question must not reach anybody else.
    pub fn asked(&self, origin: Option<&RequestId>) -> Option<Arc<dyn UpdateSink>> {
        let flights = self.lock();
        let found = match origin {
            Some(id) => flights.iter().find(|flight| flight.id == *id),
            None => {
                let last = flights.last()?;
                flights.iter().all(|flight| flight.caller.people == last.caller.people).then_some(last)
            }
        };
        found.map(|flight| Arc::clone(&flight.caller.updates))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.all.lock().retain(|flight| flight.id != self.id);
    }
}
