//! Why a request failed, found at the bottom of what reqwest says.

use std::error::Error;
use std::io;

use reqwest::Url;

/// Why a request failed, before or after it had an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A limit on time was reached.
    Timeout,
    /// The certificate is not one to trust.
    Certificate {
        /// Why.
        reason: String,
    },
    /// No encrypted connection could be made.
    Tls {
        /// Why.
        reason: String,
    },
    /// Nothing listens there.
    Refused {
        /// Host and port.
        at: String,
    },
    /// There is no such host.
    UnknownHost {
        /// Its name.
        host: String,
    },
    /// There is no connection, for another reason.
    Connect {
        /// Which.
        reason: String,
    },
    /// The connection broke.
    Broken {
        /// How.
        reason: String,
    },
}

/// Returns what a failure means. `url` was asked.
pub fn failure(error: reqwest::Error, url: &Url) -> Failure {
    // Its message would repeat the address, and whatever is in its query.
    let error = error.without_url();
    if error.is_timeout() {
        return Failure::Timeout;
    }
    let host = || url.host_str().unwrap_or_default().to_owned();
    if let Some(tls) = causes(&error).find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
        let reason = tls.to_string();
        return match tls {
            rustls::Error::InvalidCertificate(_) => Failure::Certificate { reason },
            _ => Failure::Tls { reason },
        };
    }
    let refused = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    if causes(&error).any(refused) {
        let port = url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
        return Failure::Refused { at: format!("{}{port}", host()) };
    }
    // hyper has no type for it that can be named.
    if causes(&error).any(|cause| cause.to_string().starts_with("dns error")) {
        return Failure::UnknownHost { host: host() };
    }
    let reason = last_cause(&error);
    if error.is_connect() { Failure::Connect { reason } } else { Failure::Broken { reason } }
}

/// Returns the message of the cause at the bottom, which says what happened.
pub fn last_cause(error: &(dyn Error + 'static)) -> String {
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
