//! A channel whose process is a plugin's.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use pincer_channels::{Channels, ChannelsError, Notice, Observer};
use pincer_store::{Deliveries, DeliveryPage, DeliveryState};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::world::{USER, agent, config, served, text, within};

/// Tells what stands in the file `say`, a line for each message, and writes what it is asked to `log`. It falls when it is asked to
/// send `fall`.
const PLUGIN: &str = r#"
import json, os, sys, threading, time
lock = threading.Lock()
def send(message):
    with lock:
        sys.stdout.write(json.dumps({'jsonrpc': '2.0', **message}) + '\n'); sys.stdout.flush()
def note(what):
    with open('log', 'a') as log: log.write(json.dumps(what) + '\n')
def talk(channel):
    while not os.path.exists('say'): time.sleep(0.01)
    for number, line in enumerate(open('say')):
        send({'id': f'r{number}', 'method': 'channel/received', 'params': {'channel': channel, **json.loads(line)}})
for line in sys.stdin:
    m = json.loads(line)
    id, method, params = m.get('id'), m.get('method'), m.get('params') or {}
    if method is None:
        note({'acknowledged': id, 'result': m.get('result'), 'error': m.get('error')})
    elif method == 'initialize': send({'id': id, 'result': {'protocolVersion': 1}})
    elif method == 'channel/start':
        note({'started': params['channel'], 'kind': params['kind'], 'config': params['config'], 'dir': os.path.isdir(params['stateDir'])})
        if params['config'].get('wrong'):
            send({'id': id, 'error': {'code': 1, 'message': 'no host', 'data': {'permanent': True}}})
            continue
        send({'id': id, 'result': None})
        send({'method': 'channel/state', 'params': {'channel': params['channel'], 'state': 'up'}})
        threading.Thread(target=talk, args=[params['channel']], daemon=True).start()
    elif method == 'channel/send':
        note({'send': params['id'], 'to': params['to'], 'text': params['text'], 'replyTo': params['replyTo']})
        if params['text'] == 'fall' and not os.path.exists('fallen'):
            open('fallen', 'w').close(); os._exit(1)
        send({'id': id, 'result': {'messageId': 'its-own'}})
    elif method == 'shutdown': send({'id': id, 'result': None}); break
    elif id is not None: send({'id': id, 'result': None})
"#;

struct House {
    directory: TempDir,
    notices: Arc<Mutex<Vec<Notice>>>,
    config: String,
    _server: pincer_scripted::Server,
}

impl House {
    fn new(replies: &[String], channel: &str, manifest: &str) -> Self {
        Self::with(replies, channel, manifest, |_| String::new())
    }

    /// `more` makes further keys of the config, for this directory.
    fn with(replies: &[String], channel: &str, manifest: &str, more: impl FnOnce(&Path) -> String) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let plugin = directory.path().join("plugins/wire");
        fs::create_dir_all(&plugin).unwrap();
        fs::write(plugin.join("wire.py"), PLUGIN).unwrap();
        let text = format!("{{ id: 'wire', version: '1', command: ['python3', 'wire.py'], {manifest} }}");
        fs::write(plugin.join("pincer.plugin.json5"), text).unwrap();
        let server = served(replies);
        let config = config(&server, directory.path(), channel, &more(directory.path()));
        Self { directory, notices: Arc::default(), config, _server: server }
    }

    fn plugin(&self) -> std::path::PathBuf {
        self.directory.path().join("plugins/wire")
    }

    fn channels(&self) -> Result<Channels, ChannelsError> {
        let notices = Arc::clone(&self.notices);
        let observer = Observer::new(move |notice| notices.lock().unwrap().push(notice));
        Channels::of_config(agent(&self.config, self.directory.path()), USER, &[], observer)
    }

    /// Waits until the plugin's log has a line with this in it, and returns the log.
    async fn logged(&self, part: &str) -> String {
        let file = self.plugin().join("log");
        within(async {
            loop {
                let log = fs::read_to_string(&file).unwrap_or_default();
                if log.contains(part) {
                    return log;
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await
    }
}

const CHANNELS: &str = "channels: [{ name: 'wire', capabilities: { maxText: 1000 } }]";
const ALLOWED: &str = "plugin: 'wire', allowFrom: ['ann'], config: { host: 'example.org' }";

fn say(at: &Path, lines: &[&str]) {
    fs::write(at.join("say.new"), lines.join("\n")).unwrap();
    fs::rename(at.join("say.new"), at.join("say")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_plugin_is_acknowledged_when_it_is_stored_and_answered() {
    let house = House::new(&[text("Hello, Ann.")], ALLOWED, CHANNELS);
    let channels = house.channels().unwrap();
    let stop = CancellationToken::new();
    let talking = async {
        say(
            &house.plugin(),
            &[
                r#"{"messageId": "m1", "sender": "ann", "text": "Hi."}"#,
                r#"{"messageId": "m1", "sender": "ann", "text": "Hi."}"#,
                r#"{"messageId": "m2", "sender": "eve", "text": "Hi."}"#,
                r#"{"messageId": 7}"#,
                r#"{"messageId": "m3", "sender": "ann", "text": "Hi.", "channel": "other"}"#,
            ],
        );
        // Only messages of one conversation are stored in their order.
        for number in 0..4 {
            house.logged(&format!("\"acknowledged\": \"r{number}\"")).await;
        }
        let log = house.logged("\"acknowledged\": \"r4\"").await;
        let line = |part: &str| log.lines().find(|line| line.contains(part)).unwrap_or_default().to_owned();
        assert!(line("r0").contains("\"accepted\": true") && line("r0").contains("\"repeated\": false"), "{log}");
        assert!(line("r1").contains("\"repeated\": true"), "{log}");
        assert!(line("r2").contains("\"accepted\": false"), "{log}");
        assert!(line("r3").contains("cannot be read") && line("r3").contains("\"retry\": false"), "{log}");
        assert!(line("r4").contains("not started here"), "{log}");
        assert!(line("started").contains(r#""config": {"host": "example.org"}, "dir": true"#), "{log}");
        let log = house.logged("Hello, Ann.").await;
        let sent = log.lines().find(|line| line.contains("Hello, Ann.")).unwrap();
        assert!(sent.contains(r#""to": "ann""#) && sent.contains(r#""replyTo": "m1""#), "{sent}");
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(channels.run(&stop), talking);
    ended.unwrap();
    assert!(house.notices.lock().unwrap().contains(&Notice::Up { channel: "fake".into() }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_takes_its_time_holds_up_no_other_conversation() {
    let channel = "plugin: 'wire', allowFrom: ['*']";
    let house = House::with(&[text("Hello.")], channel, CHANNELS, |directory| {
        let go = directory.join("go").display().to_string();
        format!(
            "hooks: {{ before_reset: [{{ command: ['sh', '-c', 'until [ -e \"$0\" ]; do sleep 0.01; done', {go:?}] }}] }}"
        )
    });
    let channels = house.channels().unwrap();
    let stop = CancellationToken::new();
    let talking = async {
        say(
            &house.plugin(),
            &[
                r#"{"messageId": "m1", "sender": "ann", "text": "Hi."}"#,
                r#"{"messageId": "m2", "sender": "ann", "text": "/new"}"#,
                r#"{"messageId": "m3", "sender": "ann", "text": "/status"}"#,
                r#"{"messageId": "m4", "sender": "ben", "text": "Hi."}"#,
            ],
        );
        let log = house.logged("\"acknowledged\": \"r3\"").await;
        assert!(!log.contains("\"acknowledged\": \"r1\"") && !log.contains("\"acknowledged\": \"r2\""), "{log}");
        fs::write(house.directory.path().join("go"), "").unwrap();
        let log = house.logged("\"acknowledged\": \"r2\"").await;
        let place = |part: &str| log.find(part).unwrap_or_else(|| panic!("no {part}: {log}"));
        assert!(place("\"acknowledged\": \"r1\"") < place("\"acknowledged\": \"r2\""), "{log}");
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(channels.run(&stop), talking);
    ended.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_falls_while_it_sends_is_started_again_and_sends_under_the_same_id() {
    let house = House::new(&[text("fall")], ALLOWED, CHANNELS);
    let channels = house.channels().unwrap();
    let stop = CancellationToken::new();
    let talking = async {
        say(&house.plugin(), &[r#"{"messageId": "m1", "sender": "ann", "text": "Hi."}"#]);
        within(async {
            while house.logged("\"send\"").await.matches("\"send\"").count() < 2 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
        let log = house.logged("\"send\"").await;
        let ids: Vec<&str> = log.lines().filter(|line| line.contains("\"send\"")).collect();
        assert_eq!(ids[0], ids[1], "the same text under the same id");
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(channels.run(&stop), talking);
    ended.unwrap();
    let down = |notice: &Notice| matches!(notice, Notice::Down { why, .. } if why.contains("the plugin wire ended"));
    assert!(house.notices.lock().unwrap().iter().any(down), "{:?}", house.notices);
    let store = agent(&house.config, house.directory.path());
    let all = store.runtime().store().deliveries(DeliveryPage { limit: 9, ..DeliveryPage::default() }).await.unwrap();
    assert_eq!((all.len(), all[0].state), (1, DeliveryState::Sent));
    assert_eq!(all[0].message_id.as_deref(), Some("its-own"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_a_channel_from_running_is_told() {
    let refused = House::new(&[], "plugin: 'wire', config: { wrong: true }", CHANNELS);
    let ended = within(refused.channels().unwrap().run(&CancellationToken::new())).await;
    assert_eq!(ended.unwrap_err().to_string(), "the channel fake cannot be started: the plugin wire says: no host");
    let nameless = House::new(&[], "", CHANNELS);
    assert!(nameless.channels().err().unwrap().to_string().contains("no plugin has a channel called fake"));
    let without = House::new(&[], "plugin: 'wire'", "");
    assert!(without.channels().err().unwrap().to_string().contains("it has none"));
    let off = House::new(&[], "plugin: 'wire', enabled: false", CHANNELS);
    assert!(matches!(off.channels(), Err(ChannelsError::Nothing)));
    let twice = House::new(&[], ALLOWED, CHANNELS);
    let first = twice.channels().unwrap();
    assert!(matches!(twice.channels(), Err(ChannelsError::RunElsewhere { .. })));
    drop(first);
    // A process that another test starts at this moment has the lock until it has become another program.
    within(async {
        while twice.channels().is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_was_replaced_is_not_started_again_under_its_old_manifest() {
    // The process falls when it is asked to send this.
    let two = format!("{ALLOWED} }}, other: {{ plugin: 'wire'");
    let house = House::new(&[text("fall")], &two, CHANNELS);
    let channels = house.channels().unwrap();
    let stop = CancellationToken::new();
    let replacing = async {
        house.logged("\"started\"").await;
        // As an update does it: another folder in the same place.
        let (plugin, old) = (house.plugin(), house.directory.path().join("old"));
        fs::rename(&plugin, &old).unwrap();
        fs::create_dir(&plugin).unwrap();
        for file in ["wire.py", "pincer.plugin.json5"] {
            fs::copy(old.join(file), plugin.join(file)).unwrap();
        }
        say(&old, &[r#"{"messageId": "m1", "sender": "ann", "text": "Hi."}"#]);
    };
    let (ended, ()) = within(async { tokio::join!(channels.run(&stop), replacing) }).await;
    assert!(matches!(&ended, Err(ChannelsError::Replaced { plugin, .. }) if plugin == "wire"), "{ended:?}");
    let told = |notice: &Notice| matches!(notice, Notice::Ended { why, .. } if why.contains("updated or removed"));
    assert!(house.notices.lock().unwrap().iter().any(told), "of all but the last: {:?}", house.notices);
    assert!(!house.plugin().join("log").exists(), "the new files were not run");
    // The text waits for the process that begins with what is there now.
    drop(channels);
    let channels = house.channels().unwrap();
    fs::write(house.plugin().join("fallen"), "").unwrap();
    let sending = async {
        house.logged("\"send\"").await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(channels.run(&stop), sending);
    ended.unwrap();
}
