//! Errors of installations, updates and removals.

use std::io;
use std::path::PathBuf;

use pincer_config::Distrust;

use crate::policy::Blocked;
use crate::refusal::Refusal;
use crate::target::{Kind, Request};

/// An error of an installation, an update or a removal. Everything that was in place is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The source is refused.
    #[error("{} is refused: {refusal}", path.display())]
    Refused {
        /// The source.
        path: PathBuf,
        /// The reason.
        refusal: Refusal,
    },
    /// The source cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// The kind of the thing.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Something cannot be written.
    #[error("{} cannot be written", path.display())]
    Write {
        /// The kind of the thing.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Another user could change the state directory.
    #[error("nothing is installed there: {0}")]
    Distrusted(#[from] Distrust),
    /// The manifest is wrong.
    #[error("the manifest {file} is wrong: {}", problems.join("; "))]
    Manifest {
        /// Which.
        file: &'static str,
        /// The problems, each on one line and escaped.
        problems: Vec<String>,
    },
    /// The policy of the config is against it.
    #[error(transparent)]
    Policy(#[from] Blocked),
    /// A hook is against it.
    #[error("the {kind} {id} {}: {reason}", request.not_done())]
    Hook {
        /// The kind of the thing.
        kind: Kind,
        /// Its name.
        id: String,
        /// Whether it was to be installed or updated.
        request: Request,
        /// The hook's reason, escaped.
        reason: String,
    },
    /// No person has agreed.
    #[error(transparent)]
    Consent(#[from] crate::consent::Unagreed),
    /// The name is taken by an installed thing.
    #[error("the {kind} {id} is installed already: `pincer {}s update {id} {}` replaces it", kind, source_path.display())]
    Installed {
        /// The kind of the thing.
        kind: Kind,
        /// Its name.
        id: String,
        /// The source that was named.
        source_path: PathBuf,
    },
    /// There is a folder that was not installed.
    #[error("{} was not put there by an installation, so it is left as it is: move it away first", folder.display())]
    Foreign {
        /// The folder.
        folder: PathBuf,
    },
    /// There is no such thing.
    #[error("no {kind} {id} was installed{}", near.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    NotInstalled {
        /// The kind of the thing.
        kind: Kind,
        /// Its name.
        id: String,
        /// The name that was probably meant.
        near: Option<String>,
    },
    /// The source of an update is another thing.
    #[error("{} is the {kind} `{found}`, not `{id}`: install it under its own name", path.display())]
    OtherTarget {
        /// The source.
        path: PathBuf,
        /// The kind of the thing.
        kind: Kind,
        /// The name that was asked for.
        id: String,
        /// The name of what is there.
        found: String,
    },
    /// Another process was faster.
    #[error("the {kind} {id} was changed by another process meanwhile: look again, and repeat the command")]
    Changed {
        /// The kind of the thing.
        kind: Kind,
        /// Its name.
        id: String,
    },
    /// A file of ours cannot be understood.
    #[error("{} cannot be understood ({reason}): move it away, and install again what it was about", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// The cause.
        #[source]
        reason: serde_json::Error,
    },
    /// A file of ours was written by a later version.
    #[error("{} was written by a later version of Pincer: use that version", path.display())]
    Later {
        /// Which.
        path: PathBuf,
    },
}

impl InstallError {
    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::Write { path, source }
    }

    pub(crate) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        |source| Self::Read { path, source }
    }

    /// Returns the word that programs tell this error by.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "refused",
            Self::Read { .. } => "unreadable",
            Self::Write { .. } => "unwritable",
            Self::Distrusted(_) => "distrusted",
            Self::Manifest { .. } => "invalid_manifest",
            Self::Policy(_) => "blocked_by_policy",
            Self::Hook { .. } => "blocked_by_hook",
            Self::Consent(_) => "not_agreed",
            Self::Installed { .. } => "installed_already",
            Self::Foreign { .. } => "not_ours",
            Self::NotInstalled { .. } => "not_installed",
            Self::OtherTarget { .. } => "other_target",
            Self::Changed { .. } => "changed_meanwhile",
            Self::Damaged { .. } | Self::Later { .. } => "damaged",
        }
    }
}
