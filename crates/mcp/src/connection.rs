//! One life of a connection to a server: from the handshake to whatever ended it.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pincer_process::{Group, Start};
use pincer_tools::clean_environment;
use rmcp::ClientServiceExt;
use rmcp::model::{ClientRequest, ErrorData, ServerPeerInfo, ServerResult};
use rmcp::service::{ClientInitializeError, Peer, PeerRequestOptions, RoleClient, RunningService, ServiceError};
use serde_json::Value;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use crate::greeting::{Greeting, Unmet};
use crate::handler::Handler;
use crate::inflight::{Caller, InFlight};
use crate::lines::{Lines, Notes};
use crate::log::{LastWords, listen, log_file};
use crate::server::Host;
use crate::settings::ServerSettings;

/// How long a program has to end by itself once its input is closed.
const FAREWELL: Duration = Duration::from_millis(500);

/// What a connection is over with that we have ended.
pub(crate) const ENDED: &str = "was ended";

/// A server that has been greeted.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    info: Arc<ServerPeerInfo>,
    in_flight: Arc<InFlight>,
    /// Held while a request is sent: progress must not be told of a request before it is known here.
    sending: Arc<Mutex<()>>,
    over: watch::Receiver<Option<Arc<str>>>,
    end: CancellationToken,
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    /// It was not made.
    NotMade(String),
    /// It was turned away before anything was done: there is no login, or none for this.
    TurnedAway(String),
    /// The connection fell while it was being done.
    Lost(String),
    /// The server says no.
    Refused(ErrorData),
    /// It took longer than it may.
    Late(Duration),
    /// Nobody waits for it any more.
    Aborted,
}

type Service = RunningService<RoleClient, Handler>;

impl Connection {
    /// Starts or reaches the server, and greets it in the way that is likely to be understood, or else in the other. Why not, in a
    /// sentence that begins behind its name.
    pub async fn open(settings: &Arc<ServerSettings>, host: &Host, greeting: Greeting) -> Result<Self, String> {
        let first = match Self::greet(settings, host, greeting).await {
            Ok(connection) => return Ok(connection),
            Err(Unmet::Failed(why)) => return Err(why),
            Err(Unmet::Greeting(why)) => why,
        };
        match Self::greet(settings, host, greeting.other()).await {
            Ok(connection) => Ok(connection),
            // It knows neither: then what it said first is what is wrong.
            Err(Unmet::Greeting(_)) => Err(first),
            Err(Unmet::Failed(why)) => Err(why),
        }
    }

    async fn greet(settings: &Arc<ServerSettings>, host: &Host, greeting: Greeting) -> Result<Self, Unmet> {
        let in_flight = Arc::new(InFlight::default());
        let handler =
            Handler { settings: Arc::clone(settings), in_flight: Arc::clone(&in_flight), hub: host.hub.clone() };
        let (service, program) = match settings.words() {
            Some(words) => {
                let (service, program) = start(settings, &words, host, handler, greeting).await?;
                (service, Some(program))
            }
            None => (crate::http::connect(settings, host, handler, greeting).await?, None),
        };
        let peer = service.peer().clone();
        let info = peer.peer_info().ok_or("did not say who it is")?;
        let (tell, over) = watch::channel(None);
        let end = CancellationToken::new();
        tokio::spawn(attend(service, program, end.clone(), tell));
        Ok(Self { peer, info, in_flight, sending: Arc::default(), over, end })
    }

    /// What the server said of itself.
    pub fn info(&self) -> &ServerPeerInfo {
        &self.info
    }

    /// Why it is over, if it is.
    pub fn over(&self) -> Option<Arc<str>> {
        self.over.borrow().clone()
    }

    /// Told when it is over.
    pub fn watch(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.over.clone()
    }

    /// Makes a request and waits for its result. If the caller gives up, so does the server, as far as it listens.
    pub async fn request(
        &self,
        request: ClientRequest,
        timeout: Duration,
        caller: Option<Caller>,
        abort: &CancellationToken,
    ) -> Result<Value, Failure> {
        let options = PeerRequestOptions::with_timeout(timeout);
        let (mut handle, _under_way) = {
            let _sending = self.sending.lock().await;
            let handle = self.peer.send_request_with_option(request, options).await;
            let handle = match handle {
                Ok(handle) => handle,
                Err(_) => return Err(Failure::NotMade(self.why().await)),
            };
            let under_way =
                caller.map(|caller| self.in_flight.add(handle.id.clone(), handle.progress_token.clone(), caller));
            (handle, under_way)
        };
        let settled = tokio::select! {
            biased;
            settled = &mut handle.rx => settled,
            () = abort.cancelled() => {
                let _ = handle.cancel(Some("the call was aborted".into())).await;
                return Err(Failure::Aborted);
            }
            () = tokio::time::sleep(timeout) => {
                let _ = handle.cancel(Some("the call took too long".into())).await;
                return Err(Failure::Late(timeout));
            }
        };
        match settled {
            Ok(Ok(result)) => Ok(raw(result)),
            Ok(Err(ServiceError::McpError(error))) => Err(Failure::Refused(error)),
            Ok(Err(ServiceError::TransportSend(error))) if crate::http::is_turned_away(&error) => {
                Err(Failure::TurnedAway(crate::http::explain_send(&error)))
            }
            Ok(Err(ServiceError::TransportSend(error))) => Err(Failure::Lost(crate::http::explain_send(&error))),
            Ok(Err(ServiceError::TransportClosed)) | Err(_) => Err(Failure::Lost(self.why().await)),
            Ok(Err(error)) => Err(Failure::Lost(error.to_string())),
        }
    }

    /// Why the connection is over, which it is or is about to be.
    async fn why(&self) -> String {
        let mut over = self.over.clone();
        let told = tokio::time::timeout(2 * FAREWELL, over.wait_for(Option::is_some)).await;
        match told {
            Ok(Ok(why)) => why.as_deref().unwrap_or("was lost").to_owned(),
            _ => "was lost".into(),
        }
    }

    /// Ends it, and the program.
    pub async fn end(&self) {
        self.end.cancel();
        let _ = self.over.clone().wait_for(Option::is_some).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// A result as it was sent, as far as the wire has kept it.
fn raw(result: ServerResult) -> Value {
    match result {
        ServerResult::CustomResult(result) => result.0,
        other => serde_json::to_value(other).unwrap_or_default(),
    }
}

/// A running program.
struct Program {
    group: Group,
    words: LastWords,
    notes: Arc<Notes>,
    listening: tokio::task::JoinHandle<()>,
}

impl Program {
    /// Sees it to its end, and says how that was.
    async fn over(mut self) -> String {
        let status = tokio::time::timeout(FAREWELL, self.group.child.wait()).await;
        let _ = tokio::time::timeout(FAREWELL, self.listening).await;
        self.group.end().await;
        let how = match (self.notes.wrong(), status) {
            (Some(wrong), _) => wrong,
            (None, Ok(Ok(status))) => ended(status),
            (None, _) => "closed its standard output".into(),
        };
        let noise = || self.notes.noise().map(|line| format!("wrote to its standard output: {line}"));
        match self.words.text().map(|said| format!("said: {said}")).or_else(noise) {
            Some(said) => format!("{how} and {said}"),
            None => how,
        }
    }
}

fn ended(status: ExitStatus) -> String {
    format!("ended ({status})")
}

/// Starts a server that is a program, and greets it.
async fn start(
    settings: &Arc<ServerSettings>,
    words: &[String],
    host: &Host,
    handler: Handler,
    greeting: Greeting,
) -> Result<(Service, Program), Unmet> {
    let mut environment = clean_environment(&[]);
    environment.extend(settings.config.env.clone());
    let directory = settings.directory.clone();
    let group = Group::start(Start { words, directory, environment, stdin: Stdio::piped() });
    let mut group = group.map_err(|error| not_started(&words[0], settings, &error))?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (group.child.stdin.take(), group.child.stdout.take(), group.child.stderr.take())
    else {
        return Err("has no pipes".into());
    };
    let (words, notes) = (LastWords::default(), Arc::new(Notes::default()));
    let file = host.state.as_deref().map(|state| log_file(state, &settings.name));
    let listening = tokio::spawn(listen(stderr, file, words.clone()));
    let program = Program { group, words, notes: Arc::clone(&notes), listening };
    let met = handler.serve_with_lifecycle(Lines::new(stdout, stdin, notes), greeting.lifecycle());
    match tokio::time::timeout(settings.connect_timeout(), met).await {
        Ok(Ok(service)) => Ok((service, program)),
        Ok(Err(ClientInitializeError::JsonRpcError(error))) => {
            program.over().await;
            let why = format!("refused to start: {}", error.message);
            Err(greeting.unmet(&ClientInitializeError::JsonRpcError(error), why))
        }
        // It ended, or said something that is no greeting: how it ended says more.
        Ok(Err(
            error @ (ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }),
        )) => Err(greeting.unmet(&error, program.over().await)),
        Ok(Err(error)) => {
            program.over().await;
            Err(greeting.unmet(&error, format!("did not start as an MCP server does: {error}")))
        }
        Err(_) => {
            let limit = settings.connect_timeout().as_millis();
            let late = format!("did not answer `{}` within {limit} ms", greeting.method());
            let said = program.words.text();
            let mut group = program.group;
            group.end().await;
            Err(greeting.late(said.map_or_else(|| late.clone(), |said| format!("{late} and said: {said}"))))
        }
    }
}

fn not_started(program: &str, settings: &ServerSettings, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound if !settings.directory.is_dir() => {
            format!("cannot be started: its directory {} is not there", settings.directory.display())
        }
        std::io::ErrorKind::NotFound => {
            format!("cannot be started: there is no program `{program}`. Install it, or correct `command`")
        }
        _ => format!("cannot be started ({program}): {error}"),
    }
}

/// Stays with a connection until it is over.
async fn attend(
    service: Service,
    program: Option<Program>,
    end: CancellationToken,
    tell: watch::Sender<Option<Arc<str>>>,
) {
    let stop = service.cancellation_token();
    let waiting = service.waiting();
    tokio::pin!(waiting);
    let asked = tokio::select! {
        biased;
        _ = &mut waiting => false,
        () = end.cancelled() => true,
    };
    if asked {
        stop.cancel();
        // Old sessions over HTTP are taken leave of, which may take a moment.
        let _ = tokio::time::timeout(FAREWELL, &mut waiting).await;
    }
    let why = match program {
        Some(program) => {
            let how = program.over().await;
            if asked { ENDED.to_owned() } else { how }
        }
        None if asked => ENDED.into(),
        None => "closed the connection".into(),
    };
    tell.send_replace(Some(why.into()));
}
