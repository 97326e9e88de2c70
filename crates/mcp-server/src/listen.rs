//! Accepts connections, so many at a time, and closes those that only take up room.
//!
//! Where all places are taken, a new connection gets that of the one that has been idle the longest. One that has not sent a
//! whole request yet is idle, so half-open connections never lock a client out.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use pincer_process::{Peer, peer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How many connections there may be, and for how long they may do nothing.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// In all.
    pub connections: usize,
    /// From one address.
    pub per_address: usize,
    /// Until a connection has sent the head of its first or next request.
    pub head: Duration,
    /// Until a client takes some of what is sent to it.
    pub stall: Duration,
}

impl Bounds {
    /// Enough for hundreds of clients.
    pub const USUAL: Self =
        Self { connections: 2048, per_address: 1024, head: Duration::from_secs(30), stall: Duration::from_secs(60) };

    /// Lowers them to what a process can do that may have so many open files: half of them are for tools and the store.
    pub fn with_files(self, files: usize) -> Self {
        let connections = self.connections.min(files / 2).max(1);
        Self { connections, per_address: self.per_address.min(connections), ..self }
    }
}

/// After an error of the system, such as too many open files.
const BREATH: Duration = Duration::from_millis(100);
const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 49\r\n\
    Content-Type: text/plain\r\n\r\nall connections are in use: try again in a second";

/// Answers the requests of all connections until `end` is cancelled, and then those that have begun.
pub(crate) async fn serve<H, F, B>(listener: TcpListener, bounds: Bounds, handle: H, end: CancellationToken)
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: std::error::Error + Send + Sync,
{
    let (connections, tasks) = (Arc::new(Connections::new(bounds)), TaskTracker::new());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = end.cancelled() => break,
        };
        let (stream, address) = match accepted {
            Ok((stream, from)) => (stream, from.ip().to_canonical()),
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be accepted");
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        // An answer is written at once, so there is nothing to wait for.
        let _ = stream.set_nodelay(true);
        match connections.place(address) {
            Some(place) => drop(tasks.spawn(connected(stream, place, bounds, handle.clone(), end.clone()))),
            None => drop(tasks.spawn(refused(stream))),
        }
    }
    tasks.close();
    tasks.wait().await;
}

async fn refused(mut stream: TcpStream) {
    let _ = tokio::time::timeout(BREATH, stream.write_all(FULL.as_bytes())).await;
}

/// The life of a connection.
async fn connected<H, F, B>(stream: TcpStream, place: Connection, bounds: Bounds, handle: H, end: CancellationToken)
where
    H: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: std::error::Error + Send + Sync,
{
    let place = Arc::new(place);
    let ends = Ends::of(&stream).map(Arc::new);
    let service = service_fn(|mut request: Request<Incoming>| {
        let busy = Busy::new(&place);
        if let Some(ends) = &ends {
            request.extensions_mut().insert(Arc::clone(ends));
        }
        let answer = handle(request);
        async { Ok::<_, std::convert::Infallible>(answer.await.map(|body| Answer { body, _busy: busy })) }
    });
    let io = TokioIo::new(Patient { stream, stall: bounds.stall, stalled: None });
    let connection =
        http1::Builder::new().timer(TokioTimer::new()).header_read_timeout(bounds.head).serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    // How it ends is of no interest: its client knows, or has gone.
    tokio::select! {
        _ = &mut connection => {}
        () = place.wanted.cancelled() => {}
        () = end.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// The two ends of a connection, as its requests carry them.
pub(crate) struct Ends {
    theirs: SocketAddr,
    ours: SocketAddr,
    is_same_user: OnceCell<bool>,
}

impl Ends {
    fn of(stream: &TcpStream) -> Option<Self> {
        Some(Self { theirs: stream.peer_addr().ok()?, ours: stream.local_addr().ok()?, is_same_user: OnceCell::new() })
    }

    /// Whether the other end is of the user of this process, as far as the system says. Looked up once.
    pub(crate) async fn is_same_user(&self) -> bool {
        let (theirs, ours) = (self.theirs, self.ours);
        let look = || async move { spawn_blocking(move || peer(theirs, ours) != Peer::Other).await.unwrap_or(false) };
        *self.is_same_user.get_or_init(look).await
    }
}

/// All connections of a server.
struct Connections {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    all: HashMap<u64, Entry>,
    per_address: HashMap<IpAddr, usize>,
}

struct Entry {
    address: IpAddr,
    /// Requests that are being answered.
    busy: usize,
    idle_since: Instant,
    wanted: CancellationToken,
}

impl Connections {
    fn new(bounds: Bounds) -> Self {
        Self { bounds, state: Mutex::default() }
    }

    /// Numbers that no panic can leave half-changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a place for a connection from `address`, if need be that of an idle one; `None` if all are busy.
    fn place(self: &Arc<Self>, address: IpAddr) -> Option<Connection> {
        let mut state = self.lock();
        let of_address = state.per_address.get(&address).copied().unwrap_or(0);
        let is_full = of_address >= self.bounds.per_address;
        if is_full || state.all.len() >= self.bounds.connections {
            let idle = state.all.iter().filter(|(_, entry)| entry.busy == 0 && (!is_full || entry.address == address));
            let (id, _) = idle.min_by_key(|(_, entry)| entry.idle_since)?;
            let id = *id;
            state.remove(id);
        }
        state.next += 1;
        let (id, wanted) = (state.next, CancellationToken::new());
        state.all.insert(id, Entry { address, busy: 0, idle_since: Instant::now(), wanted: wanted.clone() });
        *state.per_address.entry(address).or_default() += 1;
        Some(Connection { connections: Arc::clone(self), id, wanted })
    }
}

impl State {
    fn remove(&mut self, id: u64) {
        let Some(entry) = self.all.remove(&id) else { return };
        entry.wanted.cancel();
        if let Some(count) = self.per_address.get_mut(&entry.address) {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&entry.address);
            }
        }
    }
}

/// The place of one connection.
struct Connection {
    connections: Arc<Connections>,
    id: u64,
    /// Cancelled when another connection gets it.
    wanted: CancellationToken,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.lock().remove(self.id);
    }
}

/// A request that is being answered.
struct Busy(Arc<Connection>);

impl Busy {
    fn new(place: &Arc<Connection>) -> Self {
        if let Some(entry) = place.connections.lock().all.get_mut(&place.id) {
            entry.busy += 1;
        }
        Self(Arc::clone(place))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some(entry) = self.0.connections.lock().all.get_mut(&self.0.id) {
            entry.busy -= 1;
            entry.idle_since = Instant::now();
        }
    }
}

/// The body of an answer, which may take as long as a program does.
struct Answer<B> {
    body: B,
    _busy: Busy,
}

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that gives up a client which takes nothing.
struct Patient {
    stream: TcpStream,
    stall: Duration,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    /// Passes on what came of writing, or fails if nothing has come of it for too long.
    fn patiently<T>(&mut self, context: &mut Context<'_>, wrote: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.stalled = None;
            return wrote;
        }
        let stall = self.stall;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, into)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.patiently(context, wrote)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let wrote = Pin::new(&mut this.stream).poll_write_vectored(context, parts);
        this.patiently(context, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
