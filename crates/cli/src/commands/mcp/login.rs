//! `pincer mcp login` and `logout`: who Pincer is to a server that asks.

use std::io::{IsTerminal, stderr};
use std::process::{Command, Stdio};
use std::time::Duration;

use pincer_mcp::{Address, LoginStatus, Logins, Reach, Remote, ServerSettings, login, logout, status};
use pincer_runtime::mcp_server;
use serde_json::json;

use super::look::blocking;
use super::unknown;
use crate::print::{chain, line, note};
use crate::usage::LocationArguments;
use crate::{DONE, FAILED, WRONG_USAGE, settings, state};

pub(crate) fn log_in(locations: &LocationArguments, name: &str, browser: Browser, json: bool) -> u8 {
    let (remote, logins) = match remote(locations, name) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let on_url = |url: &str| {
        note(&format!("open this in a browser to log in to {name}:\n\n{url}\n"));
        if browser == Browser::Open && stderr().is_terminal() {
            open(url);
        }
    };
    match blocking(login(&remote, &logins, on_url)) {
        Ok(Ok(_)) => {
            line(&if json {
                json!({ "server": name, "loggedIn": true }).to_string()
            } else {
                format!("logged in to {name}")
            });
            DONE
        }
        Ok(Err(error)) => {
            note(&format!("error: {}", chain(&error)));
            FAILED
        }
        Err(code) => code,
    }
}

pub(crate) fn log_out(locations: &LocationArguments, name: &str, json: bool) -> u8 {
    let (remote, logins) = match remote(locations, name) {
        Ok(found) => found,
        Err(code) => return code,
    };
    let before = status(&remote, &logins).ok();
    match blocking(logout(name, &logins)) {
        Ok(Ok(was)) => {
            let text = match (was, before) {
                (true, Some(LoginStatus::Other { url })) => format!("forgot the login to {name}, which was for {url}"),
                (true, _) => format!("forgot the login to {name}; the server is not told"),
                (false, _) => format!("there was no login to {name}"),
            };
            line(&if json { json!({ "server": name, "wasLoggedIn": was }).to_string() } else { text });
            DONE
        }
        Ok(Err(error)) => {
            note(&format!("error: {}", chain(&error)));
            FAILED
        }
        Err(code) => code,
    }
}

/// Whether a browser is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Browser {
    /// If somebody is at a terminal.
    Open,
    /// The address is only printed.
    Leave,
}

fn remote(locations: &LocationArguments, name: &str) -> Result<(Remote, Logins), u8> {
    let loaded = settings::ready(locations)?;
    let wrong = |why: String| {
        note(&format!("error: {why}"));
        WRONG_USAGE
    };
    let state = state::directory(locations);
    let Some(server) = mcp_server(&loaded, state.as_deref(), name) else {
        return Err(wrong(unknown(&loaded.parsed.config.mcp.servers, name)));
    };
    // Before its secrets are looked up: a program needs none of them here.
    address(&server).map_err(wrong)?;
    // Not bounded by `connectTimeoutMs`: a person is there, and may have to unlock something.
    let server = server.resolved(Duration::MAX).map_err(|why| wrong(format!("the MCP server {name} {why}")))?;
    let remote = Remote::new(name, address(&server).map_err(wrong)?, server.connect_timeout);
    let remote = remote.map_err(|error| wrong(chain(&error)))?;
    let state = state
        .ok_or_else(|| wrong("there is no state directory to keep a login in: set HOME, or use --state-dir".into()))?;
    Ok((remote, Logins::new(&state)))
}

/// Returns where a server is reached over HTTP, or the reason why it is not.
fn address(server: &ServerSettings) -> Result<&Address, String> {
    match &server.reach {
        Reach::Address(address) => Ok(address),
        Reach::Program(_) => Err(format!(
            "the MCP server {} is a program: it needs no login here, but perhaps variables in its `env`",
            server.name
        )),
    }
}

/// Opens a browser, as far as one can be told to. The address is printed anyway.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    let _ = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}
