//! `package.json`: scripts that an installation of packages runs.

use serde_json::Value;

use crate::scan::findings::{Finding, Findings, MOST_QUOTED, Severity};

const ON_INSTALLATION: [&str; 7] =
    ["preinstall", "install", "postinstall", "preprepare", "prepare", "postprepare", "prepublish"];

pub(super) fn look_at(path: &str, text: &str, findings: &mut Findings) {
    let Ok(package) = serde_json::from_str::<Value>(text) else { return };
    for name in ON_INSTALLATION {
        if let Some(script) = package["scripts"][name].as_str() {
            let script = pincer_tools::one_line(script, MOST_QUOTED);
            let message =
                format!("`{name}` is run by npm when its packages are installed, which Pincer never does: {script}");
            findings.add(Finding::new(Severity::Warning, "runs-on-installation", &message).at(path, None));
        }
    }
}
