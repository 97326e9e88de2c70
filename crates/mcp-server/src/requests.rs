//! Events of the calls within a request that a client waits for.

use std::sync::Arc;

use pincer_store::{ApprovalId, CallId, RunId};
use pincer_tools::{BoxFuture, Event, Filter, Hub, Request, Subscription, Told, UpdateSink};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// News for the request.
pub(crate) enum News {
    /// Something happened to a call within it.
    Event(Arc<Event>),
    /// A person must answer this question. It may be told more than once.
    Question(ApprovalId),
    /// A tool asks for something of the client.
    Asked(Request, oneshot::Sender<Option<Value>>),
}

/// A request that is attended to.
pub(crate) struct Attended {
    events: Subscription,
    asked: UnboundedReceiver<News>,
    pub(crate) sink: Arc<Sink>,
}

/// Passes on what tools ask for, and questions to a person.
pub(crate) struct Sink(UnboundedSender<News>);

impl Attended {
    /// Attends to the calls that are part of this one.
    pub(crate) fn new(hub: &Hub, call: &CallId) -> Self {
        let (tell, asked) = unbounded_channel();
        Self { events: hub.subscribe(Filter::of_call(call)), asked, sink: Arc::new(Sink(tell)) }
    }

    /// Attends to the calls of this run too, unless another request does: a person is asked once.
    pub(crate) fn also(mut self, run: &RunId) -> Self {
        self.events.take_run(run);
        self
    }

    /// Waits for news. Events that were missed are about progress: questions come by the sink too.
    pub(crate) async fn news(&mut self) -> News {
        loop {
            tokio::select! {
                biased;
                Some(news) = self.asked.recv() => return news,
                told = self.events.next() => {
                    if let Told::Event(event) = told {
                        return News::Event(event);
                    }
                }
            }
        }
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
            // A request that is over answers nothing.
            answered.await.ok().flatten()
        })
    }
}
