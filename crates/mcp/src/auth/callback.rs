//! The address to which the browser returns: a listener on this machine that answers one question.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pincer_http::excerpt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::form_urlencoded;

use super::error::{AuthError, DeniedReason};

const PATH: &str = "/callback";
const MOST_HEAD_BYTES: usize = 16 << 10;
/// Browsers open connections in advance and say nothing on them.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
const MOST_CONNECTIONS: usize = 32;
pub(super) const EXCERPT_CHARS: usize = 300;

/// A listener for the browser's return.
pub(super) struct Callback {
    listener: TcpListener,
    port: u16,
}

/// The code that the browser brought.
pub(super) struct Returned {
    pub code: String,
    pub issuer: Option<String>,
}

/// A request of a browser.
enum Request {
    /// The one we wait for.
    Return(Result<Returned, DeniedReason>),
    /// A return, but not of the login we have begun.
    Foreign,
    /// Anything else: browsers ask for icons.
    Stray,
}

impl Callback {
    pub(super) async fn listen(port: Option<u16>) -> Result<Self, AuthError> {
        let port = port.unwrap_or(0);
        let failed = |source| AuthError::Port { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port })
    }

    /// Returns the address to which the browser is sent back.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the browser, for as long as it takes.
    pub(super) async fn returned(self, state: &str) -> Result<Returned, DeniedReason> {
        let mut visits = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if visits.len() < MOST_CONNECTIONS => {
                    if let Ok((connection, _)) = accepted {
                        visits.push(visit(connection, state));
                    }
                }
                Some(Some(returned)) = visits.next(), if !visits.is_empty() => return returned,
            }
        }
    }
}

/// Answers one connection. None if it is not the one we wait for.
async fn visit(mut connection: TcpStream, state: &str) -> Option<Result<Returned, DeniedReason>> {
    let head = tokio::time::timeout(HEAD_PATIENCE, head(&mut connection)).await.ok()??;
    let request = understood(&head, state);
    let (status, text) = match &request {
        Request::Return(Ok(_)) => ("200 OK", "You are logged in. You can close this page and go back to Pincer."),
        Request::Return(Err(_)) => ("200 OK", "The login was refused. You can close this page and go back to Pincer."),
        Request::Foreign => ("400 Bad Request", "This is not the login that Pincer has begun. Please start it again."),
        Request::Stray => ("404 Not Found", "There is nothing here."),
    };
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Pincer</title>\
         <body style=\"font-family: sans-serif; margin: 4em\"><p>{text}</p></body></html>"
    );
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n\r\n{page}",
        page.len()
    );
    // Whether the browser gets to see it or not, the code is there.
    let said = async {
        connection.write_all(answer.as_bytes()).await?;
        connection.shutdown().await
    };
    let _ = tokio::time::timeout(HEAD_PATIENCE, said).await;
    match request {
        Request::Return(returned) => Some(returned),
        Request::Foreign | Request::Stray => None,
    }
}

/// Reads the head of a request, without its body. None if it is none.
async fn head(connection: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MOST_HEAD_BYTES || connection.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    String::from_utf8(head).ok()
}

fn understood(head: &str, state: &str) -> Request {
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if method != "GET" || path != PATH {
        return Request::Stray;
    }
    let value =
        |name: &str| form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, value)| value);
    // Without this, any page could have the browser log us in as another user.
    if value("state").as_deref() != Some(state) {
        return Request::Foreign;
    }
    if let Some(error) = value("error") {
        let about = value("error_description").map(|about| format!(" ({about})")).unwrap_or_default();
        return Request::Return(Err(DeniedReason::Said(excerpt(&format!("{error}{about}"), EXCERPT_CHARS))));
    }
    match value("code") {
        Some(code) => Request::Return(Ok(Returned { code: code.into_owned(), issuer: value("iss").map(Into::into) })),
        None => Request::Return(Err(DeniedReason::NoCode)),
    }
}
