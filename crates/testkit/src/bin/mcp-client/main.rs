//! `mcp-client URL`: Pincer's MCP client as the conformance suite wants one to be, with nobody at the keyboard.
//!
//! It does what a session does: servers from a config, calls through the door, logins with `pincer_mcp::login`. Which scenario
//! it is in, and what there is to know of it, the suite says in the environment. Whatever a server has is used: all tools are
//! called, all resources read, all prompts got.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of the tests talks to whoever started it")]

mod browser;
mod caller;
mod house;
mod inputs;

use std::process::ExitCode;

use serde_json::Value;

use house::{House, Scenario};

#[tokio::main]
async fn main() -> ExitCode {
    let Some(url) = std::env::args().next_back().filter(|url| url.starts_with("http")) else {
        eprintln!("usage: mcp-client URL");
        return ExitCode::from(2);
    };
    let said = |name: &str| std::env::var(name).unwrap_or_default();
    let context: Value = serde_json::from_str(&said("MCP_CONFORMANCE_CONTEXT")).unwrap_or_default();
    let scenario = Scenario {
        name: said("MCP_CONFORMANCE_SCENARIO"),
        revision: said("MCP_CONFORMANCE_PROTOCOL_VERSION"),
        url,
        context,
    };
    match used(&scenario).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mcp-client: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Uses all that the server has. What fails is said, and the rest is done all the same; the last failure is the result.
async fn used(scenario: &Scenario) -> Result<(), String> {
    let house = House::new(scenario).await?;
    let outcome = async {
        let mut failed = house.listed().await.err();
        for (tool, input) in house.calls(&scenario.context) {
            match house.called(&tool, input).await {
                Ok(value) => println!("{tool}: {value}"),
                Err(error) => failed = Some(format!("{tool}: {error}")),
            }
        }
        failed.map_or(Ok(()), Err)
    };
    let outcome = outcome.await;
    house.end().await;
    outcome
}
