//! Why a request is not waited for any more: its client has taken it back, or has gone.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::http;
use rmcp::RoleServer;
use rmcp::model::RequestId;
use rmcp::service::RequestContext;
use tokio_util::sync::CancellationToken;

/// How often a connection is looked at that is about to be over.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Why a request is not waited for any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// The client does not want it.
    TakenBack,
    /// The connection is over, and nobody said anything of the request.
    Gone,
}

/// The requests of a connection that may be taken back.
#[derive(Default)]
pub(crate) struct Requested(Mutex<HashMap<RequestId, Work>>);

/// What is done for one request.
#[derive(Default)]
struct Work {
    taken_back: CancellationToken,
    /// How many things at once.
    count: usize,
}

/// A request for as long as something is done for it.
pub(crate) struct Wanted<'r> {
    all: &'r Requested,
    id: RequestId,
    taken_back: CancellationToken,
}

impl Requested {
    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, Work>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wanted(&self, request: &RequestContext<RoleServer>) -> Wanted<'_> {
        let (id, mut all) = (request.id.clone(), self.lock());
        let work = all.entry(id.clone()).or_default();
        work.count += 1;
        Wanted { all: self, id, taken_back: work.taken_back.clone() }
    }

    pub(crate) fn take_back(&self, id: &RequestId) {
        if let Some(work) = self.lock().get(id) {
            work.taken_back.cancel();
        }
    }
}

impl Wanted<'_> {
    /// Waits until it is not waited for. The SDK ends requests in the same way whether they are cancelled or their connection is
    /// over: what comes next tells which it was.
    pub(crate) async fn departure(&self, request: &RequestContext<RoleServer>) -> Departure {
        request.ct.cancelled().await;
        let has_session = request.protocol_version().is_none_or(|version| version.has_initialize());
        if !has_session && request.extensions.get::<http::request::Parts>().is_some() {
            // Whoever has no session hangs up to take a request back.
            return Departure::TakenBack;
        }
        let over = async {
            while !request.peer.is_transport_closed() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::select! {
            biased;
            () = self.taken_back.cancelled() => Departure::TakenBack,
            () = over => Departure::Gone,
        }
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(work) = all.get_mut(&self.id) {
            work.count -= 1;
            if work.count == 0 {
                all.remove(&self.id);
            }
        }
    }
}
