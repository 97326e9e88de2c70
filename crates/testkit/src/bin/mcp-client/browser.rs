//! A browser in which somebody says yes to everything: it goes where it is sent.

use reqwest::redirect::Policy;

/// Looks at a page, and at those that it leads to.
pub(crate) async fn visit(page: String) {
    // All of the suite is on this machine, without TLS.
    let client = reqwest::Client::builder().redirect(Policy::default()).no_proxy().tls_certs_only([]).build();
    let visited = match client {
        Ok(client) => client.get(page).send().await,
        Err(error) => Err(error),
    };
    if let Err(error) = visited {
        eprintln!("mcp-client: the browser failed: {error}");
    }
}
