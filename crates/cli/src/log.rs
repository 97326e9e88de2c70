//! The log of Pincer's own work, on standard error: warnings and errors always, more if it is asked for. Never inputs, never secrets.

use std::env;
use std::io::stderr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;

use crate::usage::{LogArguments, LogFormat};

/// Set to `1`, either of them asks for what code mode does.
const SWITCHES: [&str; 2] = ["OPENCLAW_DEBUG_CODE_MODE", "PINCER_DEBUG_CODE_MODE"];

/// Why a filter is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    #[error("`{0}` is no level: use off, error, warn, info, debug or trace, or PART=LEVEL, as in pincer_mcp=debug")]
    NoLevel(String),
}

/// Reads a level, or levels of parts: `debug`, `warn,pincer_mcp=trace`.
pub(crate) fn filter(text: &str) -> Result<Targets, FilterError> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).try_fold(quiet(LevelFilter::WARN), |filter, part| {
        let (target, level) = match part.split_once('=') {
            Some((target, level)) => (Some(target.trim()), level.trim()),
            None => (None, part),
        };
        let level: LevelFilter = level.parse().map_err(|_| FilterError::NoLevel(part.to_owned()))?;
        Ok(match target {
            Some(target) => filter.with_target(target, level),
            None => filter.with_default(level),
        })
    })
}

/// The SDK of MCP calls every server that is down an error of its own, and says it in its own words; we say it in ours.
fn quiet(level: LevelFilter) -> Targets {
    let usual = Targets::new().with_default(level).with_target("rmcp", LevelFilter::OFF);
    // Each of these has a switch of its own.
    usual.with_target("pincer_model::debug", LevelFilter::INFO)
}

/// Begins to log.
pub(crate) fn begin(arguments: &LogArguments) {
    let asked = SWITCHES.iter().any(|name| env::var(name).is_ok_and(|value| value == "1" || value == "true"));
    let usual = || quiet(if asked { LevelFilter::DEBUG } else { LevelFilter::WARN });
    let filter = arguments.log.clone().unwrap_or_else(usual);
    let layer = tracing_subscriber::fmt::layer().with_writer(stderr).with_ansi(false);
    // A span is told when it ends, with the time that it took. Without a filter of its own the log has no spans.
    let spans = if arguments.log.is_some() { FmtSpan::CLOSE } else { FmtSpan::NONE };
    let layer = layer.with_span_events(spans);
    let layer = match arguments.log_format {
        LogFormat::Text => layer.with_filter(filter).boxed(),
        LogFormat::Json => layer.json().with_filter(filter).boxed(),
    };
    // There is none before: this is the start of the process.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_filter_is_a_level_or_levels_of_parts() {
        let enables = |text: &str, target: &str, level: &Level| filter(text).unwrap().would_enable(target, level);
        assert!(enables("debug", "pincer_mcp", &Level::DEBUG) && !enables("debug", "pincer_mcp", &Level::TRACE));
        assert!(!enables("debug", "rmcp", &Level::ERROR) && enables("rmcp=debug", "rmcp", &Level::DEBUG));
        let parts = "error, pincer_mcp=trace";
        assert!(enables(parts, "pincer_mcp", &Level::TRACE) && !enables(parts, "pincer_tools", &Level::WARN));
        assert!(enables("pincer_mcp=trace", "pincer_tools", &Level::WARN));
        assert!(!enables("off", "pincer_tools", &Level::ERROR));
        for wrong in ["verbose", "pincer_mcp", "pincer_mcp=loud"] {
            let error = filter(wrong).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{wrong}` is no level: use off, error")), "{error}");
        }
    }
}
