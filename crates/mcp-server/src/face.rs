//! What all connections share.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pincer_catalog::{Catalog, Policy, Source};
use pincer_codemode::{CodeMode, RunTools, Settings};
use pincer_mcp::{Server, Servers};
use pincer_store::{Approvals, SessionKey};
use pincer_tools::{Context, Door};
use rmcp::model::ServerNotification as Notification;
use tokio::sync::watch;

use crate::client::Client;
use crate::notices::{Subscriptions, pass_on};
use crate::requests::Requests;
use crate::shown::Shown;

/// What clients are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surface {
    /// `exec` and `wait`.
    #[default]
    Code,
    /// Every tool of every source under its own name, with the resources and prompts of the servers.
    Direct,
    /// `tool_search`, `tool_describe` and `tool_call`.
    Search,
}

/// Who calls. Set on requests by whoever has checked it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct User(pub String);

impl User {
    /// The user who has the token of this name.
    pub fn with_token(name: &str) -> Self {
        Self(format!("token:{name}"))
    }
}

/// The policy of each user.
#[derive(Default)]
pub struct Policies {
    /// For users that are not named.
    pub usual: Policy,
    /// For these users.
    pub of: HashMap<User, Policy>,
}

impl From<Policy> for Policies {
    fn from(usual: Policy) -> Self {
        Self { usual, of: HashMap::new() }
    }
}

/// What a face is made of.
pub struct FaceParts {
    /// Runs programs.
    pub mode: CodeMode,
    /// The one door.
    pub door: Arc<Door>,
    /// The MCP servers behind it.
    pub servers: Arc<Servers>,
    /// Where questions are.
    pub approvals: Arc<dyn Approvals + Send + Sync>,
    /// What the door was given for its events.
    pub requests: Requests,
    /// What clients may have.
    pub policies: Policies,
    /// What programs may use.
    pub settings: Settings,
    /// The session that everything belongs to.
    pub session: SessionKey,
    /// Who calls, if nothing else is said.
    pub user: User,
    /// What clients are shown.
    pub surface: Surface,
}

/// What all connections share.
pub struct Face {
    pub(crate) parts: FaceParts,
    /// The tools of each user, as long as the door has not changed.
    tools: Mutex<HashMap<User, Arc<Shown>>>,
    /// The clients that are there.
    clients: Mutex<Vec<Client>>,
    pub(crate) subscriptions: Subscriptions,
    /// The list of tools of each user, as it read last.
    listed: Mutex<HashMap<User, String>>,
    /// Counts how often a list of tools has read differently.
    pub(crate) shown: watch::Sender<u64>,
    connections: AtomicU64,
}

/// Changes that come together are told together.
const TOGETHER: Duration = Duration::from_millis(100);

impl Face {
    /// Begins to tell clients when what they are shown changes.
    pub fn new(parts: FaceParts) -> Arc<Self> {
        let face = Arc::new(Self {
            parts,
            tools: Mutex::default(),
            clients: Mutex::default(),
            subscriptions: Subscriptions::default(),
            listed: Mutex::default(),
            shown: watch::channel(0).0,
            connections: AtomicU64::new(0),
        });
        tokio::spawn(compare(Arc::downgrade(&face), face.parts.servers.changes()));
        if face.parts.surface == Surface::Direct {
            tokio::spawn(pass_on(Arc::downgrade(&face), face.parts.servers.listen()));
        }
        face
    }

    /// A number for a connection.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// The tools of a user, as programs have them.
    pub(crate) fn tools(&self, user: &User) -> Arc<RunTools> {
        Arc::clone(&self.shown_now(user).tools)
    }

    /// Returns the tools that a user is shown now.
    pub(crate) fn shown_now(&self, user: &User) -> Arc<Shown> {
        let version = self.parts.door.version();
        let mut kept = lock(&self.tools);
        match kept.get(user) {
            Some(shown) if shown.version == version => Arc::clone(shown),
            _ => {
                let catalog = Catalog::new(self.parts.door.entries()).unwrap_or_default();
                let policy = self.parts.policies.of.get(user).unwrap_or(&self.parts.policies.usual);
                let tools = RunTools::new(&self.parts.door, &catalog, policy, &self.context(user));
                let shown = Arc::new(Shown::new(version, tools));
                kept.insert(user.clone(), Arc::clone(&shown));
                shown
            }
        }
    }

    /// For whom a call of this user is made.
    pub(crate) fn context(&self, user: &User) -> Context {
        Context {
            session: self.parts.session.clone(),
            user: user.0.clone(),
            sender: Some(user.0.clone()),
            channel: Some("mcp".into()),
            ..Context::default()
        }
    }

    /// Tells the clients of each user that is there if their list of tools reads differently than when it was last looked at.
    pub(crate) fn compare(&self) {
        let clients = self.clients();
        let users: HashSet<&User> = clients.iter().map(|client| &client.user).collect();
        let mut changed = HashSet::new();
        for user in users {
            if self.reads_differently(user) {
                changed.insert(user);
            }
        }
        if !changed.is_empty() {
            self.shown.send_modify(|count| *count += 1);
            let notice = || Notification::ToolListChangedNotification(Default::default());
            clients.iter().filter(|client| changed.contains(&client.user)).for_each(|client| client.tell(notice()));
        }
    }

    /// Remembers what the first client of a user is shown: what changed before is no change to it.
    pub(crate) fn welcome(&self, user: &User) {
        if !self.clients().iter().any(|client| client.user == *user) {
            self.reads_differently(user);
        }
    }

    /// Returns whether the list of tools of a user reads differently than when it was last looked at.
    fn reads_differently(&self, user: &User) -> bool {
        let now = self.definitions(user).to_string();
        let before = lock(&self.listed).insert(user.clone(), now.clone());
        before.is_some_and(|before| before != now)
    }

    pub(crate) fn joined(&self, client: Client) {
        let mut clients = lock(&self.clients);
        clients.retain(Client::is_there);
        clients.push(client);
    }

    /// The clients that are there.
    pub(crate) fn clients(&self) -> Vec<Client> {
        let mut clients = lock(&self.clients);
        clients.retain(Client::is_there);
        clients.clone()
    }

    /// The servers that a user may have anything of: of one that is denied they hear nothing.
    pub(crate) fn servers(&self, user: &User) -> impl Iterator<Item = &Arc<Server>> {
        let tools = self.tools(user);
        let of_servers = tools.catalog().iter().filter(|entry| entry.id.source() == Source::Mcp);
        let owners: BTreeSet<String> = of_servers.map(|entry| entry.id.owner().to_owned()).collect();
        self.parts.servers.iter().filter(move |server| owners.contains(server.name()))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells clients when the list of tools reads differently.
async fn compare(face: Weak<Face>, mut changes: watch::Receiver<u64>) {
    loop {
        match face.upgrade() {
            Some(face) => face.compare(),
            None => return,
        }
        if changes.changed().await.is_err() {
            return;
        }
        tokio::time::sleep(TOGETHER).await;
    }
}
