//! What rmcp's errors mean, in one sentence that goes on from the server's name.

use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::error::HttpError;
use super::wire::{Trouble, WireError};

/// Why there is no connection.
pub fn explain_start(error: &ClientInitializeError, trouble: &Trouble) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => transport(error, trouble),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => explain_start(fallback, trouble),
        ClientInitializeError::ConnectionClosed(_) => {
            trouble.last().unwrap_or_else(|| "ended the connection before it had begun".into())
        }
        ClientInitializeError::JsonRpcError(data) => answered(data),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let versions: Vec<_> = server_supported.iter().map(ToString::to_string).collect();
            format!("speaks only versions of MCP that Pincer does not ({})", versions.join(", "))
        }
        ClientInitializeError::Cancelled => "was given up before it had answered".into(),
        ClientInitializeError::ExpectedInitResponse(_)
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::ConflictInitResponseId(..)
        | ClientInitializeError::UncorrelatedErrorResponse { .. } => "answered something else than it was asked".into(),
        other => format!("cannot be talked to: {other}"),
    }
}

/// Why a request has no answer, or which error is the answer.
pub fn explain_call(error: &ServiceError, trouble: &Trouble) -> String {
    match error {
        ServiceError::McpError(data) => answered(data),
        ServiceError::TransportSend(error) => transport(error, trouble),
        ServiceError::TransportClosed => trouble.last().unwrap_or_else(|| "ended the connection".into()),
        ServiceError::UnexpectedResponse => "answered something else than it was asked".into(),
        ServiceError::Timeout { timeout } => format!("did not answer within {} ms", timeout.as_millis()),
        ServiceError::Cancelled { .. } => "was told not to go on".into(),
        other => format!("cannot be talked to: {other}"),
    }
}

/// Why a message was not sent.
pub(crate) fn explain_send(error: &DynamicTransportError) -> String {
    transport(error, &Trouble::default())
}

/// Whether a message was turned away at the door, with nothing done.
pub(crate) fn is_turned_away(error: &DynamicTransportError) -> bool {
    let Some(WireError(error)) = error.error.downcast_ref() else { return false };
    let error = match error.downcast_ref::<StreamableHttpError<HttpError>>() {
        Some(StreamableHttpError::Client(error)) => Some(error),
        _ => error.downcast_ref::<HttpError>(),
    };
    error.is_some_and(HttpError::is_about_login)
}

fn answered(data: &ErrorData) -> String {
    // Of what a server sends this is not the right answer to anything: it is what stands for an answer that cannot be used.
    match data.code {
        ErrorCode::PARSE_ERROR => data.message.to_string(),
        code => format!("answered with error {}: {}", code.0, data.message),
    }
}

fn transport(error: &DynamicTransportError, trouble: &Trouble) -> String {
    let Some(WireError(error)) = error.error.downcast_ref() else {
        return format!("cannot be talked to: {}", error.error);
    };
    if let Some(error) = error.downcast_ref::<HttpError>() {
        return error.to_string();
    }
    match error.downcast_ref::<StreamableHttpError<HttpError>>() {
        Some(StreamableHttpError::Client(error)) => error.to_string(),
        Some(StreamableHttpError::TransportChannelClosed) => {
            trouble.last().unwrap_or_else(|| HttpError::Closed.to_string())
        }
        Some(StreamableHttpError::SessionExpired) => "has ended the session".into(),
        Some(StreamableHttpError::SessionRecoveryTimeout | StreamableHttpError::ControlRequestTimeout) => {
            "did not answer in time".into()
        }
        Some(StreamableHttpError::ReinitializationFailed(data)) => {
            format!("began no new session: it {}", answered(data))
        }
        _ => format!("cannot be talked to: {error}"),
    }
}
