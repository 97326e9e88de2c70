//! Requests, and the progress of their answers.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

/// A request as the server got it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The method, in capitals.
    pub method: String,
    /// The path, without a query.
    pub path: String,
    /// The query, without the question mark.
    pub query: String,
    /// The headers. Names are in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body as JSON; `null` if there is none, or if it is no JSON.
    pub body: Value,
    /// The body as it was sent.
    pub text: String,
}

impl Request {
    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(&name.to_ascii_lowercase()).map(String::as_str)
    }
}

/// The end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All of it was sent.
    Sent,
    /// The server closed the connection, as the script said.
    Truncated,
    /// The client closed the connection before the end.
    Left,
}

/// The progress of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Answering,
    Stalled,
    Ended(End),
}

#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) request: Arc<Request>,
    pub(crate) stage: Stage,
}

/// All exchanges, in the order of their requests. Tests await changes instead of sleeping.
#[derive(Debug, Clone)]
pub(crate) struct Exchanges(watch::Sender<Vec<Exchange>>);

impl Exchanges {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(Vec::new()))
    }

    /// Notes a request. The mark notes what becomes of it.
    pub(crate) fn begin(&self, request: &Arc<Request>) -> Mark {
        let mut index = 0;
        self.0.send_modify(|exchanges| {
            index = exchanges.len();
            exchanges.push(Exchange { request: Arc::clone(request), stage: Stage::Answering });
        });
        Mark { exchanges: self.clone(), index }
    }

    pub(crate) fn requests(&self) -> Vec<Arc<Request>> {
        self.0.borrow().iter().map(|exchange| Arc::clone(&exchange.request)).collect()
    }

    /// Waits until `find` finds something in the exchange with this index.
    pub(crate) async fn until<T>(&self, index: usize, find: impl Fn(&Exchange) -> Option<T>) -> T {
        let find = |exchanges: &Vec<Exchange>| exchanges.get(index).and_then(&find);
        let mut changes = self.0.subscribe();
        loop {
            let found = find(&changes.borrow_and_update());
            if let Some(found) = found {
                return found;
            }
            if changes.changed().await.is_err() {
                // Unreachable while `self` is there, which has a sender.
                return pending().await;
            }
        }
    }
}

/// Notes what becomes of one answer. If it is dropped before the end, the client has left.
#[derive(Debug)]
pub(crate) struct Mark {
    exchanges: Exchanges,
    index: usize,
}

impl Mark {
    /// Returns the request's number, counted from 1.
    pub(crate) fn number(&self) -> usize {
        self.index + 1
    }

    /// Notes a stage. An end is final.
    pub(crate) fn reached(&self, stage: Stage) {
        self.exchanges.0.send_if_modified(|exchanges| match exchanges.get_mut(self.index) {
            Some(exchange) if !matches!(exchange.stage, Stage::Ended(_)) => {
                exchange.stage = stage;
                true
            }
            _ => false,
        });
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.reached(Stage::Ended(End::Left));
    }
}
