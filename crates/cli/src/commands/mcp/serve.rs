//! `pincer mcp serve`: Pincer as an MCP server.

use std::sync::Arc;
use std::time::Duration;

use pincer_mcp::Sampling;
use pincer_mcp_server::{Bounds, Face, FaceParts, HttpServer, HttpSettings, Surface, serve_stdio};
use pincer_runtime::{Audience, Runtime, RuntimeOptions, ScopeRequest, Trail};
use tokio_util::sync::CancellationToken;

use crate::commands::exec::{code_of, show_refused};
use crate::interrupt::Interruptions;
use crate::opened::{for_programs, request, told};
use crate::print::{chain, note};
use crate::usage::LocationArguments;
use crate::usage_mcp::{ServeArguments, SurfaceArgument};
use crate::{DONE, FAILED, WRONG_USAGE};

/// Cells that run at a time, for all clients together.
const LIVE_CELLS: u32 = 64;
/// How long tools that are in the middle of something have when the client has gone.
const LINGER: Duration = Duration::from_secs(30);

/// The parts of the heap that threads share.
const HEAP_PARTS: u8 = 4;

pub(crate) fn run(locations: &LocationArguments, arguments: &ServeArguments) -> u8 {
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
    let code = runtime.block_on(serve(locations, arguments));
    // Standard input may still be read.
    runtime.shutdown_background();
    code
}

async fn serve(locations: &LocationArguments, arguments: &ServeArguments) -> u8 {
    let surface = match arguments.surface {
        SurfaceArgument::Code => Surface::Code,
        SurfaceArgument::Direct => Surface::Direct,
        SurfaceArgument::Search => Surface::Search,
    };
    let sampling = if surface == Surface::Direct { Sampling::Pass } else { Sampling::Refuse };
    let trail = if surface == Surface::Code { Trail::Off } else { Trail::On };
    let opened =
        for_programs(locations, |options| RuntimeOptions { live_cells: LIVE_CELLS, sampling, trail, ..options });
    let runtime = match opened {
        Ok(runtime) => Arc::new(runtime),
        Err(refused) => {
            show_refused(&refused, false);
            return code_of(&refused);
        }
    };
    let clients = ScopeRequest { audience: Audience::Client, ..request(&arguments.session, &arguments.scope) };
    let face = match Face::new(FaceParts { runtime: Arc::clone(&runtime), clients, surface }) {
        Ok(face) => face,
        Err(error) => return told(&error),
    };
    runtime.servers().warm_up();
    // Before anybody is told that we are here.
    let interrupted = Interruptions::listen();
    let end = CancellationToken::new();
    let served = match arguments.http {
        None => tokio::spawn(stdio(face, end.clone())),
        Some(address) => {
            let serve = &runtime.config().mcp.serve;
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
                    runtime.shutdown(Duration::ZERO).await;
                    return WRONG_USAGE;
                }
            };
            note(&format!("listening on {}", server.url()));
            let end = end.clone();
            tokio::spawn(async move { server.serve(face, end).await.map_err(|error| chain(&error)) })
        }
    };
    let served = attended(served, interrupted, &runtime, &end).await;
    // Programs are suspended, and what is in the middle of something may finish.
    runtime.shutdown(LINGER).await;
    match served {
        Ok(()) => DONE,
        Err(error) => {
            note(&format!("error: {error}"));
            FAILED
        }
    }
}

async fn stdio(face: Arc<Face>, end: CancellationToken) -> Result<(), String> {
    serve_stdio(face, end).await.map_err(|error| format!("the client did not begin as an MCP client does: {error}"))
}

/// Until it is over, or somebody wants it to be.
async fn attended(
    mut served: tokio::task::JoinHandle<Result<(), String>>,
    mut interrupted: Interruptions,
    runtime: &Runtime,
    end: &CancellationToken,
) -> Result<(), String> {
    let broken = |_| Err("the server broke down".to_owned());
    tokio::select! {
        biased;
        served = &mut served => return served.unwrap_or_else(broken),
        _ = interrupted.next() => {
            // First, so that whoever waits for a program is told that it can be continued.
            runtime.suspend().await;
            end.cancel();
        }
    }
    // Clients that keep their streams open are not waited for.
    match tokio::time::timeout(Duration::from_secs(2), served).await {
        Ok(served) => served.unwrap_or_else(broken),
        Err(_) => Ok(()),
    }
}
