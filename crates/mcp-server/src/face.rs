//! What all connections share.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pincer_catalog::{Catalog, Policy, Source};
use pincer_codemode::{CodeMode, RunTools, Settings};
use pincer_mcp::{Server, Servers};
use pincer_store::Approvals;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User(pub String);

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
    pub policy: Policy,
    /// What programs may use.
    pub settings: Settings,
    /// The session that everything belongs to.
    pub session: String,
    /// Who calls, if nothing else is said.
    pub user: User,
    /// What clients are shown.
    pub surface: Surface,
}

/// What all connections share.
pub struct Face {
    pub(crate) parts: FaceParts,
    /// The tools, as long as the door has not changed.
    tools: Mutex<Option<Arc<Shown>>>,
    /// The clients that are there.
    clients: Mutex<Vec<Client>>,
    pub(crate) subscriptions: Subscriptions,
    /// The list of tools, as it read last.
    listed: Mutex<Option<String>>,
    /// Counts how often the list of tools has read differently.
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

    /// The tools as programs have them.
    pub(crate) fn tools(&self) -> Arc<RunTools> {
        Arc::clone(&self.shown_now().tools)
    }

    /// What clients are shown now.
    pub(crate) fn shown_now(&self) -> Arc<Shown> {
        let version = self.parts.door.version();
        let mut kept = lock(&self.tools);
        match &*kept {
            Some(shown) if shown.version == version => Arc::clone(shown),
            _ => {
                let catalog = Catalog::new(self.parts.door.entries()).unwrap_or_default();
                let context = Context { session: self.parts.session.clone(), ..Context::default() };
                let tools = RunTools::new(&self.parts.door, &catalog, &self.parts.policy, &context);
                let shown = Arc::new(Shown::new(version, tools));
                *kept = Some(Arc::clone(&shown));
                shown
            }
        }
    }

    /// Tells the clients that are there if the list of tools reads differently than when it was last looked at.
    pub(crate) fn compare(&self) {
        let now = self.definitions().to_string();
        let mut listed = lock(&self.listed);
        let changed = listed.as_ref().is_some_and(|before| *before != now);
        *listed = Some(now);
        drop(listed);
        if changed {
            self.shown.send_modify(|count| *count += 1);
            let notice = || Notification::ToolListChangedNotification(Default::default());
            self.clients().iter().for_each(|client| client.tell(notice()));
        }
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

    /// The servers that clients may have anything of: of one that is denied they hear nothing.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        let tools = self.tools();
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
