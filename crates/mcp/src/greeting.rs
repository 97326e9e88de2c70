//! How a server is greeted: with `initialize`, or, since 2026-07-28, with `server/discover`.
//!
//! Most servers know only the first, and some that are programs do not survive the second. So the first is tried first, unless
//! the server is known to want the other.

use rmcp::ClientLifecycleMode;
use rmcp::model::{ErrorCode, ProtocolVersion, ServerPeerInfo};
use rmcp::service::ClientInitializeError;

use crate::error::ConnectError;

/// How a server is greeted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Greeting {
    /// With `initialize`, up to 2025-11-25.
    #[default]
    Initialize,
    /// With `server/discover`, since 2026-07-28.
    Discover,
}

/// The reason why a greeting failed.
pub(crate) enum Unmet {
    /// It does not know this greeting. It may know the other one.
    Greeting(ConnectError),
    /// Another greeting would not help.
    Failed(ConnectError),
}

impl From<ConnectError> for Unmet {
    fn from(error: ConnectError) -> Self {
        Self::Failed(error)
    }
}

impl Greeting {
    /// Returns the greeting of a server that says this of itself.
    pub(crate) fn of(info: &ServerPeerInfo) -> Self {
        if info.protocol_version.has_initialize() { Self::Initialize } else { Self::Discover }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Initialize => Self::Discover,
            Self::Discover => Self::Initialize,
        }
    }

    pub(crate) fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Self::Initialize => ClientLifecycleMode::Initialize,
            Self::Discover => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        }
    }

    /// Returns the method that greets.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Discover => "server/discover",
        }
    }

    /// Returns whether a server that failed so may know the other greeting. `reason` puts the error into our words.
    pub(crate) fn unmet(
        self,
        error: ClientInitializeError,
        reason: impl FnOnce(ClientInitializeError) -> ConnectError,
    ) -> Unmet {
        let other = match (self, &error) {
            (Self::Initialize, ClientInitializeError::JsonRpcError(error)) => matches!(
                error.code,
                ErrorCode::METHOD_NOT_FOUND | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION | ErrorCode::HEADER_MISMATCH
            ),
            // Old servers have all sorts of errors for what they do not know, or end.
            (Self::Discover, error) => matches!(
                error,
                ClientInitializeError::JsonRpcError(_)
                    | ClientInitializeError::NoCompatibleProtocolVersion { .. }
                    | ClientInitializeError::ConnectionClosed(_)
            ),
            _ => false,
        };
        if other { Unmet::Greeting(reason(error)) } else { Unmet::Failed(reason(error)) }
    }

    /// Returns whether a program that does not answer may know the other greeting: old ones may wait for it.
    pub(crate) fn late(self, error: ConnectError) -> Unmet {
        match self {
            Self::Initialize => Unmet::Failed(error),
            Self::Discover => Unmet::Greeting(error),
        }
    }
}
