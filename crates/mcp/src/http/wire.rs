//! The way to a server, of whichever kind.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::client::HttpClient;
use super::error::HttpError;
use super::remote::Remote;
use super::sse::Sse;
use super::streamable;
use crate::auth::Logins;
use crate::settings::Speaks;

/// A transport whose kind is known only when it is made. rmcp's functions want a type for each.
/// Results come out of it [as text](crate::opened).
pub struct Wire {
    carrier: Box<dyn Carry>,
    trouble: Trouble,
}

/// What happened to a connection, for when rmcp says only that it has ended.
#[derive(Clone, Default)]
pub struct Trouble(Arc<Mutex<Option<String>>>);

/// Why a message was not sent.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct WireError(pub(super) Box<dyn std::error::Error + Send + Sync>);

impl Trouble {
    /// Remembers something. The messages go on from the server's name.
    pub fn note(&self, what: &impl Display) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(what.to_string());
    }

    /// What was remembered last.
    pub fn last(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Wire {
    /// Any transport as a wire.
    pub fn new(transport: impl Transport<RoleClient> + 'static) -> Self {
        Self { carrier: Box::new(Carrier(transport)), trouble: Trouble::default() }
    }

    /// The way to a server with an address. `logins` has what `pincer mcp login` has stored. Nothing is sent yet, except to a
    /// server that is said to be an old one: there, a stream has to come first. Results are rmcp's custom ones, with all that was
    /// sent; only that of the greeting has a type.
    pub async fn to(remote: &Remote, logins: Option<&Logins>) -> Result<Self, HttpError> {
        let http = HttpClient::new(remote, logins)?;
        let trouble = Trouble::default();
        let carrier: Box<dyn Carry> = match remote.speaks {
            Speaks::Streamable => Box::new(Carrier(streamable::transport(http, trouble.clone()))),
            Speaks::Events => Box::new(Carrier(Sse::open(http, trouble.clone()).await?)),
            Speaks::Either => Box::new(Either::new(http, trouble.clone())),
        };
        Ok(Self { carrier, trouble })
    }

    /// What will have happened to it. Take it before rmcp takes the wire.
    pub fn trouble(&self) -> Trouble {
        self.trouble.clone()
    }
}

impl Transport<RoleClient> for Wire {
    type Error = WireError;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), WireError>> + Send + 'static {
        self.carrier.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<ServerJsonRpcMessage>> + Send {
        self.carrier.receive()
    }

    fn close(&mut self) -> impl Future<Output = Result<(), WireError>> + Send {
        self.carrier.close()
    }
}

/// [`Transport`], for which there can be a `dyn`.
trait Carry: Send {
    fn send(&mut self, message: ClientJsonRpcMessage) -> BoxFuture<'static, Result<(), WireError>>;
    fn receive(&mut self) -> BoxFuture<'_, Option<ServerJsonRpcMessage>>;
    fn close(&mut self) -> BoxFuture<'_, Result<(), WireError>>;
}

struct Carrier<T>(T);

impl<T: Transport<RoleClient>> Carry for Carrier<T> {
    fn send(&mut self, message: ClientJsonRpcMessage) -> BoxFuture<'static, Result<(), WireError>> {
        self.0.send(message).map(|sent| sent.map_err(|error| WireError(Box::new(error)))).boxed()
    }

    fn receive(&mut self) -> BoxFuture<'_, Option<ServerJsonRpcMessage>> {
        self.0.receive().boxed()
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), WireError>> {
        self.0.close().map(|closed| closed.map_err(|error| WireError(Box::new(error)))).boxed()
    }
}

/// Streamable HTTP, until the server answers `initialize` as only an old one would.
struct Either {
    now: Box<dyn Carry>,
    http: HttpClient,
    trouble: Trouble,
    /// Where the other way is put, if it is the right one. rmcp sends the first messages one after the other.
    other: Arc<Mutex<Option<Sse>>>,
}

impl Either {
    fn new(http: HttpClient, trouble: Trouble) -> Self {
        let now = Box::new(Carrier(streamable::transport(http.clone(), trouble.clone())));
        Self { now, http, trouble, other: Arc::default() }
    }

    fn settle(&mut self) {
        if let Some(other) = self.other.lock().unwrap_or_else(PoisonError::into_inner).take() {
            self.now = Box::new(Carrier(other));
        }
    }
}

impl Carry for Either {
    fn send(&mut self, message: ClientJsonRpcMessage) -> BoxFuture<'static, Result<(), WireError>> {
        self.settle();
        let begins = matches!(&message, JsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::InitializeRequest(_)));
        if !begins {
            return self.now.send(message);
        }
        let first = self.now.send(message.clone());
        let (http, trouble, other) = (self.http.clone(), self.trouble.clone(), Arc::clone(&self.other));
        async move {
            let error = match first.await {
                Err(error) if is_of_old_server(&error) => error,
                sent => return sent,
            };
            match as_old_server(http, trouble, message).await {
                Ok(sse) => {
                    *other.lock().unwrap_or_else(PoisonError::into_inner) = Some(sse);
                    Ok(())
                }
                // It is no old server either: then what it said first is what is wrong.
                Err(HttpError::NotFound | HttpError::Status { .. } | HttpError::ContentType { .. }) => Err(error),
                Err(error) => Err(WireError(Box::new(error))),
            }
        }
        .boxed()
    }

    fn receive(&mut self) -> BoxFuture<'_, Option<ServerJsonRpcMessage>> {
        self.settle();
        self.now.receive()
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), WireError>> {
        self.settle();
        self.now.close()
    }
}

async fn as_old_server(http: HttpClient, trouble: Trouble, message: ClientJsonRpcMessage) -> Result<Sse, HttpError> {
    let mut sse = Sse::open(http, trouble).await?;
    sse.send(message).await?;
    Ok(sse)
}

fn is_of_old_server(error: &WireError) -> bool {
    match error.0.downcast_ref::<StreamableHttpError<HttpError>>() {
        Some(StreamableHttpError::Client(error)) => error.is_of_old_server(),
        _ => false,
    }
}
