//! Looking at requests and replies: the parts that are shown, and the secrets that never are.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pincer_model::{
    Api, Debug, ErrorKind, Event, Events, Keys, Message, ModelError, Models, Origin, Payload, Plan, Recorder, Request,
    Target, replay,
};
use pincer_scripted::{Script, Server};

use crate::common::{House, coding, house, house_with, key, script};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The log of one request with secrets of every kind in it.
async fn logged(api: Api, debug: Debug) -> String {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let reply = "{ parts: [{ text: 'the token is ghp_0123456789abcdefghij and key-of-the-provider' }] }";
    let house = house_with(&script(&[reply]), vec![key("main", "key-of-the-provider")], debug);
    let mut provider = house.provider("p", api);
    provider.headers.insert("x-own".into(), "Bearer own-header-value".into());
    let secrets = "sk-abcdefgh12345678 AKIAABCDEFGHIJKLMNOP postgres://me:hunter2@db/x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln \
        -----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY----- own-header-value key-of-the-provider";
    let request = Request { messages: vec![Message::user(secrets)], system: vec!["a plain prompt".into()], ..coding() };
    house.events(Plan::new(Target::new(&Arc::new(provider), "scripted")), request).await;
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for secret in [
        "key-of-the-provider",
        "own-header-value",
        "sk-abcdefgh",
        "AKIAABCD",
        "hunter2",
        "eyJzdWIi",
        "MIIE",
        "ghp_0123",
    ] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    text
}

#[tokio::test]
async fn each_switch_shows_its_part_and_no_secret() {
    for api in Api::ALL {
        assert_eq!(logged(api, Debug::default()).await, "", "nothing unless it is asked for");
        let text = logged(api, Debug { transport: true, ..Debug::default() }).await;
        assert!(
            text.contains("model request") && text.contains("status=200") && text.contains("model reply"),
            "{text}"
        );
        assert!(!text.contains("a plain prompt"));
        let text = logged(api, Debug { payload: Payload::Summary, ..Debug::default() }).await;
        assert!(text.contains("tools=2") && !text.contains("exec"), "{text}");
        let text = logged(api, Debug { payload: Payload::Tools, ..Debug::default() }).await;
        assert!(text.contains("exec,wait") && !text.contains("a plain prompt"), "{text}");
        let text = logged(api, Debug { payload: Payload::FullRedacted, ..Debug::default() }).await;
        assert!(text.contains("a plain prompt") && text.contains("[redacted]"), "{text}");
        let text = logged(api, Debug { events: Events::Events, ..Debug::default() }).await;
        assert!(text.contains("model event") && !text.contains("the token is"), "{text}");
        let text = logged(api, Debug { events: Events::Peek, ..Debug::default() }).await;
        assert_eq!(text.matches("model event").count(), 5, "{text}");
    }
}

#[test]
fn the_variables_of_the_reference_switch_it_on() {
    let of = |pairs: &[(&str, &str)]| {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Debug::default()
            .with_variables(|name| pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()))
    };
    assert!(of(&[("OPENCLAW_DEBUG_MODEL_TRANSPORT", "1")]).transport);
    assert!(!of(&[("OPENCLAW_DEBUG_MODEL_TRANSPORT", "0")]).transport);
    for (word, payload) in
        [("summary", Payload::Summary), ("tools", Payload::Tools), ("full-redacted", Payload::FullRedacted)]
    {
        assert_eq!(of(&[("OPENCLAW_DEBUG_MODEL_PAYLOAD", word)]).payload, payload);
    }
    assert_eq!(of(&[("OPENCLAW_DEBUG_SSE", "events")]).events, Events::Events);
    assert_eq!(of(&[("OPENCLAW_DEBUG_SSE", "peek")]).events, Events::Peek);
    assert!(!of(&[]).is_on());
}

/// Records one exchange with the provider of a script. Returns its events, its error, and the file.
async fn recorded(api: Api, reply: &str, directory: &Path) -> (Vec<Event>, Option<ModelError>, PathBuf) {
    let server = house(&script(&[reply])).server;
    let recorder = Some(Recorder::new(&directory.join("exchanges")));
    let keys = Keys::new([("p".to_owned(), vec![key("main", "key-of-the-provider")])].into());
    let house = House { models: Models::new(keys, Debug::default(), recorder), server };
    let (events, error) = house.events(Plan::new(house.target(api)), coding()).await;
    let files: Vec<_> =
        std::fs::read_dir(directory.join("exchanges")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    (events, error, files[0].clone())
}

/// Asks the provider that replays a file.
async fn replayed(api: Api, file: &Path) -> (Vec<Event>, Option<ModelError>) {
    let server = Server::start(Script::from_file(file).unwrap()).unwrap();
    let house = House { server, ..house(&script(&[])) };
    house.events(Plan::new(house.target(api)), coding()).await
}

#[tokio::test]
async fn an_exchange_that_was_recorded_can_be_replayed() {
    for api in Api::ALL {
        let directory = tempfile::tempdir().unwrap();
        let reply = "{ parts: [{ thinking: 'Hm.', signature: 'c2ln', encrypted: 'ZW5j' }, { text: 'Grüße, 世界' }, \
             { call: { id: 'a', name: 'exec', arguments: { code: 'return 1' } } }], wire: { cut: 13 } }";
        let (expected, error, file) = recorded(api, reply, directory.path()).await;
        assert_eq!(error, None);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("key-of-the-provider") && text.contains("Hello."), "{text}");
        let (events, error) = replayed(api, &file).await;
        assert_eq!(error, None);
        assert!(events == expected, "{api:?}: {events:?}");
        let recorded: serde_json::Value = serde_json::from_str(&text).unwrap();
        let body = recorded["replies"][0]["recorded"]["body"].as_str().unwrap();
        let origin = Origin { provider: "p".into(), api, model: "scripted".into() };
        assert_eq!(replay(&origin, body.as_bytes()).unwrap(), expected, "{api:?}");
        let cut = replay(&origin, &body.as_bytes()[..body.len() / 2]).unwrap_err();
        assert_eq!(cut.kind, ErrorKind::CutOff, "{api:?}");
    }
}

#[tokio::test]
async fn a_refused_request_is_recorded_with_the_words_of_the_provider() {
    for api in Api::ALL {
        let directory = tempfile::tempdir().unwrap();
        let reply = "{ status: 400, error: { message: 'no key-of-the-provider, please' } }";
        let (_, expected, file) = recorded(api, reply, directory.path()).await;
        assert!(expected.as_ref().is_some_and(|error| error.message.contains("please")), "{expected:?}");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("key-of-the-provider") && text.contains("please"), "{text}");
        assert_eq!(replayed(api, &file).await.1, expected);
    }
}
