//! Notices of the runtime, as a person at the terminal sees them.

use std::io::{IsTerminal, Write, stderr};

use pincer_runtime::{Notice, Observer};

use crate::print::note;

/// Returns an observer that draws notices on stderr.
pub(crate) fn observer() -> Observer {
    Observer::new(|notice| draw(&notice))
}

fn draw(notice: &Notice) {
    match notice {
        Notice::EngineStep(_) if stderr().is_terminal() => {
            // Replaced by the next step, and cleared at the end.
            let _ = write!(stderr(), "\r\x1b[K{notice}");
        }
        Notice::EngineStep(_) => note(&notice.to_string()),
        Notice::EngineStepsOver if stderr().is_terminal() => {
            let _ = write!(stderr(), "\r\x1b[K");
        }
        Notice::EngineStepsOver => {}
        warning => note(&format!("warning: {warning}")),
    }
}
