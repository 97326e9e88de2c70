//! `pincer mcp serve`: Pincer as an MCP server.

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::PolicyError;
use pincer_codemode::{CodeMode, Settings};
use pincer_config::Scope;
use pincer_config::keys::McpSampling;
use pincer_mcp_server::{
    Bounds, Face, FaceParts, HttpServer, HttpSettings, Policies, Requests, Surface, User, serve_stdio,
};
use pincer_tools::EventSink;
use tokio_util::sync::CancellationToken;

use crate::audit::Audit;
use crate::codemode::{Purpose, Ready, config_scope, user};
use crate::commands::exec::{code_of, show_refused};
use crate::interrupt::Interruptions;
use crate::print::{chain, note};
use crate::usage::{PlaceArguments, ScopeArguments};
use crate::usage_mcp::{ServeArguments, SurfaceArgument};
use crate::{DONE, FAILED, WRONG_USAGE, state};

/// Cells that run at a time, for all clients together.
const LIVE_CELLS: u32 = 64;
/// How long tools that are in the middle of something have when the client has gone.
const LINGER: Duration = Duration::from_secs(30);

/// The parts of the heap that threads share.
const HEAP_PARTS: u8 = 4;

pub(crate) fn run(places: &PlaceArguments, arguments: &ServeArguments) -> u8 {
    pincer_process::limit_heap_parts(HEAP_PARTS);
    let runtime =
        if arguments.http.is_some() { crate::tokio_runtime::large() } else { crate::tokio_runtime::for_stdio() };
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            note(&format!("error: the server cannot be started: {}", chain(&error)));
            return FAILED;
        }
    };
    let code = runtime.block_on(serve(places, arguments));
    // Standard input may still be read.
    runtime.shutdown_background();
    code
}

async fn serve(places: &PlaceArguments, arguments: &ServeArguments) -> u8 {
    let surface = match arguments.surface {
        SurfaceArgument::Code => Surface::Code,
        SurfaceArgument::Direct => Surface::Direct,
        SurfaceArgument::Search => Surface::Search,
    };
    let sampling = if surface == Surface::Direct { McpSampling::Pass } else { McpSampling::Refuse };
    let requests = Requests::default();
    let purpose = Purpose { live_cells: LIVE_CELLS, sampling };
    let events: Arc<dyn EventSink> = match (surface, state::directory(places.state_dir.as_deref())) {
        (Surface::Direct | Surface::Search, Some(state)) => Arc::new(Audit::new(&state, requests.clone())),
        _ => Arc::new(requests.clone()),
    };
    let ready = match Ready::new(places, &arguments.scope, purpose, events) {
        Ok(ready) => ready,
        Err(refused) => {
            show_refused(&refused, false);
            return code_of(&refused);
        }
    };
    let policies = match policies(&ready, &arguments.scope) {
        Ok(policies) => policies,
        Err(error) => {
            note(&format!("error: {}", chain(&error)));
            return WRONG_USAGE;
        }
    };
    ready.mcp.warm_up();
    let face = Face::new(FaceParts {
        mode: ready.mode.clone(),
        door: Arc::clone(&ready.door),
        servers: Arc::clone(&ready.mcp),
        approvals: ready.store.clone(),
        requests,
        policies,
        settings: Settings::new(&ready.config().code_mode(arguments.scope.agent.as_deref())),
        session: arguments.session.as_str().into(),
        user: User(user()),
        surface,
    });
    // Before anybody is told that we are here.
    let interrupted = Interruptions::listen();
    let end = CancellationToken::new();
    let served = match arguments.http {
        None => tokio::spawn(stdio(face, end.clone())),
        Some(address) => {
            let serve = &ready.config().mcp.serve;
            let settings = HttpSettings {
                address,
                tokens: serve.tokens.clone(),
                allowed_hosts: serve.allowed_hosts.clone(),
                allowed_origins: serve.allowed_origins.clone(),
                bounds: Bounds::USUAL.with_files(pincer_process::raise_open_files()),
            };
            let server = match HttpServer::bind(settings).await {
                Ok(server) => server,
                Err(error) => {
                    note(&format!("error: {}", chain(&error)));
                    ready.end().await;
                    return WRONG_USAGE;
                }
            };
            note(&format!("listening on {}", server.url()));
            let end = end.clone();
            tokio::spawn(async move {
                server.serve(face, end).await;
                Ok(())
            })
        }
    };
    let served = attended(served, interrupted, &ready.mode, &end).await;
    // Programs are suspended, and what is in the middle of something may finish.
    let _ = tokio::time::timeout(LINGER, async {
        ready.mode.suspend().await;
        ready.mode.linger().await;
    })
    .await;
    ready.mode.shutdown().await;
    ready.end().await;
    match served {
        Ok(()) => DONE,
        Err(error) => {
            note(&format!("error: {error}"));
            FAILED
        }
    }
}

/// Returns what each user may have: those with a token are the senders of that name.
fn policies(ready: &Ready, scope: &ScopeArguments) -> Result<Policies, PolicyError> {
    let config = ready.config();
    let of = config.mcp.serve.tokens.keys().map(|name| {
        let scope = Scope { sender: Some(name), ..config_scope(scope) };
        Ok((User::with_token(name), config.served_policy(&scope)?))
    });
    Ok(Policies { usual: config.served_policy(&config_scope(scope))?, of: of.collect::<Result<_, _>>()? })
}

async fn stdio(face: Arc<Face>, end: CancellationToken) -> Result<(), String> {
    serve_stdio(face, end).await.map_err(|error| format!("the client did not begin as an MCP client does: {error}"))
}

/// Until it is over, or somebody wants it to be.
async fn attended(
    mut served: tokio::task::JoinHandle<Result<(), String>>,
    mut interrupted: Interruptions,
    mode: &CodeMode,
    end: &CancellationToken,
) -> Result<(), String> {
    let broken = |_| Err("the server broke down".to_owned());
    tokio::select! {
        biased;
        served = &mut served => return served.unwrap_or_else(broken),
        _ = interrupted.next() => {
            // First, so that whoever waits for a program is told that it can be continued.
            mode.suspend().await;
            end.cancel();
        }
    }
    // Clients that keep their streams open are not waited for.
    match tokio::time::timeout(Duration::from_secs(2), served).await {
        Ok(served) => served.unwrap_or_else(broken),
        Err(_) => Ok(()),
    }
}
