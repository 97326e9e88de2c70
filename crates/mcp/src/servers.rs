//! All servers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pincer_catalog::Entry;
use pincer_tools::Door;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;

use crate::clock::unix_millis;
use crate::mention::{Mention, mentioned};
use crate::server::{Host, Server, Wanted};
use crate::settings::ServerSettings;
use crate::told::Notice;
use crate::tool::entries;

/// Programs that ask about all servers wait at most so long for those that nobody has heard of yet.
const FOR_ALL: Duration = Duration::from_secs(5);
/// Time that is not taken off the time of a program.
const UNNOTICED: Duration = Duration::from_millis(50);
/// A stored listing that is older is asked for again when there is time.
const STALE_MS: u64 = 24 * 3600 * 1000;

/// All servers. Ended with [`Servers::end`].
pub struct Servers {
    servers: BTreeMap<String, Arc<Server>>,
    host: Host,
}

impl Servers {
    /// Returns servers with these settings. Nothing is started. `state` is where listings, logs and tokens are kept; nowhere if absent.
    pub fn new(servers: impl IntoIterator<Item = ServerSettings>, state: Option<PathBuf>) -> Self {
        let host = Host { state, ..Host::default() };
        let servers = servers.into_iter().map(|settings| (settings.name.clone(), Server::new(settings, host.clone())));
        Self { servers: servers.collect(), host: host.clone() }
    }

    /// Registers them at the door, now and whenever something of them changes.
    pub fn attach(&self, door: &Arc<Door>) {
        if self.host.door.set(Arc::downgrade(door)).is_err() {
            return;
        }
        for server in self.servers.values() {
            server.register();
            let (held, mut news): (Weak<Server>, _) = (Arc::downgrade(server), server.news());
            tokio::spawn(async move {
                while news.changed().await.is_ok() {
                    match held.upgrade() {
                        Some(server) => {
                            server.register();
                            server.changed();
                        }
                        None => return,
                    }
                }
            });
        }
    }

    /// Counts what becomes known of servers, once it is at the door.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.host.changes.subscribe()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.servers.values()
    }

    /// The one with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Server>> {
        self.servers.get(name)
    }

    /// What servers tell without being asked, from now on.
    pub fn listen(&self) -> broadcast::Receiver<Notice> {
        self.host.hub.listen()
    }

    /// Begins to ask those that nobody has heard of, or not for a day. Returns at once.
    pub fn warm_up(&self) {
        let now = unix_millis();
        for server in self.servers.values() {
            let fresh = server.seen().listing.is_some_and(|listing| now.saturating_sub(listing.at) < STALE_MS);
            if !fresh {
                let server = Arc::clone(server);
                tokio::spawn(async move { server.refresh().await });
            }
        }
    }

    /// Sees to it that what a program talks about is known before it runs, as far as that can be had: servers that it names are
    /// waited for, all of them only for a moment. `within` is the time of the program: at most nine tenths of it go to that, and
    /// what is left is returned.
    pub async fn ready_for(&self, code: &str, within: Duration) -> Duration {
        let began = Instant::now();
        let most = within - within / 10;
        let names: Vec<&str> = self.servers.keys().map(String::as_str).collect();
        match mentioned(code, &names) {
            Mention::None => return within,
            Mention::Some(found) => {
                self.settled(found.into_iter().filter_map(|name| self.get(name)), Wanted::ByName, most).await
            }
            Mention::All => self.settled(self.servers.values(), Wanted::AmongOthers, most).await,
        }
        // Servers that were known took no time.
        let took = began.elapsed();
        if took < UNNOTICED { within } else { within.saturating_sub(took).max(within / 10) }
    }

    /// Sees to it that all are known, as far as that can be had in a moment.
    pub async fn ready(&self) {
        self.settled(self.servers.values(), Wanted::AmongOthers, FOR_ALL).await;
    }

    /// Sees to it that this one is known, as far as that can be had in the time of a call.
    pub async fn ready_with(&self, server: &Arc<Server>) {
        self.settled([server], Wanted::ByName, server.settings().call_timeout).await;
    }

    /// Waits until it is known of these what they have, or that they are down, but not longer than a call of theirs may take.
    async fn settled(&self, which: impl IntoIterator<Item = &Arc<Server>>, wanted: Wanted, most: Duration) {
        let mut waiting = JoinSet::new();
        for server in which {
            let most = match wanted {
                Wanted::ByName => most.min(server.settings().call_timeout),
                Wanted::AmongOthers => most.min(FOR_ALL),
            };
            let server = Arc::clone(server);
            waiting.spawn(async move { server.settled(most, wanted).await });
        }
        waiting.join_all().await;
        // What became known is at the door before anybody looks there.
        self.servers.values().for_each(Server::register);
    }

    /// The tools of all of them, as far as they are known.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        let of = |server: &Arc<Server>| server.seen().listing.map(|listing| entries(server.settings(), &listing));
        self.servers.values().filter_map(of).flatten().collect()
    }

    /// Asks all of them at once, and waits for the slowest.
    pub async fn refresh_all(&self) {
        let mut asking = JoinSet::new();
        for server in self.servers.values() {
            let server = Arc::clone(server);
            asking.spawn(async move { server.refresh().await.map(drop) });
        }
        asking.join_all().await;
        self.servers.values().for_each(Server::register);
    }

    /// Ends all that run.
    pub async fn end(&self) {
        let mut ending = JoinSet::new();
        for server in self.servers.values() {
            let server = Arc::clone(server);
            ending.spawn(async move { server.end().await });
        }
        ending.join_all().await;
    }
}
