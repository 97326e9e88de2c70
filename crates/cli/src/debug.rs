//! What Pincer says of its own work, on stderr: what is wrong always, what code mode does if it is asked to.

use std::env;
use std::io::stderr;

use tracing::level_filters::LevelFilter;

/// Set to `1`, either of them makes code mode tell what it does. Never inputs, never secrets.
const SWITCHES: [&str; 2] = ["OPENCLAW_DEBUG_CODE_MODE", "PINCER_DEBUG_CODE_MODE"];

/// Begins to listen.
pub(crate) fn listen() {
    let asked = SWITCHES.iter().any(|name| env::var(name).is_ok_and(|value| value == "1" || value == "true"));
    let level = if asked { LevelFilter::DEBUG } else { LevelFilter::WARN };
    let subscriber = tracing_subscriber::fmt().with_writer(stderr).with_max_level(level).with_ansi(false).finish();
    // There is none before: this is the start of the process.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
