//! Alone in its process: whether something is logged is decided for all threads at once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common_oauth;

use std::sync::{Arc, Mutex};

use common_oauth::authority::Authority;
use common_oauth::{remote, state, tools};
use pincer_mcp::login;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_has_a_token_or_a_code_in_it() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let (authority, (_state, logins)) = (Authority::new().await, state());
    let remote = remote(&authority.url());
    let browse = |url: &str| {
        let url = url.to_owned();
        tokio::spawn(async move { reqwest::get(url).await.unwrap() });
    };
    login(&remote, &logins, browse).await.unwrap();
    // Renewed, and then refused.
    authority.book().access.clear();
    tools(&remote, &logins).await.unwrap();
    authority.book().access.clear();
    authority.book().refresh.clear();
    tools(&remote, &logins).await.unwrap_err();
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("DEBUG rmcp::transport::auth"), "something was logged");
    let verifier = authority.book().exchanged[0]["code_verifier"].clone();
    let secrets = ["access-secret", "refresh-secret", "code-secret", "id-secret", &verifier];
    let lines = log.lines().filter(|line| secrets.iter().any(|secret| line.contains(secret)));
    assert_eq!(lines.collect::<Vec<_>>(), [""; 0]);
}
