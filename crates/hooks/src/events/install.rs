//! Installs: something is about to be put in place.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{HookName, Point, Table};

/// Something is about to be installed or updated.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BeforeInstall {
    /// `plugin` or `skill`.
    pub target_type: String,
    /// Its id or name.
    pub target_name: String,
    /// The staged files.
    pub source_path: String,
    /// `directory` or `archive`: the form in which it came.
    pub source_path_kind: String,
    /// The place that it came from.
    pub origin: String,
    /// `install` or `update`.
    pub request: String,
    /// The digest of the files.
    pub digest: String,
    /// The findings of Pincer's own scan.
    pub builtin_scan: Value,
}

/// The answer of a hook to an install.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an answer, an object or null")]
pub struct InstallAnswer {
    /// Findings of its own.
    pub findings: Vec<Value>,
    /// `true` ends the matter. `false` says nothing.
    pub block: Option<bool>,
    /// The reason of the block.
    pub block_reason: Option<String>,
}

/// The answer of the hooks to an installation.
#[derive(Clone, Debug, PartialEq)]
pub enum Installing {
    /// The installation may go on.
    Go {
        /// The findings of the hooks.
        findings: Vec<Value>,
    },
    /// The installation is blocked, for this reason.
    Block(String),
}

impl Point for BeforeInstall {
    const NAME: HookName = HookName::BeforeInstall;
    type Answer = InstallAnswer;
}

impl Table {
    /// Asks whether something may be installed. A hook that fails blocks it.
    pub async fn before_install(&self, event: &BeforeInstall) -> Installing {
        let mut findings = Vec::new();
        for hook in self.of::<BeforeInstall>() {
            let answer = match hook.ask(event).await {
                Ok(answer) => answer,
                Err(error) => {
                    return Installing::Block(format!(
                        "the hook {} could not be asked, so the install is blocked: {error}",
                        hook.name
                    ));
                }
            };
            if answer.block == Some(true) {
                let reason = answer.block_reason.filter(|reason| !reason.trim().is_empty());
                let reason = reason.unwrap_or_else(|| "it gave no reason".into());
                return Installing::Block(format!("blocked by the hook {}: {reason}", hook.name));
            }
            findings.extend(answer.findings);
        }
        Installing::Go { findings }
    }
}
