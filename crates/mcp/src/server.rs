//! A server for as long as Pincer runs: started when it is needed, started again when it falls, and known while it is away.

mod requests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use pincer_catalog::Entry;
use pincer_tools::{Door, ServerState};
use rmcp::model::{ErrorCode, ErrorData};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::connection::{Connection, ENDED, Failure};
use crate::error::{ConnectError, Unavailable};
use crate::greeting::Greeting;
use crate::hiding::Hiding;
use crate::listing::Listing;
use crate::outage::Outage;
use crate::settings::{Readiness, ServerSettings};
use crate::told::Hub;
use crate::tool::{entries, registered};

/// The second start after a fall waits so long, the next ones twice as long each.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// A call waits so long for the next start; beyond that it is told that the server is down.
const WORTH_WAITING: Duration = Duration::from_secs(2);
/// A list that keeps changing is asked for so often at most.
const BETWEEN_LISTS: Duration = Duration::from_millis(500);
/// A server that has just started may not have its list yet: it is asked so often, after so long each.
const LIST_TRIES: u32 = 3;
const UNTIL_NEXT_TRY: Duration = Duration::from_millis(200);

/// What all servers share.
#[derive(Clone)]
pub(crate) struct Host {
    pub hub: Hub,
    /// The directory of listings, logs and tokens.
    pub state: Option<PathBuf>,
    /// The door at which tools are registered, once it is there.
    pub door: Arc<OnceLock<Weak<Door>>>,
    /// Counts what has become known.
    pub changes: watch::Sender<u64>,
}

impl Default for Host {
    fn default() -> Self {
        let changes = watch::channel(0).0;
        Self { hub: Hub::default(), state: None, door: Arc::default(), changes }
    }
}

/// A server.
pub struct Server {
    settings: Arc<ServerSettings>,
    host: Host,
    life: Mutex<Life>,
    /// How often it has fallen since it last did something.
    falls: AtomicU32,
    seen: RwLock<Seen>,
    /// Changes with `seen`.
    news: watch::Sender<u64>,
    /// The entries at the door, with the listing they were made of. Held while they are taken there, so that an older
    /// listing cannot overtake a newer one.
    registering: std::sync::Mutex<Option<Registered>>,
    /// Cancelled, and replaced, when it is to end: a task that is connecting gives up.
    ending: RwLock<CancellationToken>,
}

type Registered = (Arc<Listing>, Vec<Arc<Entry>>);

#[derive(Default)]
struct Life {
    running: Option<Arc<Connection>>,
    /// What it last understood.
    greeting: Greeting,
    not_before: Option<Instant>,
    why: Option<String>,
}

/// What is known of a server.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What it has, or had when it was last there.
    pub listing: Option<Arc<Listing>>,
    /// How it is.
    pub health: Health,
    /// How long it last took to connect.
    pub connected_in: Option<Duration>,
    /// How long it last took to list its tools.
    pub listed_in: Option<Duration>,
}

/// How a server is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It has not been needed yet.
    #[default]
    Cold,
    /// It is being connected to.
    Connecting,
    /// It is there.
    Up,
    /// It is not there. This is why.
    Down(String),
}

impl Server {
    pub(crate) fn new(settings: ServerSettings, host: Host) -> Arc<Self> {
        let state = host.state.as_deref();
        let listing = state.and_then(|state| Listing::stored(state, &settings)).map(Arc::new);
        let outage = || state.and_then(|state| Outage::stored(state, &settings)).map(|outage| outage.reason);
        let health = settings.unusable().map(str::to_owned).or_else(outage).map_or(Health::Cold, Health::Down);
        let greeting = listing.as_ref().map(|listing| Greeting::of(&listing.info)).unwrap_or_default();
        let life = Life { greeting, ..Life::default() }.into();
        let seen = RwLock::new(Seen { listing, health, ..Seen::default() });
        Arc::new(Self {
            settings: Arc::new(settings),
            host,
            life,
            falls: AtomicU32::new(0),
            seen,
            news: watch::channel(0).0,
            registering: std::sync::Mutex::default(),
            ending: RwLock::default(),
        })
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Returns its settings.
    pub fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// Returns what is known of it.
    pub fn seen(&self) -> Seen {
        self.seen.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether it is being connected to, and nothing is known of it yet.
    pub fn is_starting(&self) -> bool {
        let seen = self.seen();
        seen.listing.is_none() && seen.health == Health::Connecting
    }

    /// Sets how it is greeted first. Without that it is found out.
    pub async fn expect(&self, greeting: Greeting) {
        self.life.lock().await.greeting = greeting;
    }

    /// Asks it what it has, and starts it for that if need be.
    pub async fn refresh(self: &Arc<Self>) -> Result<Arc<Listing>, Unavailable> {
        let connection = self.connection(Purpose::List).await?;
        self.list(&connection).await
    }

    /// Like `refresh`, unless it has fallen so often that it is not tried again yet.
    async fn try_again(self: Arc<Self>) -> Result<Arc<Listing>, Unavailable> {
        let connection = self.connection(Purpose::ListForCall).await?;
        self.list(&connection).await
    }

    /// Waits until it is known what it has, or that it is down; at most so long. One that is wanted is tried again.
    pub(crate) async fn settled(self: &Arc<Self>, most: Duration, wanted: Wanted) {
        let seen = self.seen();
        let down = matches!(seen.health, Health::Down(_));
        if seen.listing.is_none() && (wanted == Wanted::ByName || !down) {
            // On a task of its own: it goes on when the wait is over.
            let _ = tokio::time::timeout(most, tokio::spawn(Arc::clone(self).try_again())).await;
        }
    }

    /// Returns a sentence that begins with the name of the server.
    pub(crate) fn says(&self, what: &str) -> String {
        format!("the MCP server {} {what}", self.settings.name)
    }

    /// Returns the connection; a new one if there is none.
    async fn connection(self: &Arc<Self>, purpose: Purpose) -> Result<Arc<Connection>, Unavailable> {
        let ending = self.ending.read().unwrap_or_else(PoisonError::into_inner).clone();
        tokio::select! {
            biased;
            () = ending.cancelled() => {
                self.set(|seen| {
                    if seen.health == Health::Connecting {
                        seen.health = Health::Cold;
                    }
                });
                Err(Unavailable::Ended)
            }
            connection = self.connected(purpose) => connection,
        }
    }

    async fn connected(self: &Arc<Self>, purpose: Purpose) -> Result<Arc<Connection>, Unavailable> {
        if let Some(why) = self.settings.unusable() {
            return Err(Unavailable::Unusable(why.to_owned()));
        }
        let mut life = self.life.lock().await;
        if let Some(connection) = life.running.take() {
            match connection.over() {
                None => {
                    life.running = Some(Arc::clone(&connection));
                    return Ok(connection);
                }
                Some(why) => self.fell(&mut life, why.to_string()),
            }
        }
        let wait = life.not_before.map_or(Duration::ZERO, |time| time.saturating_duration_since(Instant::now()));
        if purpose != Purpose::List && wait > WORTH_WAITING {
            let why = life.why.clone().unwrap_or_default();
            return Err(Unavailable::TriedLater { why, wait });
        }
        if purpose != Purpose::List {
            tokio::time::sleep(wait).await;
        }
        self.set(|seen| {
            if !matches!(seen.health, Health::Down(_)) {
                seen.health = Health::Connecting;
            }
        });
        let began = Instant::now();
        let settings = self.resolved().await;
        let opened = match settings {
            Ok(settings) => {
                let opened = Connection::open(&settings, &self.host, life.greeting).await;
                opened.map_err(|error| (error, settings))
            }
            Err(error) => Err((error, Arc::clone(&self.settings))),
        };
        match opened {
            Ok(connection) => {
                life.greeting = Greeting::of(connection.info());
                let connection = Arc::new(connection);
                life.running = Some(Arc::clone(&connection));
                drop(life);
                self.set(|seen| {
                    (seen.health, seen.connected_in) = (Health::Up, Some(began.elapsed()));
                });
                Outage::forget(self.host.state.as_deref(), self.name());
                tokio::spawn(Arc::clone(self).attend(Arc::clone(&connection), purpose));
                Ok(connection)
            }
            Err((error, settings)) => {
                let why = Hiding::of(&settings).text(&error.to_string());
                self.fell(&mut life, why.clone());
                self.down(&why);
                Err(Unavailable::Unreachable(why))
            }
        }
    }

    /// Returns its settings, with secrets in place.
    async fn resolved(&self) -> Result<Arc<ServerSettings>, ConnectError> {
        if !matches!(self.settings.readiness, Readiness::NeedsSecrets(_)) {
            return Ok(Arc::clone(&self.settings));
        }
        let settings = Arc::clone(&self.settings);
        let resolved = tokio::task::spawn_blocking(move || settings.resolved(settings.connect_timeout));
        let resolved = resolved.await.map_err(|_| ConnectError::SecretsLost)?;
        Ok(Arc::new(resolved?))
    }

    /// Notes a fall, and when it may be started again: the first time at once, then later and later.
    fn fell(&self, life: &mut Life, why: String) {
        let falls = self.falls.fetch_add(1, Ordering::Relaxed);
        let delay = if falls == 0 { Duration::ZERO } else { FIRST_DELAY * 2_u32.saturating_pow((falls - 1).min(10)) };
        life.not_before = Some(Instant::now() + delay.min(LONGEST_DELAY));
        life.why = Some(why);
    }

    fn down(&self, why: &str) {
        self.set(|seen| seen.health = Health::Down(why.to_owned()));
        Outage::store(self.host.state.as_deref(), &self.settings, why);
    }

    /// Attends a connection: lists what the server has as soon as it is there, unless another task does, and again whenever that
    /// changes; notes when the connection is over.
    async fn attend(self: Arc<Self>, connection: Arc<Connection>, purpose: Purpose) {
        let (mut over, changed) = (connection.watch(), connection.changed());
        if purpose == Purpose::Call {
            let _ = self.list(&connection).await;
        }
        // Held weakly from here on: only the server itself keeps a connection alive.
        let held = Arc::downgrade(&connection);
        drop(connection);
        loop {
            tokio::select! {
                biased;
                _ = over.wait_for(Option::is_some) => break,
                () = changed.notified() => {}
            }
            if let Some(connection) = held.upgrade() {
                let _ = self.list(&connection).await;
            }
            tokio::select! {
                biased;
                _ = over.wait_for(Option::is_some) => break,
                () = tokio::time::sleep(BETWEEN_LISTS) => {}
            }
        }
        let why = over.borrow().clone();
        if let Some(why) = why {
            self.set(|seen| {
                if seen.health == Health::Up {
                    seen.health = if *why == *ENDED { Health::Cold } else { Health::Down(why.to_string()) };
                }
            });
        }
    }

    async fn list(&self, connection: &Connection) -> Result<Arc<Listing>, Unavailable> {
        let began = Instant::now();
        let listing = match self.listing(connection).await {
            Ok(listing) => Arc::new(listing),
            Err(failure) => {
                let why = match failure {
                    Failure::Starting => "is still starting".into(),
                    Failure::Down(why) | Failure::NotMade(why) | Failure::TurnedAway(why) | Failure::Lost(why) => why,
                    Failure::Late(limit) => {
                        let late = format!("did not list its tools within {} ms", limit.as_millis());
                        format!("{late}; if it needs longer, raise its `connectTimeoutMs`")
                    }
                    Failure::Garbled(wrong) => format!("cannot list its tools: it {wrong}"),
                    Failure::Refused(error) => format!("cannot list its tools: it {}", refusal(&error)),
                    Failure::Aborted => "was ended".into(),
                };
                // That we have ended it in the middle is nothing it did.
                if self.seen().listing.is_none() && !connection.is_ended() {
                    self.down(&why);
                }
                return Err(Unavailable::Unlisted(why));
            }
        };
        let before = self.seen().listing;
        if !before.is_some_and(|before| before.says_the_same(&listing))
            && let Some(state) = &self.host.state
        {
            listing.store(state, self.name());
        }
        // That it could not be listed a moment ago is forgotten.
        Outage::forget(self.host.state.as_deref(), self.name());
        self.set(|seen| {
            (seen.listing, seen.listed_in) = (Some(Arc::clone(&listing)), Some(began.elapsed()));
            if connection.over().is_none() {
                seen.health = Health::Up;
            }
        });
        Ok(listing)
    }

    async fn listing(&self, connection: &Connection) -> Result<Listing, Failure> {
        for _ in 1..LIST_TRIES {
            match Listing::of(connection, &self.settings).await {
                Err(Failure::Refused(error)) if error.code != ErrorCode::METHOD_NOT_FOUND => {
                    tokio::time::sleep(UNTIL_NEXT_TRY).await;
                }
                listed => return listed,
            }
        }
        Listing::of(connection, &self.settings).await
    }

    fn set(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.write().unwrap_or_else(PoisonError::into_inner));
        self.news.send_modify(|count| *count += 1);
    }

    /// Notifies when this server's state changes.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Registers what it has at the door.
    pub(crate) fn register(self: &Arc<Self>) {
        let Some(door) = self.host.door.get().and_then(Weak::upgrade) else { return };
        let mut known = self.registering.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = self.seen();
        let state = match &seen.health {
            Health::Down(why) => ServerState::Down(why.clone()),
            Health::Cold | Health::Connecting if seen.listing.is_none() => ServerState::Starting,
            _ => ServerState::Available,
        };
        let is_known = |(of, _): &Registered| seen.listing.as_ref().is_some_and(|listing| Arc::ptr_eq(of, listing));
        if !known.as_ref().is_some_and(is_known) {
            *known = seen.listing.map(|listing| (Arc::clone(&listing), entries(&self.settings, &listing)));
        }
        let tools = known.as_ref().map(|(_, entries)| registered(self, entries)).unwrap_or_default();
        door.set_server(pincer_tools::Server { name: self.name().to_owned(), state, tools });
    }

    /// Notes that the tools it has now are at the door.
    pub(crate) fn changed(&self) {
        self.host.changes.send_modify(|count| *count += 1);
    }

    /// Ends it, if it runs or is about to.
    pub async fn end(&self) {
        std::mem::take(&mut *self.ending.write().unwrap_or_else(PoisonError::into_inner)).cancel();
        let running = self.life.lock().await.running.take();
        if let Some(connection) = running {
            connection.end().await;
        }
    }
}

/// How much a server is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// It is named.
    ByName,
    /// It is one of all.
    AmongOthers,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// A call: a server that has fallen before is waited for as long as is worth it, and what it has is listed on the way.
    Call,
    /// To ask what it has, for a call: it is waited for in the same way.
    ListForCall,
    /// To ask what it has: it is tried at once.
    List,
}

fn refusal(error: &ErrorData) -> String {
    format!("says: {} ({})", error.message, error.code.0)
}
