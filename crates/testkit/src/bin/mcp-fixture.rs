//! `mcp-fixture stdio` or `mcp-fixture http ADDR`: see the crate's documentation.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of the tests talks to whoever started it")]

use std::process::ExitCode;

use pincer_testkit::fixture;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let served = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["stdio"] => fixture::serve_stdio().await,
        ["http", address] => fixture::serve_http(address).await.map_err(Into::into),
        _ => Err("usage: mcp-fixture stdio | mcp-fixture http ADDR".into()),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mcp-fixture: {error}");
            ExitCode::FAILURE
        }
    }
}
