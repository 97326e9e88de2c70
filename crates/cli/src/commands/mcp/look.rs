//! `pincer mcp list` and `pincer mcp test`: how the configured servers are.

use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::shortened;
use pincer_config::Loaded;
use pincer_mcp::{Health, Listing, Sampling, Seen, Server, Servers};
use pincer_runtime::mcp_servers;
use serde_json::{Value, json};

use super::unknown;
use crate::print::{chain, line, note};
use crate::usage::LocationArguments;
use crate::{DONE, FAILED, WRONG_USAGE, settings, state};

pub(crate) fn list(locations: &LocationArguments, cached: bool, json: bool) -> u8 {
    let (loaded, servers) = match servers(locations) {
        Ok(servers) => servers,
        Err(code) => return code,
    };
    let seen: Vec<(Arc<Server>, Seen)> = match cached {
        true => servers.iter().map(|server| (Arc::clone(server), server.seen())).collect(),
        false => match blocking(asked(&servers)) {
            Ok(seen) => seen,
            Err(code) => return code,
        },
    };
    let off = loaded.parsed.config.mcp.servers.iter().filter(|(_, server)| !server.enabled).map(|(name, _)| name);
    if json {
        let on = seen.iter().map(|(server, seen)| document(server, seen));
        let shown = on.chain(off.map(|name| json!({ "name": name, "state": "off" })));
        line(&Value::from(shown.collect::<Vec<_>>()).to_string());
        return DONE;
    }
    let mut rows: Vec<[String; 5]> = seen.iter().map(|(server, seen)| row(server, seen)).collect();
    rows.extend(off.map(|name| [name.clone(), "off".into(), String::new(), String::new(), String::new()]));
    if rows.is_empty() {
        line("there are no MCP servers: `pincer mcp import` takes those of a client, or set mcp.servers in the config");
        return DONE;
    }
    rows.insert(0, ["NAME", "STATE", "TRANSPORT", "TOOLS", "LATENCY"].map(str::to_owned));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2), width(3)];
    for [name, state, transport, tools, latency] in &rows {
        let [a, b, c, d] = widths;
        line(format!("{name:a$}  {state:b$}  {transport:c$}  {tools:>d$}  {latency}").trim_end());
    }
    for (server, seen) in &seen {
        if let Health::Down(why) = &seen.health {
            note(&format!("{}: it {why}", server.name()));
        }
        for remark in seen.listing.iter().flat_map(|listing| &listing.remarks) {
            note(&format!("{}: {remark}", server.name()));
        }
    }
    DONE
}

pub(crate) fn test(locations: &LocationArguments, name: &str, json: bool) -> u8 {
    let (loaded, servers) = match servers(locations) {
        Ok(servers) => servers,
        Err(code) => return code,
    };
    let Some(server) = servers.get(name) else {
        let known = &loaded.parsed.config.mcp.servers;
        let why = if known.contains_key(name) {
            format!("the MCP server {name} is turned off: set mcp.servers.{name}.enabled to true")
        } else {
            unknown(known, name)
        };
        note(&format!("error: {why}"));
        return WRONG_USAGE;
    };
    let asked = blocking(async {
        let asked = (server.refresh().await, server.seen());
        servers.end().await;
        asked
    });
    let (listing, seen) = match asked {
        Ok(asked) => asked,
        Err(code) => return code,
    };
    if json {
        let mut shown = document(server, &seen);
        shown["works"] = listing.is_ok().into();
        if let Err(why) = &listing {
            shown["error"] = format!("the MCP server {name} {why}").into();
        }
        line(&shown.to_string());
    } else if let Ok(listing) = &listing {
        describe(server, &seen, listing);
    }
    match listing {
        Ok(_) => DONE,
        Err(why) => {
            if !json {
                if let Some(took) = seen.connected_in {
                    line(&format!("connected in {}", milliseconds(took)));
                }
                note(&format!("error: the MCP server {name} {why}"));
            }
            FAILED
        }
    }
}

/// The steps, and what came of them.
fn describe(server: &Server, seen: &Seen, listing: &Listing) {
    let info = &listing.info;
    let who =
        info.server_info.as_ref().map_or_else(|| "no name".to_owned(), |who| format!("{} {}", who.name, who.version));
    let took = |took: Option<Duration>| took.map(milliseconds).unwrap_or_default();
    line(&format!(
        "connected in {} over {}: {who}, protocol {}",
        took(seen.connected_in),
        server.settings().transport(),
        info.protocol_version
    ));
    let can = &info.capabilities;
    let also: Vec<&str> = [("resources", can.resources.is_some()), ("prompts", can.prompts.is_some())]
        .into_iter()
        .filter_map(|(what, there)| there.then_some(what))
        .collect();
    let also = if also.is_empty() { String::new() } else { format!(", and {}", also.join(" and ")) };
    line(&format!("listed {} tools in {}{also}", listing.tools.len(), took(seen.listed_in)));
    for tool in &listing.tools {
        let described = tool.value();
        let about = described["description"].as_str().unwrap_or_default().lines().next().unwrap_or_default();
        line(&format!("  {}  {}", tool.name, shortened(about, 80)));
    }
    for remark in &listing.remarks {
        note(&format!("warning: {remark}"));
    }
}

/// The servers of the config, with nothing started.
pub(super) fn servers(locations: &LocationArguments) -> Result<(Loaded, Servers), u8> {
    let loaded = settings::ready(locations)?;
    let state = state::directory(locations);
    let servers = mcp_servers(&loaded, state.as_deref(), Sampling::Refuse);
    Ok((loaded, servers))
}

pub(super) fn blocking<T>(work: impl Future<Output = T>) -> Result<T, u8> {
    let runtime = crate::tokio_runtime::small();
    runtime.map(|runtime| runtime.block_on(work)).map_err(|error| {
        note(&format!("error: nothing can be asked: {}", chain(&error)));
        FAILED
    })
}

/// Asks all of them at once. How each was, before they were ended.
async fn asked(servers: &Servers) -> Vec<(Arc<Server>, Seen)> {
    let spinner = crate::progress::waiting("asking the servers");
    servers.refresh_all().await;
    let seen = servers.iter().map(|server| (Arc::clone(server), server.seen())).collect();
    servers.end().await;
    spinner.finish_and_clear();
    seen
}

fn state_of(seen: &Seen) -> &'static str {
    match (&seen.health, &seen.listing) {
        (Health::Up, _) => "up",
        (Health::Down(_), _) => "down",
        (Health::Connecting, _) => "starting",
        (Health::Cold, Some(_)) => "cold",
        (Health::Cold, None) => "unknown",
    }
}

fn row(server: &Server, seen: &Seen) -> [String; 5] {
    let tools = seen.listing.as_ref().map_or_else(|| "?".to_owned(), |listing| listing.tools.len().to_string());
    let latency = seen.listed_in.map(milliseconds).unwrap_or_default();
    [server.name().to_owned(), state_of(seen).to_owned(), server.settings().transport().to_owned(), tools, latency]
}

fn document(server: &Server, seen: &Seen) -> Value {
    let ms = |took: Option<Duration>| took.map(|took| (took.as_secs_f64() * 1e6).round() / 1e3);
    let mut shown = json!({
        "name": server.name(), "state": state_of(seen), "transport": server.settings().transport(),
        "tools": seen.listing.as_ref().map(|listing| listing.tools.len()),
        "connectMs": ms(seen.connected_in), "listMs": ms(seen.listed_in),
    });
    if let Health::Down(why) = &seen.health {
        shown["lastError"] = why.as_str().into();
    }
    if let Some(listing) = &seen.listing {
        shown["server"] = json!(listing.info.server_info);
        shown["protocolVersion"] = json!(listing.info.protocol_version);
        shown["remarks"] = json!(listing.remarks);
    }
    shown
}

fn milliseconds(took: Duration) -> String {
    format!("{:.1} ms", took.as_secs_f64() * 1000.0)
}
