//! One life of a connection to a server: from the handshake to whatever ended it.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pincer_json::Json;
use pincer_process::{Group, Start, clean_environment};
use rmcp::ClientServiceExt;
use rmcp::model::{ClientRequest, ErrorData, ServerPeerInfo, ServerResult};
use rmcp::service::{
    ClientInitializeError, Peer, PeerRequestOptions, RequestHandle, RoleClient, RunningService, ServiceError,
};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::error::ConnectError;
use crate::greeting::{Greeting, Unmet};
use crate::handler::Handler;
use crate::hiding::Hiding;
use crate::inflight::{Caller, InFlight, UnderWay};
use crate::lines::{Ends, Lines, Notes, is_ours};
use crate::log::{LastWords, listen};
use crate::private::private_directory;
use crate::sealed;
use crate::server::Host;
use crate::settings::{Directory, Launch, Reach, ServerSettings};

/// How long a program has to end by itself once its input is closed.
const FAREWELL: Duration = Duration::from_millis(500);

/// The time for which a caller that gives up waits until the server is told so.
const TAKING_BACK: Duration = Duration::from_millis(100);
/// How long it takes at most to find out how a connection has ended.
const POST_MORTEM: Duration = Duration::from_secs(5);

/// The reason of a connection that Pincer has ended.
pub(crate) const ENDED: &str = "was ended";

/// A server that has been greeted.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    info: Arc<ServerPeerInfo>,
    in_flight: Arc<InFlight>,
    changed: Arc<Notify>,
    over: watch::Receiver<Option<Arc<str>>>,
    end: CancellationToken,
    is_program: bool,
    hiding: Hiding,
}

/// The reason why a request has no result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    /// The server cannot be reached.
    Down(String),
    /// It is being connected to, and was not there in time. Nothing was done.
    Starting,
    /// It was not made: the connection was over.
    NotMade(String),
    /// It was turned away before anything was done: there is no login, or none for this.
    TurnedAway(String),
    /// The connection fell while it was being done.
    Lost(String),
    /// The server says no.
    Refused(ErrorData),
    /// It was answered with something that cannot be used.
    Garbled(String),
    /// It took longer than it may.
    Late(Duration),
    /// The caller has given it up.
    Aborted,
}

type Service = RunningService<RoleClient, Handler>;

impl Connection {
    /// Starts or reaches the server, and greets it in the way that is likely to be understood, or else in the other.
    pub(crate) async fn open(
        settings: &Arc<ServerSettings>,
        host: &Host,
        greeting: Greeting,
    ) -> Result<Self, ConnectError> {
        let first = match Self::greet(settings, host, greeting).await {
            Ok(connection) => return Ok(connection),
            Err(Unmet::Failed(error)) => return Err(error),
            Err(Unmet::Greeting(error)) => error,
        };
        match Self::greet(settings, host, greeting.other()).await {
            Ok(connection) => Ok(connection),
            // It knows neither: then its first answer says what is wrong.
            Err(Unmet::Greeting(_)) => Err(first),
            Err(Unmet::Failed(error)) => Err(error),
        }
    }

    async fn greet(settings: &Arc<ServerSettings>, host: &Host, greeting: Greeting) -> Result<Self, Unmet> {
        let handler = Handler::new(settings, host);
        let (in_flight, changed) = (Arc::clone(&handler.in_flight), Arc::clone(&handler.changed));
        let (closed, hiding) = (handler.closed.clone(), handler.hiding.clone());
        let (service, program) = match &settings.reach {
            Reach::Program(launch) => {
                let (service, program) = start(settings, launch, handler, greeting).await?;
                (service, Some(program))
            }
            Reach::Address(address) => (crate::http::connect(settings, address, host, handler, greeting).await?, None),
        };
        let peer = service.peer().clone();
        let info = peer.peer_info().ok_or(ConnectError::NoInfo)?;
        let is_program = program.is_some();
        let (tell, over) = watch::channel(None);
        let end = CancellationToken::new();
        let attended = attend(service, program, end.clone(), closed);
        let last = hiding.clone();
        tokio::spawn(async move { tell.send_replace(Some(last.text(&attended.await).into())) });
        Ok(Self { peer, info, in_flight, changed, over, end, is_program, hiding })
    }

    /// Returns what the server said of itself.
    pub(crate) fn info(&self) -> &ServerPeerInfo {
        &self.info
    }

    /// Returns why it is over, if it is.
    pub(crate) fn over(&self) -> Option<Arc<str>> {
        self.over.borrow().clone()
    }

    /// Returns whether Pincer has ended it, or is about to.
    pub(crate) fn is_ended(&self) -> bool {
        self.end.is_cancelled()
    }

    /// Notifies when the server has other tools, once for all that was said in the meantime.
    pub(crate) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// Notifies when it is over.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Arc<str>>> {
        self.over.clone()
    }

    /// Makes a request and waits for its result. If the caller gives up, so does the server, as far as it listens.
    pub(crate) async fn request(
        &self,
        request: ClientRequest,
        timeout: Duration,
        caller: Option<Caller>,
        abort: &CancellationToken,
    ) -> Result<Json, Failure> {
        let late = tokio::time::sleep(timeout);
        tokio::pin!(late);
        let sent = tokio::select! {
            biased;
            sent = self.send(request, caller) => sent,
            () = abort.cancelled() => return Err(Failure::Aborted),
            () = &mut late => return Err(Failure::Late(timeout)),
        };
        let Some((mut handle, _under_way)) = sent else { return Err(Failure::NotMade(self.why().await)) };
        let (failure, reason) = tokio::select! {
            biased;
            settled = &mut handle.rx => {
                let outcome = self.outcome(settled.unwrap_or(Err(ServiceError::TransportClosed))).await;
                return outcome.map_err(|failure| self.hidden(failure));
            }
            () = abort.cancelled() => (Failure::Aborted, "the call was aborted"),
            () = late => (Failure::Late(timeout), "the call took too long"),
        };
        // A server that does not listen does not hear it.
        let _ = tokio::time::timeout(TAKING_BACK, handle.cancel(Some(reason.into()))).await;
        Err(failure)
    }

    async fn send(
        &self,
        request: ClientRequest,
        caller: Option<Caller>,
    ) -> Option<(RequestHandle<RoleClient>, Option<UnderWay>)> {
        let _sending = self.in_flight.sending.lock().await;
        let handle = self.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await.ok()?;
        let known = |caller| self.in_flight.add(handle.id.clone(), handle.progress_token.clone(), caller);
        let under_way = caller.map(known);
        Some((handle, under_way))
    }

    /// Returns a failure without the secrets of the server.
    fn hidden(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Refused(mut error) => {
                error.message = self.hiding.text(&error.message).into();
                Failure::Refused(error)
            }
            Failure::Garbled(why) => Failure::Garbled(self.hiding.text(&why)),
            Failure::Lost(why) => Failure::Lost(self.hiding.text(&why)),
            Failure::TurnedAway(why) => Failure::TurnedAway(self.hiding.text(&why)),
            other => other,
        }
    }

    async fn outcome(&self, settled: Result<ServerResult, ServiceError>) -> Result<Json, Failure> {
        match settled {
            Ok(result) => sealed::open(result),
            Err(ServiceError::McpError(error)) if is_ours(&error) => Err(Failure::Garbled(error.message.into())),
            Err(ServiceError::McpError(error)) => Err(Failure::Refused(error)),
            // A program that cannot be written to is over, or about to be: how says more.
            Err(ServiceError::TransportSend(_)) if self.is_program => Err(Failure::Lost(self.why().await)),
            Err(ServiceError::TransportSend(error)) if crate::http::is_turned_away(&error) => {
                Err(Failure::TurnedAway(crate::http::explain_send(&error)))
            }
            Err(ServiceError::TransportSend(error)) => Err(Failure::Lost(crate::http::explain_send(&error))),
            Err(ServiceError::TransportClosed) => Err(Failure::Lost(self.why().await)),
            Err(error) => Err(Failure::Lost(error.to_string())),
        }
    }

    /// Returns why the connection is over, which it is or is about to be.
    async fn why(&self) -> String {
        let mut over = self.over.clone();
        let told = tokio::time::timeout(POST_MORTEM, over.wait_for(Option::is_some)).await;
        match told {
            Ok(Ok(why)) => why.as_deref().unwrap_or("was lost").to_owned(),
            _ => "was lost".into(),
        }
    }

    /// Ends it, and the program.
    pub(crate) async fn end(&self) {
        self.end.cancel();
        let _ = self.over.clone().wait_for(Option::is_some).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end.cancel();
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
    /// Waits until the program has fallen: something it has started may go on with its pipes, which would hide that. A program that
    /// has ended well may have left its work to another, and is waited for without end.
    async fn fallen(&mut self) {
        match self.group.child.wait().await {
            Ok(status) if status.success() => std::future::pending().await,
            _ => tokio::time::sleep(FAREWELL).await,
        }
    }

    /// Waits for its end, and returns how it ended.
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
    settings: &ServerSettings,
    launch: &Launch,
    handler: Handler,
    greeting: Greeting,
) -> Result<(Service, Program), Unmet> {
    let words = launch.words();
    let mut environment = clean_environment(&[]);
    environment.extend(launch.environment(&words));
    let directory = launch.directory.path().to_owned();
    if matches!(launch.directory, Directory::Own { .. }) && !directory.exists() {
        private_directory(&directory).map_err(|error| not_started(&words[0], launch.directory.path(), error))?;
    }
    let group = Group::start(Start { words: &words, directory, environment, stdin: Stdio::piped() });
    let mut group = group.map_err(|error| not_started(&words[0], launch.directory.path(), error))?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (group.child.stdin.take(), group.child.stdout.take(), group.child.stderr.take())
    else {
        return Err(ConnectError::NoPipes.into());
    };
    let (words, notes) = (LastWords::default(), Arc::new(Notes::default()));
    let ends = Ends {
        notes: Arc::clone(&notes),
        in_flight: Arc::clone(&handler.in_flight),
        closed: handler.closed.clone(),
        patience: settings.call_timeout,
    };
    let listening = tokio::spawn(listen(stderr, handler.log.clone(), words.clone(), handler.hiding.clone()));
    let mut program = Program { group, words, notes, listening };
    let met = handler.serve_with_lifecycle(Lines::new(stdout, stdin, ends), greeting.lifecycle());
    let greeted = tokio::select! {
        biased;
        greeted = tokio::time::timeout(settings.connect_timeout, met) => greeted,
        () = program.fallen() => return Err(ConnectError::Over(program.over().await).into()),
    };
    match greeted {
        Ok(Ok(service)) => Ok((service, program)),
        Ok(Err(ClientInitializeError::JsonRpcError(error))) => {
            program.over().await;
            let refused = ConnectError::Refused(error.message.to_string());
            Err(greeting.unmet(ClientInitializeError::JsonRpcError(error), |_| refused))
        }
        // It ended, or said something that is no greeting: how it ended says more.
        Ok(Err(
            error @ (ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }),
        )) => {
            let how = program.over().await;
            Err(greeting.unmet(error, |_| ConnectError::Over(how)))
        }
        Ok(Err(error)) => {
            program.over().await;
            Err(greeting.unmet(error, |error| ConnectError::Handshake(Box::new(error))))
        }
        Err(_) => {
            let said = program.words.text().map(|said| format!(" and said: {said}")).unwrap_or_default();
            let mut group = program.group;
            group.end().await;
            let (limit, method) = (settings.connect_timeout, greeting.method());
            Err(greeting.late(ConnectError::ProgramLate { method, limit, said }))
        }
    }
}

fn not_started(program: &str, directory: &Path, source: io::Error) -> ConnectError {
    match source.kind() {
        io::ErrorKind::NotFound if !directory.is_dir() => ConnectError::NoDirectory(directory.to_owned()),
        io::ErrorKind::NotFound => ConnectError::NoProgram(program.to_owned()),
        _ => ConnectError::NotStarted { program: program.to_owned(), source },
    }
}

/// Attends a connection until it is over, and returns how it ended.
async fn attend(
    service: Service,
    mut program: Option<Program>,
    end: CancellationToken,
    closed: CancellationToken,
) -> String {
    let stop = service.cancellation_token();
    let waiting = service.waiting();
    tokio::pin!(waiting);
    let fallen = async {
        match &mut program {
            Some(program) => program.fallen().await,
            None => std::future::pending().await,
        }
    };
    let (asked, over) = tokio::select! {
        biased;
        _ = &mut waiting => (false, true),
        () = end.cancelled() => (true, false),
        () = fallen => (false, false),
    };
    closed.cancel();
    if !over {
        stop.cancel();
        // Old sessions over HTTP are taken leave of, which may take a moment.
        let _ = tokio::time::timeout(FAREWELL, &mut waiting).await;
    }
    match program {
        Some(program) => {
            let how = program.over().await;
            if asked { ENDED.to_owned() } else { how }
        }
        None if asked => ENDED.into(),
        None => "closed the connection".into(),
    }
}
