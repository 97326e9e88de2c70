//! The settings of servers, by what a test says of them: the rest is as it is usual.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use pincer_mcp::{Address, Directory, Elicitation, Launch, Reach, Readiness, Sampling, ServerSettings, ToolFilter};
use serde_json::{Value, json};

/// A program by its words, which starts in a directory of its own below `state`. Relative paths are seen from `workspace`.
pub(crate) fn by_words(name: &str, words: &[&str], workspace: &Path, state: &Path) -> ServerSettings {
    let (command, arguments) = words.split_first().unwrap();
    let directory = Directory::Own {
        path: state.join("mcp/work").join(name),
        anchors: vec![workspace.to_owned()],
        workspace: workspace.to_owned(),
    };
    let launch = Launch {
        command: (*command).to_owned(),
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        environment: BTreeMap::new(),
        directory,
    };
    usual(name, Reach::Program(launch))
}

/// A server by its URL.
pub(crate) fn by_url(name: &str, url: &str) -> ServerSettings {
    usual(name, Reach::Address(Address { url: url.to_owned(), ..Address::default() }))
}

/// Settings that differ in their identity if they differ in how the server is reached.
pub(crate) fn identified(settings: ServerSettings) -> ServerSettings {
    let identity = match &settings.reach {
        Reach::Program(launch) => {
            json!([launch.command, launch.arguments, launch.environment, launch.directory.path()])
        }
        Reach::Address(address) => json!([address.url]),
    };
    ServerSettings { identity, ..settings }
}

/// How a server that is a program is started, to be changed.
pub(crate) fn launch(settings: &mut ServerSettings) -> &mut Launch {
    match &mut settings.reach {
        Reach::Program(launch) => launch,
        Reach::Address(_) => panic!("{} is no program", settings.name),
    }
}

/// Sets a variable of a program's environment.
pub(crate) fn variable(settings: &mut ServerSettings, name: &str, value: &str) {
    launch(settings).environment.insert(name.to_owned(), value.to_owned());
}

fn usual(name: &str, reach: Reach) -> ServerSettings {
    ServerSettings {
        name: name.to_owned(),
        reach,
        readiness: Readiness::Ready,
        roots: Vec::new(),
        connect_timeout: Duration::from_secs(30),
        call_timeout: Duration::from_secs(60),
        tools: ToolFilter::default(),
        read_only: Vec::new(),
        sampling: Sampling::Refuse,
        elicitation: Elicitation::Ask,
        secrets: Vec::new(),
        identity: Value::Null,
    }
}
