//! Clients over streamable HTTP: who may connect, and from where.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};
use pincer_json::{MAX_NODES, has_too_many_nodes};
use pincer_runtime::{Principal, RuntimeError, Scope};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::connection::Connection;
use crate::face::Face;
use crate::listen::{self, Bounds, Ends};
use crate::sessions::Sessions;

/// A request may have so many bytes.
const MOST_REQUEST_BYTES: usize = 4 << 20;
/// A client has so long to send a request.
const REQUEST_TIME: Duration = Duration::from_secs(30);
/// An answer that is whole within this time is written as a whole.
const SOON: Duration = Duration::from_millis(3);
/// Where the protocol is spoken.
const PATH: &str = "/mcp";

/// Where to listen, and who may connect.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Where to listen.
    pub address: SocketAddr,
    /// The users by name, each with their token. Empty: nobody has to say who they are.
    pub tokens: BTreeMap<String, String>,
    /// Names by which this server is reached, besides those of this machine.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may use it, besides those of this machine.
    pub allowed_origins: Vec<String>,
    /// How many connections there may be, and for how long they may do nothing.
    pub bounds: Bounds,
}

/// Why nobody can connect.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Anybody could.
    #[error(
        "{0} is reachable from other machines, and nobody would have to say who they are: set a token in \
         `mcp.serve.tokens`, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// Anybody could pass for this user.
    #[error("the token of `{0}` in `mcp.serve.tokens` is empty: is the variable set that it comes from?")]
    EmptyToken(String),
    /// They could not be told apart.
    #[error("`{0}` and `{1}` have the same token in `mcp.serve.tokens`")]
    SameToken(String, String),
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// A server that listens.
pub struct HttpServer {
    listener: TcpListener,
    settings: HttpSettings,
    users: BTreeMap<Digested, String>,
}

impl HttpServer {
    /// Begins to listen. Beyond this machine only with tokens.
    pub async fn bind(settings: HttpSettings) -> Result<Self, HttpError> {
        let address = settings.address;
        if !address.ip().is_loopback() && settings.tokens.is_empty() {
            return Err(HttpError::Open(address));
        }
        let users = users(&settings.tokens)?;
        let listener = TcpListener::bind(address).await.map_err(|source| HttpError::Listen { address, source })?;
        Ok(Self { listener, settings, users })
    }

    /// Where clients reach it.
    pub fn url(&self) -> String {
        let address = self.listener.local_addr().unwrap_or(self.settings.address);
        format!("http://{address}{PATH}")
    }

    /// Serves until `end` is cancelled.
    ///
    /// # Errors
    /// When the config has no policy for one of the users.
    pub async fn serve(self, face: Arc<Face>, end: CancellationToken) -> Result<(), RuntimeError> {
        let HttpSettings { address, allowed_hosts, allowed_origins, .. } = self.settings.clone();
        let mut config = StreamableHttpServerConfig::default().enforce_origin_validation();
        config.cancellation_token = end.child_token();
        let this_machine = ["localhost", "127.0.0.1", "[::1]"];
        config.allowed_hosts = this_machine.iter().map(|host| (*host).to_owned()).chain(allowed_hosts).collect();
        if !address.ip().is_unspecified() && !address.ip().is_loopback() {
            config.allowed_hosts.push(address.ip().to_string());
        }
        let pages = this_machine.iter().flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*")]);
        config.allowed_origins = pages.chain(allowed_origins).collect();
        // Each user has sessions of their own: that of another is one that does not exist.
        let service = |scope: Scope| {
            let face = Arc::clone(&face);
            let connection = move || Ok(Connection::new(Arc::clone(&face), scope.renewed()));
            StreamableHttpService::new(connection, Arc::new(Sessions::new()), config.clone())
        };
        let front = if self.users.is_empty() {
            Front::ThisUser(service(face.usual.renewed()))
        } else {
            let named = self.users.into_iter();
            let named = named.map(|(token, name)| Ok((token, service(face.scope(Principal::with_token(&name))?))));
            Front::Users(named.collect::<Result<_, RuntimeError>>()?)
        };
        let front = Arc::new(front);
        let handle = move |request| admit(Arc::clone(&front), request);
        listen::serve(self.listener, self.settings.bounds, handle, end).await;
        Ok(())
    }
}

type Service = StreamableHttpService<Connection, Sessions>;
type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Who is served.
enum Front {
    /// The user of this process, from this machine.
    ThisUser(Service),
    /// Whoever has one of these tokens.
    Users(BTreeMap<Digested, Service>),
}

/// Tokens are compared by their digests: how long that takes tells nothing of them.
type Digested = [u8; 32];

fn digest(token: &str) -> Digested {
    Sha256::digest(token.trim()).into()
}

fn users(tokens: &BTreeMap<String, String>) -> Result<BTreeMap<Digested, String>, HttpError> {
    let mut users = BTreeMap::new();
    for (name, token) in tokens {
        if token.trim().is_empty() {
            return Err(HttpError::EmptyToken(name.clone()));
        }
        if let Some(other) = users.insert(digest(token), name.clone()) {
            return Err(HttpError::SameToken(other, name.clone()));
        }
    }
    Ok(users)
}

impl Front {
    /// The service of whoever makes a request, if they say who they are where that is asked.
    fn service(&self, request: &Request<Incoming>) -> Option<&Service> {
        match self {
            Self::ThisUser(service) => Some(service),
            Self::Users(users) => {
                let given = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
                let (scheme, token) = given.split_once(' ')?;
                if scheme.eq_ignore_ascii_case("bearer") { users.get(&digest(token)) } else { None }
            }
        }
    }
}

/// Lets a request in if its token is known, where tokens are set, and if it is neither too large nor too slow.
async fn admit(front: Arc<Front>, request: Request<Incoming>) -> Answer {
    if request.uri().path() != PATH {
        return told(StatusCode::NOT_FOUND, &format!("the protocol is spoken at {PATH}"));
    }
    if let Front::ThisUser(_) = &*front
        && !is_of_this_user(&request).await
    {
        let why = "without tokens only the user who runs pincer is served here: set mcp.serve.tokens for others";
        return told(StatusCode::FORBIDDEN, why);
    }
    let Some(service) = front.service(&request) else {
        let why = "send a token of mcp.serve.tokens: Authorization: Bearer TOKEN";
        let mut refused = told(StatusCode::UNAUTHORIZED, why);
        refused.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return refused;
    };
    let (parts, body) = request.into_parts();
    let whole = Limited::new(body, MOST_REQUEST_BYTES).collect();
    match tokio::time::timeout(REQUEST_TIME, whole).await {
        Ok(Ok(body)) => {
            let body = body.to_bytes();
            if has_too_many_nodes(&body) {
                let why = format!("a request is made of at most {MAX_NODES} JSON values and keys: send less at a time");
                return told(StatusCode::PAYLOAD_TOO_LARGE, &why);
            }
            gathered(service.handle(Request::from_parts(parts, Full::new(body))).await).await
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            told(StatusCode::PAYLOAD_TOO_LARGE, &format!("a request has at most {MOST_REQUEST_BYTES} bytes"))
        }
        Ok(Err(error)) => told(StatusCode::BAD_REQUEST, &format!("the request broke off: {error}")),
        Err(_) => {
            let why = format!("the request was not whole after {} seconds", REQUEST_TIME.as_secs());
            told(StatusCode::REQUEST_TIMEOUT, &why)
        }
    }
}

async fn is_of_this_user(request: &Request<Incoming>) -> bool {
    match request.extensions().get::<Arc<Ends>>() {
        Some(ends) => ends.is_same_user().await,
        None => false,
    }
}

fn told(status: StatusCode, why: &str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(format!("{why}\n"))).boxed());
    *answer.status_mut() = status;
    answer
}

/// Waits a moment for the whole answer, so that it is sent in one piece. One that takes longer is passed on as it comes.
async fn gathered(answer: Answer) -> Answer {
    let (parts, mut body) = answer.into_parts();
    let mut frames = Vec::new();
    let soon = tokio::time::timeout(SOON, async {
        while let Some(frame) = body.frame().await {
            frames.push(frame);
        }
    });
    if soon.await.is_err() {
        let body =
            StreamBody::new(stream::iter(frames).chain(body.into_data_stream().map(|data| data.map(Frame::data))));
        return Response::from_parts(parts, BodyExt::boxed(body));
    }
    let mut data: Vec<Bytes> = frames.into_iter().flatten().filter_map(|frame| frame.into_data().ok()).collect();
    // Most have one piece, which is not copied.
    let whole = if data.len() == 1 { data.pop().unwrap_or_default() } else { data.concat().into() };
    Response::from_parts(parts, Full::new(whole).boxed())
}

#[cfg(test)]
mod tests {
    use futures_util::future::pending;
    use hyper::body::Body;

    use super::*;

    fn answer(pieces: &[&'static str], is_whole: bool) -> Answer {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))).collect();
        let more = stream::once(pending()).take(usize::from(!is_whole));
        Response::new(BodyExt::boxed(StreamBody::new(stream::iter(pieces).chain(more))))
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_there_is_sent_in_one_piece_and_another_as_it_comes() {
        let whole = gathered(answer(&["a", "bc"], true)).await;
        assert_eq!(whole.body().size_hint().exact(), Some(3));
        assert_eq!(whole.into_body().collect().await.map(|body| body.to_bytes()), Ok(Bytes::from("abc")));

        let mut coming = gathered(answer(&["a", "bc"], false)).await.into_body();
        assert_eq!(coming.size_hint().exact(), None);
        for piece in ["a", "bc"] {
            let frame = coming.frame().await.and_then(Result::ok).and_then(|frame| frame.into_data().ok());
            assert_eq!(frame, Some(Bytes::from(piece)));
        }
    }
}
