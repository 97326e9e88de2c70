//! The server.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::State;
use axum::response::Response;
use axum::serve::ListenerExt as _;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use crate::answer::Prepared;
use crate::error::Error;
use crate::exchange::{End, Exchanges, Mark, Request, Stage};
use crate::formats::{Ask, Format, model, models};
use crate::message::Fault;
use crate::pairing::mismatch;
use crate::script::{MODEL, Order, Script, replies_in};

/// The largest request that is read.
const MAX_REQUEST: usize = 256 << 20;

/// A server that follows a [`Script`], on loopback. It ends when it is dropped, and closes its connections.
///
/// It has a thread and an async runtime of its own, so that it works in any program, and a test's clock does not move its pauses.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    script: Script,
    exchanges: Exchanges,
    connections: AtomicUsize,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The number of model requests so far.
    asked: usize,
    complaints: Vec<String>,
}

impl Server {
    /// Starts a server on a free port.
    ///
    /// # Errors
    /// When a reply contradicts itself, or the system refuses a socket or a thread.
    pub fn start(script: Script) -> Result<Self, Error> {
        Self::start_on(0, script)
    }

    /// Starts a server on a port; 0 stands for any that is free.
    ///
    /// # Errors
    /// When a reply contradicts itself, the port is taken, or the system refuses a thread.
    pub fn start_on(port: u16, script: Script) -> Result<Self, Error> {
        script.check()?;
        Self::listen(port, script).map_err(|source| Error::Listen { port, source })
    }

    fn listen(port: u16, script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (exchanges, connections, progress) = (Exchanges::new(), AtomicUsize::new(0), Mutex::default());
        let shared = Arc::new(Shared { script, exchanges, connections, progress });
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&shared);
        let name = "scripted-model".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || run(&runtime, listener, serving, stopped))?;
        Ok(Self { address, shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the address, as `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the address as the official client of a format takes it: OpenAI's with `/v1`, Anthropic's without.
    #[must_use]
    pub fn base_url(&self, format: Format) -> String {
        format!("{}{}", self.url(), format.base())
    }

    /// Returns all requests so far, in the order in which their bodies had arrived.
    #[must_use]
    pub fn requests(&self) -> Vec<Arc<Request>> {
        self.shared.exchanges.requests()
    }

    /// Returns how many connections clients have opened so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Returns how requests differed from what the script expects, and which came after its end.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner).complaints.clone()
    }

    /// Returns how many replies no request has had yet.
    #[must_use]
    pub fn unused(&self) -> usize {
        let asked = self.shared.progress.lock().unwrap_or_else(PoisonError::into_inner).asked;
        self.shared.script.replies.len().saturating_sub(asked)
    }

    /// Waits for a request, counted from 0.
    pub async fn request(&self, index: usize) -> Arc<Request> {
        self.shared.exchanges.until(index, |exchange| Some(Arc::clone(&exchange.request))).await
    }

    /// Waits until the answer to a request, counted from 0, stalls or has ended.
    pub async fn stalled(&self, index: usize) {
        self.shared.exchanges.until(index, |exchange| (exchange.stage != Stage::Answering).then_some(())).await;
    }

    /// Waits until the answer to a request, counted from 0, has ended, and returns how. [`End::Left`] says that the client has
    /// closed the connection.
    pub async fn ended(&self, index: usize) -> End {
        let end = |stage| if let Stage::Ended(end) = stage { Some(end) } else { None };
        self.shared.exchanges.until(index, |exchange| end(exchange.stage)).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // Short: the thread waits for nothing else. A panic of it was printed and changes nothing here.
            let _ = thread.join();
        }
    }
}

/// Serves until `stopped`. The runtime is dropped after that, and with it every connection.
fn run(runtime: &Runtime, listener: TcpListener, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    runtime.block_on(async {
        // The socket was made non-blocking before: nothing is left that can fail.
        let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
        let counted = Arc::clone(&shared);
        let listener = listener.tap_io(move |connection| {
            counted.connections.fetch_add(1, Ordering::Relaxed);
            // Small chunks are sent at once; a connection that refuses has gone already.
            let _ = connection.set_nodelay(true);
        });
        let router = Router::new().fallback(answer).with_state(shared);
        tokio::select! {
            _ = axum::serve(listener, router) => {}
            _ = stopped => {}
        }
    });
}

async fn answer(State(shared): State<Arc<Shared>>, request: axum::extract::Request) -> Response {
    let (head, body) = request.into_parts();
    // A body that breaks off has no sender any more that would read the answer.
    let body = to_bytes(body, MAX_REQUEST).await.unwrap_or_default();
    let header = |(name, value): (_, &axum::http::HeaderValue)| {
        (ToString::to_string(&name), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let request = Arc::new(Request {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers.iter().map(header).collect::<BTreeMap<_, _>>(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        text: String::from_utf8_lossy(&body).into_owned(),
    });
    let mark = shared.exchanges.begin(&request);
    shared.prepare(&request, &mark).send(mark).await
}

impl Shared {
    fn prepare(&self, request: &Request, mark: &Mark) -> Prepared {
        let format = Format::ALL.into_iter().find(|format| format.path() == request.path);
        match (request.method.as_str(), format) {
            ("POST", Some(format)) => self.reply(format, request, mark.number()),
            ("GET", None) => self.describe(request, mark.number()),
            _ => not_found(request, mark.number()),
        }
    }

    fn describe(&self, request: &Request, number: usize) -> Prepared {
        let is_anthropic = request.header("anthropic-version").is_some();
        if request.path == "/v1/models" {
            return Prepared::json(200, &models(&self.script.models, is_anthropic));
        }
        let name =
            request.path.strip_prefix("/v1/models/").filter(|name| self.script.models.iter().any(|it| it == name));
        name.map_or_else(|| not_found(request, number), |name| Prepared::json(200, &model(name, is_anthropic)))
    }

    fn reply(&self, format: Format, request: &Request, number: usize) -> Prepared {
        if !request.body.is_object() {
            let message = Some("The body is not a JSON object.".to_owned());
            return Prepared::error(format, number, 400, &Fault { message, ..Fault::default() });
        }
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = progress.asked;
        progress.asked += 1;
        let mut complain = |status: u16, code: &str, complaint: String| {
            progress.complaints.push(complaint.clone());
            let fault = Fault { code: Some(code.to_owned()), message: Some(complaint), ..Fault::default() };
            let mut prepared = Prepared::error(format, number, status, &fault);
            // Official clients would ask again, and hide the mistake of a test for seconds.
            prepared.header("x-should-retry", "false");
            prepared
        };
        let due = match self.script.order {
            Order::Requests => asked,
            Order::Conversation => replies_in(&request.body),
            Order::Matching => {
                let mut replies = self.script.replies.iter();
                replies.position(|reply| reply.expect.mismatch(request).is_none()).unwrap_or(self.script.replies.len())
            }
        };
        let Some(reply) = self.script.reply_to(due) else {
            let has = self.script.replies.len();
            let complaint = format!("The script has no reply to request {}: it ends after {has}.", asked + 1);
            return complain(500, "script_exhausted", complaint);
        };
        if let Some(mismatch) = reply.expect.mismatch(request) {
            let complaint = format!("Request {} is not the one in the script: {mismatch}.", asked + 1);
            return complain(400, "script_mismatch", complaint);
        }
        if let Some(mismatch) = mismatch(&request.body).filter(|_| self.script.strict) {
            let complaint = format!("Request {} would be refused: {mismatch}.", asked + 1);
            return complain(400, "script_mismatch", complaint);
        }
        let first = self.script.models.first().map_or(MODEL, String::as_str);
        let model = request.body["model"].as_str().unwrap_or(first);
        let ask = Ask { number, model, body: &request.body };
        Prepared::scripted(format, &ask, &reply.take.put(request, reply)).unwrap_or_else(|error| {
            complain(500, "script_failed", format!("Reply {} cannot be made: {error}.", asked + 1))
        })
    }
}

fn not_found(request: &Request, number: usize) -> Prepared {
    let is_anthropic = request.header("anthropic-version").is_some();
    let format = if is_anthropic { Format::Messages } else { Format::Chat };
    let message = Some(format!("{} {} is not served here.", request.method, request.path));
    Prepared::error(format, number, 404, &Fault { message, ..Fault::default() })
}
