//! Turns a failed request into an error of its server.

use std::time::Duration;

use pincer_http::Failure;

use super::error::HttpError;

/// Returns the error of a request that took `limit` at most.
pub(super) fn failed(failure: Failure, limit: Duration) -> HttpError {
    match failure {
        Failure::Timeout => HttpError::Timeout { limit },
        Failure::Certificate { reason } => HttpError::Certificate { reason },
        Failure::Tls { reason } => HttpError::Tls { reason },
        Failure::Refused { at } => HttpError::Refused { at },
        Failure::UnknownHost { host } => HttpError::Unknown { host },
        Failure::Connect { reason } => HttpError::Connect { reason },
        Failure::Broken { reason } => HttpError::Broken { reason },
    }
}
