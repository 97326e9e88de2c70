//! A place where hooks are run, and a hook at such a place.

use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{HookError, HookName, Kind};

/// A future that can be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A place where hooks are run. The type that implements this is the event that the hooks get.
pub trait Point: Serialize + Send + Sync + Sized + 'static {
    /// The name of the hook.
    const NAME: HookName;

    /// The answer of a hook. The default is "no opinion".
    type Answer: DeserializeOwned + Default + Send;
}

/// The answer of hooks that only observe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub struct Nothing {}

/// A part of this program as a hook.
pub trait Handle<P: Point>: Send + Sync {
    /// Looks at an event.
    fn handle<'a>(&'a self, event: &'a P) -> BoxFuture<'a, Result<P::Answer, HookError>>;
}

/// A closure as a hook.
pub struct FnHook<F>(pub F);

impl<P, F> Handle<P> for FnHook<F>
where
    P: Point,
    F: Fn(&P) -> Result<P::Answer, HookError> + Send + Sync,
{
    fn handle<'a>(&'a self, event: &'a P) -> BoxFuture<'a, Result<P::Answer, HookError>> {
        let answer = (self.0)(event);
        Box::pin(std::future::ready(answer))
    }
}

/// Another program as a hook, for any place: a command, or the process of a plugin.
pub trait Ask: Send + Sync {
    /// Asks for an answer. `None` is "no opinion".
    fn ask<'a>(&'a self, hook: HookName, event: Value) -> BoxFuture<'a, Result<Option<Value>, HookError>>;

    /// Tells of an event that needs no answer.
    fn tell<'a>(&'a self, hook: HookName, event: Value) -> BoxFuture<'a, Result<(), HookError>>;
}

/// Another program as a hook at one place.
pub struct External<P>(Arc<dyn Ask>, PhantomData<fn(P)>);

impl<P: Point> External<P> {
    /// Returns a program as a hook.
    pub fn new(program: Arc<dyn Ask>) -> Self {
        Self(program, PhantomData)
    }
}

impl<P: Point> Handle<P> for External<P> {
    fn handle<'a>(&'a self, event: &'a P) -> BoxFuture<'a, Result<P::Answer, HookError>> {
        Box::pin(async move {
            let event = serde_json::to_value(event).map_err(|error| HookError::Start(error.into()))?;
            if P::NAME.spec().kind == Kind::Observe {
                self.0.tell(P::NAME, event).await?;
                return Ok(P::Answer::default());
            }
            match self.0.ask(P::NAME, event).await? {
                None => Ok(P::Answer::default()),
                Some(answer) => crate::answer::read::<P>(answer),
            }
        })
    }
}

/// A hook, and when it is asked.
pub struct Hook<P: Point> {
    /// Its name in messages: `hooks.before_agent_run[0]`, `of the plugin notes`.
    pub name: String,
    /// Hooks with a higher priority are asked earlier. Of equal ones, the first registered is asked first.
    pub priority: i32,
    /// The longest that it may take to answer.
    pub timeout: Duration,
    /// Whether its answer may add to the prompt.
    pub may_inject: bool,
    /// The hook itself.
    pub handler: Arc<dyn Handle<P>>,
}

impl<P: Point> Clone for Hook<P> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), handler: Arc::clone(&self.handler), ..*self }
    }
}

impl<P: Point> Hook<P> {
    /// Returns a hook with the usual timeout.
    pub fn new(name: impl Into<String>, handler: impl Handle<P> + 'static) -> Self {
        Self {
            name: name.into(),
            priority: 0,
            timeout: P::NAME.spec().timeout,
            may_inject: true,
            handler: Arc::new(handler),
        }
    }

    /// Sets the priority.
    #[must_use]
    pub fn priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    /// Sets how long it may take to answer.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Asks the hook, for as long as it may take. A panic of it is an error.
    pub async fn ask(&self, event: &P) -> Result<P::Answer, HookError> {
        asked(&*self.handler, event, self.timeout).await
    }
}

/// Asks a hook, for as long as it may take. A panic of it is an error.
pub async fn asked<P: Point>(handler: &dyn Handle<P>, event: &P, timeout: Duration) -> Result<P::Answer, HookError> {
    // Also a panic before the first await.
    let asking = AssertUnwindSafe(async { handler.handle(event).await }).catch_unwind();
    match tokio::time::timeout(timeout, asking).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(HookError::Broken),
        Err(_) => Err(HookError::Late(timeout)),
    }
}
