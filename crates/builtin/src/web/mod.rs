//! `web_fetch`: a page of the web, and nothing of the network around this machine.

mod address;
mod charset;
mod fetch;
mod markdown;
mod page;

pub(crate) use fetch::WebFetch;
pub use fetch::{WebError, WebSettings};
