//! Fetches against a server that means harm.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{House, house_with};
use flate2::Compression;
use flate2::write::GzEncoder;
use pincer_builtin::{Settings, WebSettings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Answers each path in its own way.
struct Server {
    address: SocketAddr,
    /// Requests that came to a path that must not be reached.
    forbidden: Arc<AtomicUsize>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let forbidden = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&forbidden);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, address, Arc::clone(&counter)));
            }
        });
        Self { address, forbidden }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn whole(kind: &str, body: &[u8], more: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n{more}\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn to(url: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nlocation: {url}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").into_bytes()
}

async fn answer(mut stream: TcpStream, address: SocketAddr, forbidden: Arc<AtomicUsize>) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(count @ 1..) => request.extend_from_slice(&buffer[..count]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let path = request.split(' ').nth(1).unwrap_or_default();
    let port = address.port();
    let response = match path {
        "/page" => whole("text/html; charset=utf-8", b"<title>T</title><h1>Head</h1><p>Some <b>text</b>.</p>", ""),
        "/json" => whole("application/json", br#"{"a":[1,2]}"#, ""),
        "/bad-json" => whole("application/json", b"{nope", ""),
        "/text" => whole("text/plain", "täxt".repeat(100).as_bytes(), ""),
        "/png" => whole("image/png", b"\x89PNG\r\n\x1a\n\0\0", ""),
        "/missing" => {
            b"HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 4\r\nconnection: close\r\n\r\ngone"
                .to_vec()
        }
        "/hop" => to("/page"),
        "/loop" => to("/loop"),
        "/to-name" => to(&format!("http://localhost:{port}/forbidden")),
        "/to-v6" => to(&format!("http://[::ffff:127.0.0.1]:{port}/forbidden")),
        "/to-any" => to(&format!("http://0.0.0.0:{port}/forbidden")),
        "/to-other" => to(&format!("http://127.0.0.2:{port}/forbidden")),
        "/to-decimal" => to(&format!("http://2130706434:{port}/forbidden")),
        "/to-octal" => to(&format!("http://0177.0.0.2:{port}/forbidden")),
        "/to-short" => to(&format!("http://127.2:{port}/forbidden")),
        "/to-metadata" => to("http://169.254.169.254/latest/meta-data"),
        "/to-file" => to("file:///etc/passwd"),
        "/to-nonsense" => to("http://"),
        "/forbidden" => {
            forbidden.fetch_add(1, Ordering::SeqCst);
            whole("text/plain", b"reached", "")
        }
        "/bomb" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            let zeros = vec![b'x'; 1 << 20];
            (0..200).for_each(|_| encoder.write_all(&zeros).unwrap());
            whole("text/plain", &encoder.finish().unwrap(), "content-encoding: gzip\r\n")
        }
        "/half" => {
            b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 1000\r\nconnection: close\r\n\r\nhalf"
                .to_vec()
        }
        "/garbage" => b"\x01\x02not http at all\r\n\r\n".to_vec(),
        "/headers" => {
            let header = format!("x-{}: {}\r\n", "n".repeat(100), "v".repeat(1000));
            format!("HTTP/1.1 200 OK\r\n{}\r\n", header.repeat(10_000)).into_bytes()
        }
        "/silent" => {
            // Nothing, until the other side gives up.
            let _ = stream.read(&mut buffer).await;
            return;
        }
        "/drip" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n").await;
            while stream.write_all(b".").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            return;
        }
        "/endless" => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n").await;
            while stream.write_all(&[b'y'; 65536]).await.is_ok() {}
            return;
        }
        _ => whole("text/plain", b"hello", ""),
    };
    let _ = stream.write_all(&response).await;
    let _ = stream.shutdown().await;
}

/// Fetches may reach 127.0.0.1 by this very spelling, and nothing else within.
fn allowed() -> House {
    let web = WebSettings {
        allow_hosts: vec!["127.0.0.1".into()],
        timeout: Duration::from_millis(1500),
        body_bytes: 1 << 20,
    };
    house_with(|settings| Settings { web, ..settings })
}

async fn fetch(house: &House, url: &str) -> Result<Value, String> {
    let call = house.call("web_fetch", json!({ "url": url }));
    tokio::time::timeout(Duration::from_secs(30), call).await.expect("no fetch hangs")
}

#[tokio::test]
async fn pages_json_and_text_come_back_as_what_they_are() {
    let (house, server) = (allowed(), Server::start().await);
    let page = fetch(&house, &server.url("/hop")).await.unwrap();
    assert_eq!(
        (&page["title"], &page["status"], &page["url"]),
        (&json!("T"), &json!(200), &json!(server.url("/page")))
    );
    assert!(
        page["content"].as_str().unwrap().contains("# Head") && page["content"].as_str().unwrap().contains("**text**"),
        "{page}"
    );
    assert_eq!(fetch(&house, &server.url("/json")).await.unwrap()["json"], json!({ "a": [1, 2] }));
    assert_eq!(fetch(&house, &server.url("/bad-json")).await.unwrap()["content"], "{nope");
    let missing = fetch(&house, &server.url("/missing")).await.unwrap();
    assert_eq!((&missing["status"], &missing["content"]), (&json!(404), &json!("gone")));
    assert!(
        fetch(&house, &server.url("/png"))
            .await
            .unwrap_err()
            .contains("is a PNG image (image/png) of 10 bytes, not text")
    );
    let raw = house.ok("web_fetch", json!({ "url": server.url("/page"), "format": "raw" })).await;
    assert!(raw["content"].as_str().unwrap().starts_with("<title>"));
    let part = house.ok("web_fetch", json!({ "url": server.url("/text"), "maxChars": 150 })).await;
    assert_eq!(part["next"], 150);
    let rest = house.ok("web_fetch", json!({ "url": server.url("/text"), "start": 150, "maxChars": 500 })).await;
    assert_eq!(
        (part["content"].as_str().unwrap().to_owned() + rest["content"].as_str().unwrap(), rest.get("next")),
        ("täxt".repeat(100), None)
    );
}

#[tokio::test]
async fn nothing_within_this_network_is_reached() {
    let (house, server) = (allowed(), Server::start().await);
    let port = server.address.port();
    for path in ["/to-name", "/to-v6", "/to-any", "/to-other", "/to-decimal", "/to-octal", "/to-short", "/to-metadata"]
    {
        let error = fetch(&house, &server.url(path)).await.expect_err(path);
        assert!(error.contains("within this network"), "{path}: {error}");
    }
    for url in [
        format!("http://localhost:{port}/forbidden"),
        format!("http://127.0.0.2:{port}/forbidden"),
        format!("http://0x7f000002:{port}/forbidden"),
        format!("http://[::1]:{port}/forbidden"),
        format!("http://[::ffff:7f00:1]:{port}/forbidden"),
        format!("http://user:pass@localhost:{port}/forbidden"),
        "http://169.254.169.254/".into(),
        "http://10.0.0.1/".into(),
    ] {
        let error = fetch(&house, &url).await.expect_err(&url);
        assert!(error.contains("within this network"), "{url}: {error}");
    }
    // Whether this is a name at all depends on the machine.
    assert!(fetch(&house, &format!("http://LOCALHOST.:{port}/forbidden")).await.is_err());
    assert_eq!(server.forbidden.load(Ordering::SeqCst), 0);
    let strict = house_with(|settings| settings);
    assert!(
        fetch(&strict, &server.url("/page")).await.unwrap_err().contains("within this network"),
        "nothing is allowed unless it is said"
    );
}

#[tokio::test]
async fn other_schemes_and_endless_redirects_are_refused() {
    let (house, server) = (allowed(), Server::start().await);
    for (url, told) in [
        (server.url("/to-file"), "only http and https can"),
        ("file:///etc/passwd".into(), "only http and https can"),
        ("ftp://example.com/".into(), "only http and https can"),
        ("not an address".into(), "is not an address"),
        ("".into(), "is not an address"),
        (server.url("/loop"), "redirects more than 5 times"),
        (server.url("/to-nonsense"), "which is no address"),
    ] {
        let error = fetch(&house, &url).await.expect_err(&url);
        assert!(error.contains(told), "{url}: {error}");
    }
}

#[tokio::test]
async fn endless_slow_broken_and_compressed_answers_are_bounded() {
    let (house, server) = (allowed(), Server::start().await);
    for path in ["/endless", "/bomb"] {
        let fetched = fetch(&house, &server.url(path)).await.unwrap();
        assert_eq!(fetched["truncated"], true, "{path}");
        assert!(fetched["content"].as_str().unwrap().len() <= 1 << 20, "{path}");
    }
    for (path, told) in [
        ("/silent", "did not answer within 1500 ms"),
        ("/drip", "did not answer within 1500 ms"),
        ("/half", "did not come through"),
        ("/garbage", "cannot be fetched"),
        ("/headers", "cannot be fetched"),
    ] {
        let error = fetch(&house, &server.url(path)).await.expect_err(path);
        assert!(error.contains(told), "{path}: {error}");
    }
    let nobody = { TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap() };
    let error = fetch(&house, &format!("http://{nobody}/")).await.unwrap_err();
    assert!(error.contains("Connection refused"), "{error}");
    assert!(
        fetch(&house, "http://no-such-host.invalid/")
            .await
            .unwrap_err()
            .contains("no address for no-such-host.invalid")
    );
}
