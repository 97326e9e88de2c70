//! `pincer mcp`: servers behind Pincer, and Pincer as a server.

mod import;
mod login;
mod look;
mod savings;
mod serve;
mod undo;

use std::collections::BTreeMap;

use pincer_catalog::nearest;
use pincer_config::keys::McpServer;

pub(crate) use self::import::importable;
use crate::usage::LocationArguments;
use crate::usage_mcp::{McpArguments, McpCommand};

pub(crate) fn run(locations: &LocationArguments, arguments: &McpArguments) -> u8 {
    match &arguments.command {
        McpCommand::Serve(arguments) => serve::run(locations, arguments),
        McpCommand::Import(arguments) => import::run(locations, arguments),
        McpCommand::Savings { json, scope } => savings::run(locations, scope, *json),
        McpCommand::Login { name, no_browser, json } => {
            let browser = if *no_browser { login::Browser::Leave } else { login::Browser::Open };
            login::log_in(locations, name, browser, *json)
        }
        McpCommand::Logout { name, json } => login::log_out(locations, name, *json),
        McpCommand::List { cached, json } => look::list(locations, *cached, *json),
        McpCommand::Test { name, json } => look::test(locations, name, *json),
    }
}

/// That there is no such server, and which one was probably meant.
fn unknown(servers: &BTreeMap<String, McpServer>, name: &str) -> String {
    match nearest(name, servers.keys().map(|known| (known.clone(), known.clone())), 1).pop() {
        Some(near) => format!("there is no MCP server {name}: did you mean {near}?"),
        None => format!("there is no MCP server {name}; `pincer mcp list` shows them"),
    }
}
