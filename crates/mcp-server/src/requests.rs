//! The requests that clients wait for, and what happens to the calls within them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pincer_tools::{BoxFuture, Event, EventKind, EventSink, Request, UpdateSink};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// What there is to tell whoever attends to a request.
pub(crate) enum News {
    /// Something happened to a call within it.
    Event(Event),
    /// A tool asks for something of the client.
    Asked(Request, oneshot::Sender<Option<Value>>),
}

/// Where events of the door go: each to the request it is part of. Whoever builds the door gives it this.
#[derive(Clone, Default)]
pub struct Requests(Arc<Mutex<HashMap<String, UnboundedSender<News>>>>);

/// A request for as long as somebody attends to it.
pub(crate) struct Attended {
    all: Requests,
    id: String,
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
        Attended { all: self.clone(), id: id.to_owned(), news, sink: Arc::new(Sink(tell)) }
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

impl EventSink for Requests {
    fn event(&self, event: Event) {
        // The request is the call itself, or that within which it is made.
        let requests = self.lock();
        let of = event.parent.as_ref().and_then(|parent| requests.get(parent)).or_else(|| requests.get(&event.call));
        if let Some(tell) = of {
            let _ = tell.send(News::Event(event));
        }
    }

    fn wants_values(&self) -> bool {
        false
    }
}

impl UpdateSink for Sink {
    fn update(&self, _update: Value) {}

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

/// Whether an event is about something that a person must answer.
pub(crate) fn question(event: &Event) -> Option<&str> {
    match &event.what {
        EventKind::ApprovalRequested { approval } => Some(approval),
        _ => None,
    }
}
