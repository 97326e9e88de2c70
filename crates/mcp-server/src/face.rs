//! What all connections share.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pincer_catalog::Source;
use pincer_codemode::RunTools;
use pincer_mcp::Server;
use pincer_runtime::{Principal, Runtime, RuntimeError, Scope, ScopeRequest};
use rmcp::model::ServerNotification as Notification;
use tokio::sync::watch;

use crate::client::Client;
use crate::notices::{Subscriptions, pass_on};
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

/// What a face is made of.
pub struct FaceParts {
    /// Runs programs and makes calls.
    pub runtime: Arc<Runtime>,
    /// The scope of clients. Its principal is the caller of a connection that has no token.
    pub clients: ScopeRequest,
    /// What clients are shown.
    pub surface: Surface,
}

/// What all connections share.
pub struct Face {
    pub(crate) parts: FaceParts,
    /// The scope of connections without a token.
    pub(crate) usual: Scope,
    /// The tools of each user, as long as the door has not changed.
    tools: Mutex<HashMap<Principal, Arc<Shown>>>,
    /// The clients that are there.
    clients: Mutex<Vec<Client>>,
    pub(crate) subscriptions: Subscriptions,
    /// The list of tools of each user, as it read last.
    listed: Mutex<HashMap<Principal, String>>,
    /// Counts how often a list of tools has read differently.
    pub(crate) shown: watch::Sender<u64>,
    connections: AtomicU64,
}

/// Changes that come together are told together.
const TOGETHER: Duration = Duration::from_millis(100);

impl Face {
    /// Begins to tell clients when what they are shown changes.
    ///
    /// # Errors
    /// When the config has no policy for clients.
    pub fn new(parts: FaceParts) -> Result<Arc<Self>, RuntimeError> {
        let face = Arc::new(Self {
            usual: scope(&parts, parts.clients.principal.clone())?,
            parts,
            tools: Mutex::default(),
            clients: Mutex::default(),
            subscriptions: Subscriptions::default(),
            listed: Mutex::default(),
            shown: watch::channel(0).0,
            connections: AtomicU64::new(0),
        });
        let servers = face.parts.runtime.servers();
        tokio::spawn(compare(Arc::downgrade(&face), servers.changes()));
        if face.parts.surface == Surface::Direct {
            tokio::spawn(pass_on(Arc::downgrade(&face), servers.listen()));
        }
        Ok(face)
    }

    /// Returns the scope of a user.
    pub(crate) fn scope(&self, principal: Principal) -> Result<Scope, RuntimeError> {
        scope(&self.parts, principal)
    }

    /// A number for a connection.
    pub(crate) fn next_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the tools of a user, as programs have them.
    pub(crate) fn tools(&self, scope: &Scope) -> Arc<RunTools> {
        self.parts.runtime.tools(scope)
    }

    /// Returns the tools that a user is shown now.
    pub(crate) fn shown_now(&self, scope: &Scope) -> Arc<Shown> {
        let tools = self.tools(scope);
        let mut kept = lock(&self.tools);
        match kept.get(scope.principal()) {
            Some(shown) if Arc::ptr_eq(&shown.tools, &tools) => Arc::clone(shown),
            _ => {
                let shown = Arc::new(Shown::new(tools));
                kept.insert(scope.principal().clone(), Arc::clone(&shown));
                shown
            }
        }
    }

    /// Tells the clients of each user that is there if their list of tools reads differently than when it was last looked at.
    pub(crate) fn compare(&self) {
        let clients = self.clients();
        let scopes: HashMap<&Principal, &Scope> =
            clients.iter().map(|client| (client.scope.principal(), &client.scope)).collect();
        let changed: HashSet<&Principal> =
            scopes.into_iter().filter(|(_, scope)| self.reads_differently(scope)).map(|(user, _)| user).collect();
        if !changed.is_empty() {
            self.shown.send_modify(|count| *count += 1);
            let notice = || Notification::ToolListChangedNotification(Default::default());
            let theirs = clients.iter().filter(|client| changed.contains(client.scope.principal()));
            theirs.for_each(|client| client.tell(notice()));
        }
    }

    /// Remembers what the first client of a user is shown: what changed before is no change to it.
    pub(crate) fn welcome(&self, scope: &Scope) {
        if !self.clients().iter().any(|client| client.scope.principal() == scope.principal()) {
            self.reads_differently(scope);
        }
    }

    /// Returns whether the list of tools of a user reads differently than when it was last looked at.
    fn reads_differently(&self, scope: &Scope) -> bool {
        let now = self.definitions(scope).to_string();
        let before = lock(&self.listed).insert(scope.principal().clone(), now.clone());
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

    /// Returns the servers that a user may have anything of. Of one that is denied the user hears nothing.
    pub(crate) fn servers(&self, scope: &Scope) -> impl Iterator<Item = &Arc<Server>> {
        let tools = self.tools(scope);
        let of_servers = tools.catalog().iter().filter(|entry| entry.id.source() == Source::Mcp);
        let owners: BTreeSet<String> = of_servers.map(|entry| entry.id.owner().to_owned()).collect();
        self.parts.runtime.servers().iter().filter(move |server| owners.contains(server.name()))
    }
}

/// Returns the scope of a user: that of all clients, but for the user.
fn scope(parts: &FaceParts, principal: Principal) -> Result<Scope, RuntimeError> {
    let request = ScopeRequest { principal: principal.over("mcp"), ..parts.clients.clone() };
    parts.runtime.scope(&request)
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
