//! Clients that are safe with tokens.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Url};

/// A connection over which nothing comes for long may be dead without our knowing.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Begins a client for what is at `url`. One for `https` reads all certificates of the system: make it when there is something to ask.
pub fn client(url: &Url) -> ClientBuilder {
    // The first to say so decides for the process; any of them will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .user_agent(concat!("pincer/", env!("CARGO_PKG_VERSION")))
        .referer(false)
        .tcp_keepalive(KEEPALIVE);
    // No redirect leads from http to https: that would be another origin.
    let builder = if url.scheme() == "http" { builder.tls_certs_only([]) } else { builder };
    if is_this_machine(url) { builder.no_proxy() } else { builder }
}

/// Returns whether an address is this machine's own.
pub fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Returns an address without what may be secret in it.
pub fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}
