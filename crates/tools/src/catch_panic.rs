//! Work of others that may panic, and harms nobody else by it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::BoxFuture;

/// Somebody else's work; `None` if it panics.
pub struct CatchPanic<'t, T>(pub BoxFuture<'t, T>);

impl<T> Future for CatchPanic<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // After a panic it is not polled again, and what it borrows is its own.
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    }
}
