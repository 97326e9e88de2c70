//! `mcp-liar MODE`, `mcp-liar MODE http ADDR` or `mcp-liar catalog FILE [SERVER]`: see the crate's documentation.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of the tests talks to whoever started it")]

use std::path::Path;
use std::process::ExitCode;

use pincer_testkit::liar::{MODES, Mode, serve_catalog, serve_http, serve_stdio};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["catalog", file, server @ ..] = &arguments[..]
        && server.len() < 2
    {
        return ended(
            serve_catalog(Path::new(file), server.first().copied()).map_err(|error| format!("{file}: {error}")),
        );
    }
    let Some(mode) = arguments.first().and_then(|name| Mode::named(name)) else {
        let names: Vec<_> = MODES.iter().map(|(name, _)| *name).collect();
        eprintln!("usage: mcp-liar MODE [http ADDR] | mcp-liar catalog FILE [SERVER]\nmodes: {}", names.join(", "));
        return ExitCode::from(2);
    };
    ended(match arguments[1..] {
        [] if mode.needs_http() => Err("this mode is one of HTTP: mcp-liar MODE http ADDR".into()),
        [] => serve_stdio(mode).map_err(|error| error.to_string()),
        ["http", _] if mode.needs_stdio() => Err("this mode is one of standard input and output".into()),
        ["http", address] => serve_http(mode, address).map_err(|error| error.to_string()),
        _ => Err("usage: mcp-liar MODE [http ADDR]".to_owned()),
    })
}

fn ended(served: Result<(), String>) -> ExitCode {
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mcp-liar: {error}");
            ExitCode::from(2)
        }
    }
}
