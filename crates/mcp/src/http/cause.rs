//! Why a request failed, found at the bottom of what reqwest says.

use std::error::Error;
use std::io;

use reqwest::Url;

use super::error::HttpError;

/// What a failure means. `url` was asked.
pub(super) fn failure(error: reqwest::Error, url: &Url, limit: std::time::Duration) -> HttpError {
    // Its message would repeat the address, and whatever is in its query.
    let error = error.without_url();
    if error.is_timeout() {
        return HttpError::Timeout { limit };
    }
    let host = || url.host_str().unwrap_or_default().to_owned();
    if let Some(tls) = causes(&error).find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
        let reason = tls.to_string();
        return match tls {
            rustls::Error::InvalidCertificate(_) => HttpError::Certificate { reason },
            _ => HttpError::Tls { reason },
        };
    }
    let refused = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    if causes(&error).any(refused) {
        let port = url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
        return HttpError::Refused { at: format!("{}{port}", host()) };
    }
    // hyper has no type for it that can be named.
    if causes(&error).any(|cause| cause.to_string().starts_with("dns error")) {
        return HttpError::Unknown { host: host() };
    }
    let reason = last_cause(&error);
    if error.is_connect() { HttpError::Connect { reason } } else { HttpError::Broken { reason } }
}

/// The cause at the bottom says what happened.
pub(super) fn last_cause(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // An `io::Error` names as its source the source of what it wraps, not what it wraps.
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}
