//! Requests to models: tried again where that is right, then asked of the next model.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use pincer_http::excerpt;
use reqwest::Client;
use reqwest::redirect::Policy;

use crate::attempt::{Attempt, Limits};
use crate::debug::{Debug, Hiding, Watch};
use crate::error::{ErrorKind, ModelError, Retry};
use crate::event::Event;
use crate::gate::Sealed;
use crate::keys::{Key, Keys};
use crate::limits::MOST_MESSAGE_CHARS;
use crate::record::Recorder;
use crate::request::Request;
use crate::settings::{Provider, Target};
use crate::timeouts::{Idle, connect, within};
use crate::wire;

/// The first wait before a retry; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_BACKOFF: Duration = Duration::from_secs(8);
/// The longest wait that a provider is given, and if another model can be asked.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
const LONGEST_WAIT_WITH_FALLBACK: Duration = Duration::from_secs(10);

/// Asks models. Cheap to clone.
#[derive(Clone)]
pub struct Models(Arc<Inner>);

struct Inner {
    keys: Keys,
    debug: Debug,
    recorder: Option<Recorder>,
    clients: Mutex<HashMap<String, Client>>,
}

/// The models to ask, in order, and the limits of the run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The model, then its fallbacks.
    pub targets: Vec<Target>,
    /// The session, which keeps to one key of a provider.
    pub session: Option<String>,
    /// How long a provider may be silent.
    pub idle: Idle,
    /// The end of the run.
    pub deadline: Option<Instant>,
    /// The attempts for each model.
    pub attempts: u32,
    /// Whether a conversation that is too long for a model fails, instead of being sent to a fallback: it is about to be shortened.
    pub keeps_model_on_overflow: bool,
}

impl Plan {
    /// Returns a plan for one model.
    pub fn new(target: Target) -> Self {
        Self {
            targets: vec![target],
            session: None,
            idle: Idle::default(),
            deadline: None,
            attempts: 3,
            keeps_model_on_overflow: false,
        }
    }
}

/// The events of a reply. Dropped, it closes its connection at once.
pub struct Replying(BoxStream<'static, Result<Event, ModelError>>);

impl Stream for Replying {
    type Item = Result<Event, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

impl Models {
    /// Returns a way to models with these keys.
    pub fn new(keys: Keys, debug: Debug, recorder: Option<Recorder>) -> Self {
        Self(Arc::new(Inner { keys, debug, recorder, clients: Mutex::default() }))
    }

    /// Asks for a reply. The last event is [`Event::Done`], or an error ends the stream.
    pub fn ask(&self, plan: Plan, request: Request) -> Replying {
        let asking = Asking {
            inner: Arc::clone(&self.0),
            plan,
            request,
            target: 0,
            attempt: 1,
            tried: Vec::new(),
            wait: None,
            current: None,
            ready: VecDeque::new(),
            ending: None,
            is_over: false,
            used: Vec::new(),
        };
        let events = stream::unfold(asking, |mut asking| async move {
            let event = asking.next().await?;
            Some((event, asking))
        });
        Replying(events.boxed())
    }

    /// Looks up the key that a provider would be asked with. Returns the name of its profile.
    pub async fn key(&self, provider: &Provider) -> Result<String, ModelError> {
        Ok(self.0.keys.get(&provider.id, None, &[], false).await?.profile)
    }

    pub(crate) fn client(&self, provider: &Provider) -> Result<Client, ModelError> {
        self.0.client(provider)
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.0.keys
    }
}

impl Inner {
    /// The client of a provider: connections are used again.
    fn client(&self, provider: &Provider) -> Result<Client, ModelError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&provider.id) {
            return Ok(client.clone());
        }
        let client = pincer_http::client(&provider.base_url)
            // A key is for the address of the settings alone.
            .redirect(Policy::none())
            .connect_timeout(connect(provider))
            .build()
            .map_err(|error| ModelError::new(ErrorKind::Network, format!("no client can be made: {error}")))?;
        clients.insert(provider.id.clone(), client.clone());
        Ok(client)
    }
}

/// Takes the keys and the headers of a provider out of texts.
pub(crate) fn hiding(provider: &Provider, keys: impl Iterator<Item = String>) -> Hiding {
    let words = provider.headers.values().flat_map(|value| [Some(value.as_str()), value.rsplit(' ').next()]);
    Hiding::new(keys.chain(words.flatten().map(str::to_owned)))
}

/// Cuts a message to its length, after the secrets were taken out: half of one would not be known.
pub(crate) fn shortened(message: &str) -> String {
    excerpt(message, MOST_MESSAGE_CHARS)
}

/// A request on its way from model to model.
struct Asking {
    inner: Arc<Inner>,
    plan: Plan,
    request: Request,
    target: usize,
    attempt: u32,
    /// Keys of the present model's provider that were refused.
    tried: Vec<String>,
    wait: Option<Duration>,
    current: Option<(Attempt, String)>,
    ready: VecDeque<Event>,
    /// The error that ends it, told when everything before it has been.
    ending: Option<ModelError>,
    is_over: bool,
    /// The keys that were used on the way.
    used: Vec<String>,
}

impl Asking {
    async fn next(&mut self) -> Option<Result<Event, ModelError>> {
        loop {
            let is_late = self.plan.deadline.is_some_and(|deadline| deadline <= Instant::now());
            if is_late && !self.is_over && self.current.is_some() {
                // The rest of a reply that is not complete stays unsaid.
                self.ready.clear();
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.is_over {
                return self.ending.take().map(Err);
            }
            if let Err(error) = self.step().await {
                self.is_over = true;
                self.ending = Some(error);
            }
        }
    }

    async fn step(&mut self) -> Result<(), ModelError> {
        let failed = match &mut self.current {
            // The usual step, once for each read of the connection: nothing is copied for it.
            Some((attempt, _)) => match attempt.next(&mut self.ready).await {
                Ok(false) => return Ok(()),
                Ok(true) => None,
                Err(mut error) => {
                    error.has_shown = attempt.has_shown();
                    Some(error)
                }
            },
            None => return self.start().await,
        };
        // The connection is of no use any more.
        let (Some((_, profile)), Some(target)) = (self.current.take(), self.plan.targets.get(self.target).cloned())
        else {
            return Ok(());
        };
        match failed {
            None => {
                self.inner.keys.worked(&target.provider.id, &profile);
                self.is_over = true;
                Ok(())
            }
            Some(error) => self.failed(&target, Some(&profile), self.without_secrets(error, &target)),
        }
    }

    /// Sends the request to the present model.
    async fn start(&mut self) -> Result<(), ModelError> {
        let Some(target) = self.plan.targets.get(self.target).cloned() else {
            return Err(ModelError::new(ErrorKind::NotFound, "no model is configured"));
        };
        if let Some(wait) = self.wait.take() {
            tokio::time::sleep(wait).await;
        }
        let key = match self.key(&target).await {
            Ok(key) => key,
            Err(error) => return self.failed(&target, None, error),
        };
        self.used.extend(key.secret.as_ref().map(|secret| secret.expose().to_owned()));
        match self.begin(&target, &key).await {
            Ok(attempt) => {
                self.current = Some((attempt, key.profile));
                Ok(())
            }
            Err(error) => self.failed(&target, Some(&key.profile), self.without_secrets(error, &target)),
        }
    }

    async fn key(&self, target: &Target) -> Result<Key, ModelError> {
        let session = self.plan.session.as_deref();
        let key = self.inner.keys.get(&target.provider.id, session, &self.tried, self.has_fallback());
        // A command or a person may take long to give it.
        within(key, None, self.plan.deadline, "").await?
    }

    async fn begin(&mut self, target: &Target, key: &Key) -> Result<Attempt, ModelError> {
        let asked = self.request.thinking;
        let given = asked.nearest(&target.reasoning().levels());
        if given != asked && self.attempt == 1 && self.tried.is_empty() {
            self.ready.push_back(Event::Adjusted { asked, given });
        }
        let body = wire::body(&self.request, target, given)?;
        let sealed = Sealed::new(target.provider.api, body.text(), &self.request.surface)?;
        let client = self.inner.client(&target.provider)?;
        let limits = Limits { window: self.plan.idle.window(&target.provider), deadline: self.plan.deadline };
        let watch = Watch::new(self.inner.debug, self.hiding(target), self.inner.recorder.as_ref());
        Attempt::begin(&client, target, key.secret.as_ref(), &sealed, limits, watch).await
    }

    fn hiding(&self, target: &Target) -> Hiding {
        hiding(&target.provider, self.inner.keys.secrets().into_iter().chain(self.used.iter().cloned()))
    }

    /// A provider may repeat what it was sent.
    fn without_secrets(&self, mut error: ModelError, target: &Target) -> ModelError {
        error.message = shortened(&self.hiding(target).text(&error.message));
        error
    }

    fn has_fallback(&self) -> bool {
        self.target + 1 < self.plan.targets.len()
    }

    /// Decides what follows a failure: the same again, with another key, another model, or the end.
    fn failed(&mut self, target: &Target, profile: Option<&str>, mut error: ModelError) -> Result<(), ModelError> {
        error.target = target.to_string();
        if error.has_shown {
            return Err(error);
        }
        if let Some(profile) = profile
            && self.inner.keys.failed(&target.provider.id, profile, &error)
        {
            self.tried.push(profile.to_owned());
            if self.inner.keys.has_other(&target.provider.id, &self.tried) {
                return self.again(error, Duration::ZERO);
            }
        }
        if error.retry.is_right() && self.attempt < self.plan.attempts {
            let wait = self.wait_for(&error);
            let longest = if self.has_fallback() { LONGEST_WAIT_WITH_FALLBACK } else { LONGEST_WAIT };
            let is_in_time = self.plan.deadline.is_none_or(|deadline| Instant::now() + wait < deadline);
            if wait <= longest && is_in_time {
                self.tried.clear();
                return self.again(error, wait);
            }
        }
        let is_kept = self.plan.keeps_model_on_overflow && matches!(error.kind, ErrorKind::ContextOverflow { .. });
        if error.kind.may_fall_back() && !is_kept && self.has_fallback() {
            self.target += 1;
            self.attempt = 1;
            self.tried.clear();
            let to = self.plan.targets.get(self.target).map(ToString::to_string).unwrap_or_default();
            self.ready.push_back(Event::FallingBack { error: Box::new(error), to });
            return Ok(());
        }
        Err(error)
    }

    fn again(&mut self, error: ModelError, after: Duration) -> Result<(), ModelError> {
        self.attempt += 1;
        self.wait = Some(after);
        self.ready.push_back(Event::Retrying { error: Box::new(error), after, attempt: self.attempt });
        Ok(())
    }

    fn wait_for(&self, error: &ModelError) -> Duration {
        match error.retry {
            Retry::After(after) => after,
            Retry::No | Retry::Backoff => {
                let doubled = FIRST_WAIT.saturating_mul(1 << (self.attempt - 1).min(8)).min(LONGEST_BACKOFF);
                // Many that failed at once must not come back at once.
                doubled.mul_f64(0.5 + fastrand::f64() / 2.0)
            }
        }
    }
}
