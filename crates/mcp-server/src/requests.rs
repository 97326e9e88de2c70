//! The requests that clients wait for, and what happens to the calls within them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pincer_store::{ApprovalId, CallId, RunId};
use pincer_tools::{BoxFuture, Event, EventSink, Request, UpdateSink};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// What there is to tell whoever attends to a request.
pub(crate) enum News {
    /// Something happened to a call within it.
    Event(Box<Event>),
    /// A person must answer this question. It may be told more than once.
    Question(ApprovalId),
    /// A tool asks for something of the client.
    Asked(Request, oneshot::Sender<Option<Value>>),
}

/// Where events of the door go: each to the request it is part of. Whoever builds the door gives it this.
#[derive(Clone, Default)]
pub struct Requests(Arc<Mutex<HashMap<String, UnboundedSender<News>>>>);

/// A request for as long as somebody attends to it.
pub(crate) struct Attended {
    all: Requests,
    ids: Vec<String>,
    pub news: UnboundedReceiver<News>,
    pub sink: Arc<Sink>,
}

/// Passes on what tools ask for.
pub(crate) struct Sink(UnboundedSender<News>);

impl Requests {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, UnboundedSender<News>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attends to the calls that are part of this one.
    pub(crate) fn attend(&self, id: &str) -> Attended {
        let (tell, news) = unbounded_channel();
        self.lock().insert(id.to_owned(), tell.clone());
        Attended { all: self.clone(), ids: vec![id.to_owned()], news, sink: Arc::new(Sink(tell)) }
    }
}

impl Attended {
    /// Attends to the calls of this run too, unless somebody does.
    pub(crate) fn also(mut self, run: &RunId) -> Self {
        self.all.lock().entry(run.to_string()).or_insert_with(|| self.sink.0.clone());
        self.ids.push(run.to_string());
        self
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        for id in &self.ids {
            if all.get(id).is_some_and(|tell| tell.same_channel(&self.sink.0)) {
                all.remove(id);
            }
        }
    }
}

impl EventSink for Requests {
    fn event(&self, event: Event) {
        // The request is the call itself, that within which it is made, or that with which its run is continued.
        let requests = self.lock();
        let ids = [
            event.parent.as_ref().map(CallId::as_str),
            Some(event.call.as_str()),
            event.run.as_ref().map(RunId::as_str),
        ];
        let of = ids.into_iter().flatten().find_map(|id| requests.get(id));
        if let Some(tell) = of {
            let _ = tell.send(News::Event(Box::new(event)));
        }
    }

    fn wants_values(&self) -> bool {
        false
    }
}

impl UpdateSink for Sink {
    fn update(&self, _update: Value) {}

    fn asked(&self, approval: &ApprovalId) {
        let _ = self.0.send(News::Question(approval.clone()));
    }

    fn ask(&self, request: Request) -> BoxFuture<'_, Option<Value>> {
        let (answer, answered) = oneshot::channel();
        let sent = self.0.send(News::Asked(request, answer));
        Box::pin(async move {
            sent.ok()?;
            // Nobody attends any more: nobody answers.
            answered.await.ok().flatten()
        })
    }
}
