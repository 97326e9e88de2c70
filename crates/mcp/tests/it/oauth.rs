//! Logging in, staying so, and what is said when that fails.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common_oauth::authority::Authority;
use crate::common_oauth::{address, answer, connect, list, remote, remote_at, response, state, tools};
use pincer_mcp::{Address, AuthError, LoggedIn, LoginStatus, Logins, Remote, Speaks, Wire, login, logout, status};
use serde_json::{Value, json};

const EXPIRED: &str = "cannot be used: the login has expired: run `pincer mcp login notes`";
const NEEDED: &str = "needs a login: run `pincer mcp login notes`";

/// Opens the page, and follows it back.
fn browse(url: &str) {
    let url = url.to_owned();
    tokio::spawn(async move { reqwest::get(url).await.unwrap().text().await.unwrap() });
}

async fn logged_in(authority: &Authority, logins: &Logins) -> (Remote, LoggedIn) {
    let remote = remote(&authority.url());
    let came = login(&remote, logins, browse).await.unwrap();
    (remote, came)
}

fn file(state: &Path) -> std::path::PathBuf {
    state.join("mcp-auth/notes.json")
}

fn stored(state: &Path) -> Value {
    serde_json::from_slice(&fs::read(file(state)).unwrap()).unwrap()
}

fn change(state: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = stored(state);
    change(&mut value);
    fs::write(file(state), value.to_string()).unwrap();
}

/// As if time had passed.
fn age(state: &Path) {
    change(state, |stored| stored["received"] = 1000.into());
}

#[tokio::test]
async fn a_login_registers_and_is_used_by_connections() {
    let (authority, (state, logins)) = (Authority::new().await, state());
    let (remote, came) = logged_in(&authority, &logins).await;
    assert!(came.renewable && came.expires.is_some());
    assert_eq!(came.scopes, ["notes"]);
    assert_eq!(tools(&remote, &logins).await.unwrap(), ["read"]);

    let book = authority.book();
    assert_eq!(book.registered[0]["client_name"], "Pincer");
    assert_eq!(book.authorized[0]["resource"], authority.url());
    assert_eq!(book.exchanged[0]["resource"], authority.url());
    drop(book);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file(state.path())), 0o600);
    assert_eq!(mode(&state.path().join("mcp-auth")), 0o700);
    assert!(matches!(status(&remote, &logins).unwrap(), LoginStatus::LoggedIn { renewable: true, .. }));
}

#[tokio::test]
async fn a_folder_that_others_could_read_is_closed() {
    let (authority, (state, logins)) = (Authority::new().await, state());
    let directory = state.path().join("mcp-auth");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    logged_in(&authority, &logins).await;
    assert_eq!(fs::metadata(directory).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn without_a_login_the_error_names_the_command() {
    let (authority, (state, logins)) = (Authority::new().await, state());
    let remote = remote(&authority.url());
    assert_eq!(status(&remote, &logins).unwrap(), LoginStatus::LoggedOut);
    assert_eq!(tools(&remote, &logins).await.unwrap_err(), NEEDED);
    assert!(!state.path().join("mcp-auth").exists());
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends() {
    let (authority, (state, logins)) = (Authority::new().await, state());
    let (remote, _) = logged_in(&authority, &logins).await;
    let before = stored(state.path());
    age(state.path());
    authority.book().seen.clear();
    assert_eq!(tools(&remote, &logins).await.unwrap(), ["read"]);
    assert_eq!(authority.refreshes(), 1);
    let after = stored(state.path());
    assert_ne!(before["accessToken"], after["accessToken"]);
    assert_ne!(before["refreshToken"], after["refreshToken"]);
    let book = authority.book();
    assert_eq!(book.exchanged[1]["resource"], authority.url());
    // The old one was not even tried.
    let fresh = format!("Bearer {}", after["accessToken"].as_str().unwrap());
    assert!(book.seen.iter().all(|(_, header)| header.as_ref() == Some(&fresh)), "{:?}", book.seen);
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_once() {
    let (authority, (_state, logins)) = (Authority::new().await, state());
    let (remote, _) = logged_in(&authority, &logins).await;
    authority.book().access.clear();
    assert_eq!(tools(&remote, &logins).await.unwrap(), ["read"]);
    assert_eq!(authority.refreshes(), 1);
}

#[tokio::test]
async fn a_server_that_refuses_fresh_tokens_is_asked_twice() {
    let (authority, (_state, logins)) = (Authority::new().await, state());
    logged_in(&authority, &logins).await;
    // Knows nobody, and can renew for everybody.
    let seen = Arc::new(Mutex::new(0));
    let other = {
        let seen = Arc::clone(&seen);
        answer(move |_| {
            *seen.lock().unwrap() += 1;
            response(401, &[("www-authenticate", "Bearer")], "")
        })
        .await
    };
    let url = format!("{}/mcp", other.origin);
    change(_state.path(), |stored| stored["url"] = url.clone().into());
    let error = tools(&remote(&url), &logins).await.unwrap_err();
    // `Either` has no reason to try an old server's way.
    assert_eq!(error, "does not accept the login: run `pincer mcp login notes`");
    assert_eq!((*seen.lock().unwrap(), authority.refreshes()), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_connections_at_once_renew_once() {
    let (authority, (state, logins)) = (Authority::new().await, state());
    let (remote, _) = logged_in(&authority, &logins).await;
    age(state.path());
    // Whoever used an old refresh token would have everybody logged out.
    let connections = (0..6).map(|_| {
        let (remote, logins) = (remote.clone(), logins.clone());
        tokio::spawn(async move { tools(&remote, &logins).await })
    });
    for connection in connections.collect::<Vec<_>>() {
        assert_eq!(connection.await.unwrap().unwrap(), ["read"]);
    }
    assert_eq!(authority.refreshes(), 1);
    let token = stored(state.path())["refreshToken"].as_str().unwrap().to_owned();
    assert_eq!(authority.book().refresh, [token]);
}

#[tokio::test]
async fn a_renewal_is_stored_though_nobody_waits_for_it() {
    let (authority, (state, logins)) = (Authority::new().await, state());
    let (remote, _) = logged_in(&authority, &logins).await;
    age(state.path());
    authority.close();
    {
        // An old server is asked by whoever makes the wire, who can be gone the next moment.
        let old = remote_at(&Address { speaks: Speaks::Events, ..address(&authority.url()) });
        tokio::select! {
            _ = Wire::to(&old, Some(&logins)) => panic!("it cannot have connected"),
            () = authority.asked() => {}
        }
    }
    authority.open();
    // It waits for the lock, and finds what nobody waited for.
    assert_eq!(tools(&remote, &logins).await.unwrap(), ["read"]);
    assert_eq!(authority.refreshes(), 1);
}

#[tokio::test]
async fn a_login_that_cannot_be_renewed_has_expired() {
    let (authority, (state, logins)) = (Authority::new().await, state());
    let (remote, _) = logged_in(&authority, &logins).await;
    age(state.path());
    authority.book().refresh.clear();
    assert_eq!(tools(&remote, &logins).await.unwrap_err(), EXPIRED);
    assert_eq!(status(&remote, &logins).unwrap(), LoginStatus::Expired);
    // What has been refused for good is not tried again.
    assert_eq!(tools(&remote, &logins).await.unwrap_err(), EXPIRED);
    assert_eq!(authority.refreshes(), 1);
}

#[tokio::test]
async fn a_renewal_that_fails_for_now_can_be_tried_again() {
    let (authority, (state, logins)) = (Authority::new().await, state());
    let (remote, _) = logged_in(&authority, &logins).await;
    age(state.path());
    authority.book().behaves.broken = Some(503);
    let error = tools(&remote, &logins).await.unwrap_err();
    assert!(error.contains("could not be renewed: 127.0.0.1 answered 503 Service Unavailable"), "{error}");
    assert!(!error.contains("secret"), "{error}");
    authority.book().behaves.broken = None;
    assert_eq!(tools(&remote, &logins).await.unwrap(), ["read"]);
}

#[tokio::test]
async fn a_login_is_not_used_at_another_address() {
    let (authority, (_state, logins)) = (Authority::new().await, state());
    logged_in(&authority, &logins).await;
    authority.book().seen.clear();
    let moved = remote(&format!("{}/other", authority.served.origin));
    assert_eq!(status(&moved, &logins).unwrap(), LoginStatus::Other { url: authority.url() });
    assert_eq!(tools(&moved, &logins).await.unwrap_err(), NEEDED);
    assert!(authority.book().seen.iter().all(|(_, header)| header.is_none()));
}

#[tokio::test]
async fn logging_out_forgets_the_login() {
    let (authority, (state, logins)) = (Authority::new().await, state());
    let (remote, _) = logged_in(&authority, &logins).await;
    assert!(logout("notes", &logins).await.unwrap());
    assert!(!file(state.path()).exists());
    assert!(!logout("notes", &logins).await.unwrap());
    assert_eq!(tools(&remote, &logins).await.unwrap_err(), NEEDED);
    assert!(matches!(logout("../notes", &logins).await.unwrap_err(), AuthError::Name { .. }));
}

#[tokio::test]
async fn a_file_that_is_no_login_is_said_to_be_none() {
    let (authority, (state, logins)) = (Authority::new().await, state());
    let (remote, _) = logged_in(&authority, &logins).await;
    for (text, reason) in [("{", "not JSON"), ("{\"version\": 9}", "another version"), ("{\"version\": 1}", "missing")]
    {
        fs::write(file(state.path()), text).unwrap();
        let error = tools(&remote, &logins).await.unwrap_err();
        assert!(error.contains(reason) && error.contains("pincer mcp login notes"), "{error}");
    }
    login(&remote, &logins, browse).await.unwrap();
    assert_eq!(tools(&remote, &logins).await.unwrap(), ["read"]);
}

#[tokio::test]
async fn other_visitors_do_not_end_the_wait_for_the_browser() {
    let (authority, (_state, logins)) = (Authority::new().await, state());
    let remote = remote(&authority.url());
    let (tell, told) = tokio::sync::oneshot::channel();
    let visits = tokio::spawn(async move {
        let page: url::Url = told.await.unwrap();
        let back = page.query_pairs().find(|(key, _)| key == "redirect_uri").unwrap().1.into_owned();
        // One that says nothing, as browsers open them.
        let port = url::Url::parse(&back).unwrap().port().unwrap();
        let _silent = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let mut statuses = Vec::new();
        let favicon = back.replace("/callback", "/favicon.ico");
        for stray in [favicon, format!("{back}?code=evil&state=wrong"), format!("{back}?code=evil"), page.to_string()] {
            let response = reqwest::get(stray).await.unwrap();
            statuses.push((response.status().as_u16(), response.text().await.unwrap().contains("logged in")));
        }
        statuses
    });
    login(&remote, &logins, |page| tell.send(page.parse().unwrap()).unwrap()).await.unwrap();
    assert_eq!(visits.await.unwrap(), [(404, false), (400, false), (400, false), (200, true)]);
    assert_eq!(authority.book().exchanged.len(), 1);
}

#[tokio::test]
async fn a_login_that_is_denied_says_so() {
    let (authority, (state, logins)) = (Authority::new().await, state());
    authority.book().behaves.denies = true;
    let error = login(&remote(&authority.url()), &logins, browse).await.unwrap_err();
    assert_eq!(error.to_string(), "the login to `notes` was refused: access_denied (not today)");
    assert!(!file(state.path()).exists());
}

#[tokio::test]
async fn nobody_is_waited_for_forever() {
    let (authority, (_state, logins)) = (Authority::new().await, state());
    let logins = logins.with_patience(Duration::from_millis(20));
    let error = login(&remote(&authority.url()), &logins, |_| ()).await.unwrap_err();
    assert!(matches!(error, AuthError::TimedOut { .. }), "{error}");
}

fn configured(url: &str) -> Address {
    let mut address = address(url);
    address.oauth.client_id = Some("me".into());
    address.oauth.client_secret = Some("s/ecret".into());
    address
}

#[tokio::test]
async fn a_client_of_the_config_is_used_as_it_is() {
    let (authority, (state, logins)) = (Authority::new().await, state());
    authority.book().behaves.secret = Some(("me", "s%2Fecret"));
    let remote = remote_at(&configured(&authority.url()));
    login(&remote, &logins, browse).await.unwrap();
    age(state.path());
    assert_eq!(tools(&remote, &logins).await.unwrap(), ["read"]);
    assert_eq!(authority.refreshes(), 1);
    assert!(authority.book().registered.is_empty());
    assert!(!fs::read_to_string(file(state.path())).unwrap().contains("ecret\""), "the secret stays in the config");
    // Another client is somebody else.
    let mut other = configured(&authority.url());
    other.oauth.client_id = Some("you".into());
    let other = remote_at(&other);
    assert!(matches!(status(&other, &logins).unwrap(), LoginStatus::Other { .. }));
}

#[tokio::test]
async fn what_a_server_wants_more_is_asked_for_at_the_next_login() {
    let (authority, (_state, logins)) = (Authority::new().await, state());
    let (remote, _) = logged_in(&authority, &logins).await;
    authority.book().behaves.wants_scope = Some("notes:write");
    let error = tools(&remote, &logins).await.unwrap_err();
    assert_eq!(error, "wants a login with more rights (`notes:write`): run `pincer mcp login notes`");
    let came = login(&remote, &logins, browse).await.unwrap();
    assert_eq!(came.scopes, ["notes", "notes:write"]);
    assert_eq!(authority.book().authorized[1]["scope"], "notes notes:write");
}

#[tokio::test]
async fn a_connection_takes_over_a_login_with_more_rights() {
    let (authority, (_state, logins)) = (Authority::new().await, state());
    let (remote, _) = logged_in(&authority, &logins).await;
    let client = connect(&remote, &logins).await.unwrap();
    authority.book().behaves.wants_scope = Some("notes:write");
    list(&client).await.unwrap_err();
    login(&remote, &logins, browse).await.unwrap();
    assert_eq!(list(&client).await.unwrap(), ["read"]);
    // It is not asked for in vain again and again.
    authority.book().behaves.wants_scope = Some("notes:delete");
    authority.book().seen.clear();
    list(&client).await.unwrap_err();
    assert_eq!(authority.book().seen.len(), 1);
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn only_web_pages_are_given_to_the_browser() {
    let (authority, (_state, logins)) = (Authority::new().await, state());
    for endpoint in ["file:///etc/passwd", "javascript:alert(1)", "calculator:open"] {
        authority.book().behaves.metadata = json!({ "authorization_endpoint": endpoint });
        let error = login(&remote(&authority.url()), &logins, |url| panic!("{url}")).await.unwrap_err();
        assert!(matches!(error, AuthError::Endpoint { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_server_without_logins_is_said_to_have_none() {
    let (_state, logins) = state();
    let server = answer(|_| response(404, &[], "")).await;
    let error = login(&remote(&server.origin), &logins, |url| panic!("{url}")).await.unwrap_err();
    assert!(matches!(error, AuthError::NotOffered { .. }), "{error}");
    let with_token = Address { token: Some("abc".into()), ..address(&server.origin) };
    let error = login(&remote_at(&with_token), &logins, |url| panic!("{url}")).await.unwrap_err();
    assert!(matches!(error, AuthError::InConfig { .. }), "{error}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_named() {
    let (authority, (_state, logins)) = (Authority::new().await, state());
    let taken = crate::common_oauth::listener().await;
    let port = taken.local_addr().unwrap().port();
    let mut address = address(&authority.url());
    address.oauth.redirect_port = Some(port);
    let error = login(&remote_at(&address), &logins, |url| panic!("{url}")).await.unwrap_err();
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
}

#[tokio::test]
async fn no_message_repeats_a_token() {
    let (authority, (_state, logins)) = (Authority::new().await, state());
    let (remote, _) = logged_in(&authority, &logins).await;
    authority.book().behaves.echoes = true;
    let error = tools(&remote, &logins).await.unwrap_err();
    assert_eq!(error, "does not allow this (403 Forbidden): you are Bearer …, go away");
}
