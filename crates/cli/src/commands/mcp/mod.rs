//! `pincer mcp`: servers behind Pincer, and Pincer as a server.

mod look;
mod serve;

use crate::usage::PlaceArguments;
use crate::usage_mcp::{McpArguments, McpCommand};

pub(crate) fn run(places: &PlaceArguments, arguments: &McpArguments) -> u8 {
    match &arguments.command {
        McpCommand::Serve(arguments) => serve::run(places, arguments),
        McpCommand::List { cached, json } => look::list(places, *cached, *json),
        McpCommand::Test { name, json } => look::test(places, name, *json),
    }
}
