//! `pincer mcp`: servers behind Pincer, and Pincer as a server.

mod import;
mod login;
mod look;
mod savings;
mod serve;

use crate::usage::PlaceArguments;
use crate::usage_mcp::{McpArguments, McpCommand};

pub(crate) fn run(places: &PlaceArguments, arguments: &McpArguments) -> u8 {
    match &arguments.command {
        McpCommand::Serve(arguments) => serve::run(places, arguments),
        McpCommand::Import(arguments) => import::run(places, arguments),
        McpCommand::Savings { json, scope } => savings::run(places, scope, *json),
        McpCommand::Login { name, no_browser, json } => {
            let browser = if *no_browser { login::Browser::Leave } else { login::Browser::Open };
            login::log_in(places, name, browser, *json)
        }
        McpCommand::Logout { name, json } => login::log_out(places, name, *json),
        McpCommand::List { cached, json } => look::list(places, *cached, *json),
        McpCommand::Test { name, json } => look::test(places, name, *json),
    }
}
