//! An agent with a scripted model, and a channel that does as it is told.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pincer_agent::Agent;
use pincer_channels::{
    Capabilities, Channel, Channels, ChannelsError, Inbox, Notice, Observer, Outgoing, Receipt, Received, SendError,
    TypingNotice,
};
use pincer_config::Loaded;
use pincer_runtime::{EngineStart, ModelSetup, Runtime, RuntimeOptions};
use pincer_scripted::{Script, Server};
use pincer_store::{
    Clock, Deliveries, Delivery, DeliveryPage, DeliverySource, DeliveryState, Enqueued, Leases, NewDelivery, Route,
};
use pincer_store_sqlite::SqliteStore;
use pincer_testkit::house::engine;
use pincer_tools::BoxFuture;
use tempfile::TempDir;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const USER: &str = "me";

/// Waits for something that must come. The time is only there so that a test that fails ends.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it comes")
}

/// A channel that does as it is told.
pub(crate) struct Fake {
    inbox: watch::Sender<Option<Inbox>>,
    sent: watch::Sender<Vec<Outgoing>>,
    typing: watch::Sender<Vec<TypingNotice>>,
    /// The results of the next attempts to send. Texts after them are sent.
    pub answers: Mutex<VecDeque<Result<Option<String>, SendError>>>,
    /// Texts are sent when it has permits.
    pub gate: Semaphore,
    /// The texts that were begun with.
    pub begun: watch::Sender<usize>,
    pub max_text: usize,
}

impl Fake {
    pub(crate) fn new(max_text: usize) -> Arc<Self> {
        Arc::new(Self {
            inbox: watch::Sender::new(None),
            sent: watch::Sender::default(),
            typing: watch::Sender::default(),
            answers: Mutex::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            begun: watch::Sender::new(0),
            max_text,
        })
    }

    /// Has no text sent until permits are added.
    pub(crate) fn shut(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn will(&self, answers: impl IntoIterator<Item = Result<Option<String>, SendError>>) {
        self.answers.lock().unwrap().extend(answers);
    }

    pub(crate) async fn inbox(&self) -> Inbox {
        let mut inbox = self.inbox.subscribe();
        within(inbox.wait_for(Option::is_some)).await.unwrap().clone().unwrap()
    }

    pub(crate) async fn receives(&self, message: Received) -> Receipt {
        self.inbox().await.receive(message).await.unwrap()
    }

    /// Waits until so many texts were sent.
    pub(crate) async fn sent(&self, count: usize) -> Vec<Outgoing> {
        let mut sent = self.sent.subscribe();
        within(sent.wait_for(|sent| sent.len() >= count)).await.unwrap().clone()
    }

    pub(crate) async fn texts(&self, count: usize) -> Vec<String> {
        self.sent(count).await.into_iter().map(|outgoing| outgoing.text).collect()
    }

    /// Waits until it is told that nothing is being written any more.
    pub(crate) async fn typed(&self) -> Vec<TypingNotice> {
        let mut typing = self.typing.subscribe();
        within(typing.wait_for(|told| told.last() == Some(&TypingNotice::End))).await.unwrap().clone()
    }

    pub(crate) async fn begun(&self, count: usize) {
        let mut begun = self.begun.subscribe();
        within(begun.wait_for(|begun| *begun >= count)).await.unwrap();
    }
}

impl Channel for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            typing_every: Some(Duration::from_millis(5)),
            max_text: self.max_text,
            send_timeout: Duration::from_secs(60),
        }
    }

    fn run(&self, inbox: Inbox, stop: CancellationToken) -> BoxFuture<'_, Result<(), ChannelsError>> {
        Box::pin(async move {
            inbox.up().await;
            self.inbox.send_replace(Some(inbox));
            stop.cancelled().await;
            Ok(())
        })
    }

    fn send(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Option<String>, SendError>> {
        Box::pin(async move {
            self.begun.send_modify(|begun| *begun += 1);
            self.gate.acquire().await.unwrap().forget();
            let answer = self.answers.lock().unwrap().pop_front().unwrap_or(Ok(Some("m".into())));
            if answer.is_ok() {
                self.sent.send_modify(|sent| sent.push(outgoing));
            }
            answer
        })
    }

    fn typing(&self, _: Route, notice: TypingNotice) -> BoxFuture<'_, ()> {
        self.typing.send_modify(|told| told.push(notice));
        Box::pin(std::future::ready(()))
    }
}

/// A process with the channel, as far as a test can have one.
pub(crate) struct World {
    pub agent: Agent,
    pub fake: Arc<Fake>,
    pub server: Arc<Server>,
    pub directory: Arc<TempDir>,
    pub notices: Arc<Mutex<Vec<Notice>>>,
    pub stop: CancellationToken,
    running: JoinHandle<Result<(), ChannelsError>>,
    config: String,
}

pub(crate) fn text(text: &str) -> String {
    format!("{{ parts: [{{ text: {text:?} }}] }}")
}

/// A script whose replies follow the requests.
pub(crate) fn served(replies: &[String]) -> Server {
    let script = format!("{{ replies: [{}] }}", replies.join(", "));
    Server::start(Script::parse(&script).expect("a script")).expect("a server")
}

/// `channel` has further keys of the channel's config, `more` further keys of all.
pub(crate) fn config(server: &Server, directory: &Path, channel: &str, more: &str) -> String {
    format!(
        "{{ workspace: {:?}, models: {{ providers: {{ s: {{ baseUrl: '{}/v1', apiKey: 'k' }} }} }}, \
         agents: {{ defaults: {{ model: 's/scripted' }}, writer: {{}} }}, channels: {{ fake: {{ {channel} }} }}, {more} }}",
        directory.join("workspace").display().to_string(),
        server.url(),
    )
}

pub(crate) fn agent(text: &str, directory: &Path) -> Agent {
    std::fs::create_dir_all(directory.join("workspace")).expect("a workspace");
    let parsed = pincer_config::parse(text, &|_| None).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let loaded = Loaded { parsed, ..Loaded::default() };
    let models = ModelSetup::new(&loaded, Some(directory));
    let engine = EngineStart::Given(engine().clone());
    let options = RuntimeOptions { engine, ..RuntimeOptions::new(loaded, directory) };
    Agent::new(Arc::new(Runtime::open(options).expect("a runtime")), models)
}

impl World {
    /// Messages of `ann` are taken.
    pub(crate) fn new(replies: &[String]) -> Self {
        Self::with(replies, "allowFrom: ['ann']", "")
    }

    pub(crate) fn with(replies: &[String], channel: &str, more: &str) -> Self {
        let directory = Arc::new(tempfile::tempdir().expect("a directory"));
        let server = Arc::new(served(replies));
        let config = config(&server, directory.path(), channel, more);
        Self::open(server, directory, config, Fake::new(4000))
    }

    /// Messages of `ann` are taken, and all agents have further settings.
    pub(crate) fn with_agents(replies: &[String], settings: &str) -> Self {
        let directory = Arc::new(tempfile::tempdir().expect("a directory"));
        let server = Arc::new(served(replies));
        let config = config(&server, directory.path(), "allowFrom: ['ann']", "");
        let config = config.replace("defaults: { ", &format!("defaults: {{ {settings}, "));
        Self::open(server, directory, config, Fake::new(4000))
    }

    fn open(server: Arc<Server>, directory: Arc<TempDir>, config: String, fake: Arc<Fake>) -> Self {
        let agent = agent(&config, directory.path());
        let (notices, stop) = (Arc::<Mutex<Vec<Notice>>>::default(), CancellationToken::new());
        let told = Arc::clone(&notices);
        let observer = Observer::new(move |notice| told.lock().unwrap().push(notice));
        let channels = Channels::new(agent.clone(), USER, vec![fake.clone()], observer);
        let ending = stop.clone();
        let running = tokio::spawn(async move { channels.run(&ending).await });
        Self { agent, fake, server, directory, notices, stop, running, config }
    }

    /// Another process on the same store, which takes messages of these senders.
    pub(crate) fn another_for(&self, senders: &str) -> Self {
        let config = self.config.replace("allowFrom: ['ann']", &format!("allowFrom: [{senders}]"));
        Self::open(Arc::clone(&self.server), Arc::clone(&self.directory), config, Fake::new(4000))
    }

    /// Another process on the same store, with a channel that takes texts of so many bytes.
    pub(crate) fn another(&self, max_text: usize) -> Self {
        Self::open(Arc::clone(&self.server), Arc::clone(&self.directory), self.config.clone(), Fake::new(max_text))
    }

    /// Returns the world after the death of the process: the store, and a lease that no process holds.
    pub(crate) async fn dies(self) -> Self {
        self.running.abort();
        self.agent.close().await;
        self.agent.runtime().leases().release();
        self
    }

    /// Ends in order.
    pub(crate) async fn ends(self) {
        self.stop.cancel();
        within(self.running).await.expect("no panic").expect("no error");
    }

    pub(crate) fn store(&self) -> &Arc<SqliteStore> {
        self.agent.runtime().store()
    }

    /// Stores a text for a place.
    pub(crate) async fn stores(&self, key: &str, to: &str, text: &str) -> Delivery {
        self.stores_until(key, to, text, None).await
    }

    pub(crate) async fn stores_until(&self, key: &str, to: &str, text: &str, expires_at: Option<i64>) -> Delivery {
        let new = NewDelivery {
            id: format!("dl_{key}").into(),
            user: USER.into(),
            run: None,
            source: DeliverySource::Operator,
            key: key.into(),
            route: Route { channel: "fake".into(), to: to.into(), ..Route::default() },
            reply_to: None,
            text: text.into(),
            expires_at,
            now: self.store().now(),
        };
        match self.store().enqueue(new).await.expect("stored") {
            Enqueued::New(delivery) => delivery,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until a delivery has ended.
    pub(crate) async fn settled(&self, id: &str) -> Delivery {
        within(async {
            loop {
                let delivery = self.store().delivery(&id.into()).await.expect("there");
                if delivery.state != DeliveryState::Pending {
                    return delivery;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    }

    pub(crate) async fn deliveries(&self) -> Vec<Delivery> {
        self.store().deliveries(DeliveryPage { limit: 100, ..DeliveryPage::default() }).await.expect("read")
    }

    /// Returns the last message of the n-th request.
    pub(crate) fn asked(&self, request: usize) -> String {
        let messages = self.server.requests()[request].body["messages"].as_array().cloned().unwrap_or_default();
        messages.last().map(|message| message["content"].to_string()).unwrap_or_default()
    }
}

pub(crate) fn from(sender: &str, id: &str, text: &str) -> Received {
    Received { message_id: id.into(), sender: sender.into(), text: text.into(), ..Received::default() }
}

pub(crate) fn in_group(sender: &str, group: &str, id: &str, text: &str) -> Received {
    Received { group: Some(group.into()), ..from(sender, id, text) }
}
