//! `mcp-liar MODE` or `mcp-liar MODE http ADDR`: see the crate's documentation.

use std::process::ExitCode;

use pincer_testkit::liar::{MODES, Mode, serve_http, serve_stdio};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some(mode) = arguments.first().and_then(|name| Mode::named(name)) else {
        let names: Vec<_> = MODES.iter().map(|(name, _)| *name).collect();
        eprintln!("usage: mcp-liar MODE [http ADDR]\nmodes: {}", names.join(", "));
        return ExitCode::from(2);
    };
    let served = match arguments[1..] {
        [] if mode.needs_http() => Err("this mode is one of HTTP: mcp-liar MODE http ADDR".into()),
        [] => serve_stdio(mode).map_err(|error| error.to_string()),
        ["http", _] if mode.needs_stdio() => Err("this mode is one of standard input and output".into()),
        ["http", address] => serve_http(mode, address).map_err(|error| error.to_string()),
        _ => Err("usage: mcp-liar MODE [http ADDR]".to_owned()),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mcp-liar: {error}");
            ExitCode::from(2)
        }
    }
}
