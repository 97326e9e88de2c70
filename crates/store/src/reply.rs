//! The answer of a store, which may be there already.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::StoreError;

/// The answer of a store to one call.
///
/// The work is handed to the database when the method is called, not when the reply is polled: dropping a reply cancels nothing.
/// A database that has its answer at once returns it without a task or a thread in between.
#[must_use = "the reply tells whether the store did what it was asked for"]
pub struct Reply<T>(State<T>);

enum State<T> {
    Ready(Option<Result<T, StoreError>>),
    Later(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>),
}

impl<T> Reply<T> {
    /// Returns an answer that is there.
    pub fn ready(answer: Result<T, StoreError>) -> Self {
        Self(State::Ready(Some(answer)))
    }

    /// Returns an answer that comes with `future`. The work goes on elsewhere: `future` only waits for it.
    pub fn later(future: impl Future<Output = Result<T, StoreError>> + Send + 'static) -> Self {
        Self(State::Later(Box::pin(future)))
    }

    /// Blocks this thread until the answer is there. For code without a runtime.
    pub fn wait(self) -> Result<T, StoreError> {
        block_on(self)
    }
}

impl<T: Send + 'static> Reply<T> {
    /// Changes the answer.
    pub fn map<U: Send + 'static>(
        self,
        change: impl FnOnce(Result<T, StoreError>) -> Result<U, StoreError> + Send + 'static,
    ) -> Reply<U> {
        match self.0 {
            State::Ready(Some(answer)) => Reply::ready(change(answer)),
            state => Reply::later(async move { change(Self(state).await) }),
        }
    }
}

// Nothing is pinned in place: the future has a box of its own.
impl<T> Unpin for Reply<T> {}

impl<T> Future for Reply<T> {
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            State::Ready(answer) => answer.take().map_or(Poll::Pending, Poll::Ready),
            State::Later(future) => future.as_mut().poll(context),
        }
    }
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Ready(_) => "Reply::Ready",
            State::Later(_) => "Reply::Later",
        })
    }
}

/// Blocks this thread until `future` is ready. For a few calls of a store in code without a runtime: it has no timers.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_reply_is_waited_for_without_a_runtime() {
        assert!(matches!(Reply::ready(Ok(1)).wait(), Ok(1)));
        let (send, receive) = channel();
        let later = Reply::later(std::future::poll_fn(move |context| match receive.try_recv() {
            Ok(value) => Poll::Ready(Ok(value)),
            Err(_) => {
                let waker: Waker = context.waker().clone();
                let send = send.clone();
                thread::spawn(move || {
                    let _ = send.send(7);
                    waker.wake();
                });
                Poll::Pending
            }
        }));
        assert!(matches!(later.map(|answer| answer.map(|value: i32| value + 1)).wait(), Ok(8)));
    }
}
