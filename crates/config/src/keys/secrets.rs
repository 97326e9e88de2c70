//! `secrets`: where the values of `${secret:NAME}` are kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a secret is kept: in a `file`, in the output of a `command`, or in the system's `keychain`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum SecretSource {
    /// The text of this file, without the end of its last line. A relative path is seen from the config.
    File(String),
    /// The output of this program, without the end of its last line. It is started in the config's directory, without a shell.
    Command(Vec<String>),
    /// The password of this account, under the service `pincer`, in the system's keychain (`secret-tool` on Linux, `security` on
    /// macOS).
    Keychain(String),
}
