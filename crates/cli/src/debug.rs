//! What Pincer says of its own work, on stderr: what is wrong always, what code mode does if it is asked to.

use std::env;
use std::io::stderr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;

/// Set to `1`, either of them makes code mode tell what it does. Never inputs, never secrets.
const SWITCHES: [&str; 2] = ["OPENCLAW_DEBUG_CODE_MODE", "PINCER_DEBUG_CODE_MODE"];

/// Begins to listen.
pub(crate) fn listen() {
    let asked = SWITCHES.iter().any(|name| env::var(name).is_ok_and(|value| value == "1" || value == "true"));
    let level = if asked { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let shown = tracing_subscriber::fmt::layer().with_writer(stderr).with_ansi(false);
    // The SDK of MCP calls every server that is down an error of its own, and says it in its own words; we say it in ours.
    let ours = Targets::new().with_default(level).with_target("rmcp", LevelFilter::OFF);
    let subscriber = tracing_subscriber::registry().with(shown.with_filter(ours));
    // There is none before: this is the start of the process.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
