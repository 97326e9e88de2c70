//! What is known of a session beside the store.

use serde_json::Value;

/// Facts for `metadata.json` that only a front knows. They go through the cleaner like everything else.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The version of the program.
    pub version: String,
    /// The operating system and the architecture.
    pub system: String,
    /// The config as it is now, as it may be shown.
    pub config: Value,
    /// Plugins that the config names.
    pub plugins: Vec<String>,
    /// Skills that the config names.
    pub skills: Vec<String>,
    /// Remarks for the manifest, such as why the config could not be read.
    pub warnings: Vec<String>,
}
