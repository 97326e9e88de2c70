//! The caller of a program, as its tools reach it.

use std::sync::{Arc, PoisonError, RwLock};

use pincer_tools::UpdateSink;

/// The recipient of questions that tools ask their caller: the request that waits for the program now, also for calls that were
/// begun under an earlier one.
#[derive(Clone)]
pub(crate) struct Listener(Arc<RwLock<Arc<dyn UpdateSink>>>);

impl Listener {
    pub(crate) fn new(now: Arc<dyn UpdateSink>) -> Self {
        Self(Arc::new(RwLock::new(now)))
    }

    pub(crate) fn now(&self) -> Arc<dyn UpdateSink> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn becomes(&self, other: &Self) {
        let now = other.now();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = now;
    }
}
