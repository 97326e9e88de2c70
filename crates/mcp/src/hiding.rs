//! Secrets of a server's settings, in what the server says: some repeat their arguments, or the token that they were given.

use std::sync::Arc;

use crate::settings::ServerSettings;

const REDACTED: &str = "[redacted]";

/// Takes the secrets of one server out of texts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hiding(Arc<[String]>);

impl Hiding {
    pub(crate) fn of(settings: &ServerSettings) -> Self {
        Self(settings.secrets.as_slice().into())
    }

    /// A text without them.
    pub(crate) fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), REDACTED))
    }

    /// The same for what need not be text.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        self.0.iter().fold(bytes.to_vec(), |bytes, secret| replaced(&bytes, secret.as_bytes()))
    }
}

fn replaced(bytes: &[u8], secret: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(secret) {
            out.extend_from_slice(REDACTED.as_bytes());
            at += secret.len();
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}
