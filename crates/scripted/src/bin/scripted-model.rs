//! `scripted-model FILE [--port N]`: serves the script in a file until it is ended.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program of the tests talks to the suite that started it"
)]

use std::process::ExitCode;

use pincer_scripted::{Error, Script, Server};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (file, port) = match arguments[..] {
        [file] => (file, Some(0)),
        [file, "--port", port] | ["--port", port, file] => (file, port.parse().ok()),
        _ => ("", None),
    };
    let Some(port) = port else {
        eprintln!("usage: scripted-model FILE [--port N]");
        return ExitCode::from(2);
    };
    match Script::from_file(file).and_then(|script| Server::start_on(port, script)) {
        Ok(server) => {
            println!("listening {}", server.url());
            loop {
                std::thread::park();
            }
        }
        Err(error) => {
            eprintln!("scripted-model: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

fn with_causes(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
