//! Somebody who wants this process to end.

use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Who wants this process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// The person at the keyboard: what it does is not wanted any more.
    ByPerson,
    /// The system: what it does should be kept.
    BySystem,
}

/// Listens from its making on.
pub(crate) struct Interruptions(Vec<(Signal, Interrupted)>);

impl Interruptions {
    pub(crate) fn listen() -> Self {
        let kinds = [
            (SignalKind::interrupt(), Interrupted::ByPerson),
            (SignalKind::terminate(), Interrupted::BySystem),
            (SignalKind::hangup(), Interrupted::BySystem),
        ];
        Self(kinds.into_iter().filter_map(|(kind, by)| Some((signal(kind).ok()?, by))).collect())
    }

    pub(crate) async fn next(&mut self) -> Interrupted {
        std::future::poll_fn(|context| {
            let came = |(signal, by): &mut (Signal, Interrupted)| signal.poll_recv(context).is_ready().then_some(*by);
            self.0.iter_mut().find_map(came).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
