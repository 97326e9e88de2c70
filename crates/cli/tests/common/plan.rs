//! What the end-to-end plans of the specification need: a home with tools of every source, and a model that follows a script.
//!
//! A plan reaches Pincer by [`Plan::message`] alone, so that the same steps can be taken over another front.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};

use pincer_scripted::{Script, Server};
use serde_json::{Value, json};

use super::Home;

/// The tool of the sender.
const ASK_USER: &str = r#"[{ "name": "ask_user", "description": "Asks the user a question.",
    "parameters": { "type": "object", "properties": { "question": { "type": "string" } }, "required": ["question"] } }]"#;

/// Names a step of the plan. The name of the last one stands before the reason of a failure.
#[allow(clippy::print_stderr, reason = "the output of a test")]
pub(crate) fn step(name: &str) {
    eprintln!("step: {name}");
}

/// A reply that calls one tool.
pub(crate) fn call(name: &str, arguments: &Value) -> String {
    format!("{{ parts: [{{ call: {{ id: 'c_{name}', name: '{name}', arguments: {arguments} }} }}] }}")
}

/// A reply that says something.
pub(crate) fn text(said: &str) -> String {
    format!("{{ parts: [{{ text: {} }}] }}", json!(said))
}

/// A home with a plugin and an MCP server in it, and a model.
pub(crate) struct Plan {
    pub home: Home,
    pub server: Server,
}

impl Plan {
    /// Begins with a model that gives these replies, and these keys of `tools` in the config.
    pub(crate) fn new(tools: &str, replies: &[String]) -> Self {
        let home = Home::with("{}");
        let folder = home.path("plugins/notes");
        fs::create_dir_all(&folder).expect("a directory");
        fs::create_dir(home.path("work")).expect("a workspace");
        fs::write(home.path("tools.json"), ASK_USER).expect("written");
        for name in ["pincer.plugin.json5", "notes.py"] {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/notes").join(name);
            fs::copy(source, folder.join(name)).expect("the plugin of the examples");
        }
        let server = served(replies);
        let plan = Self { home, server };
        plan.configure(tools);
        plan
    }

    /// Begins anew on the same home: another model, other keys of `tools`.
    pub(crate) fn restart(&mut self, tools: &str, replies: &[String]) {
        self.server = served(replies);
        self.configure(tools);
    }

    fn configure(&self, tools: &str) {
        let fixture = pincer_testkit::program("mcp-fixture").expect("the server");
        let config = format!(
            "{{ workspace: 'work', plugins: {{ paths: ['plugins'] }}, \
             mcp: {{ servers: {{ fixture: {{ command: {}, args: ['stdio'] }} }} }}, \
             models: {{ providers: {{ s: {{ baseUrl: '{}/v1', apiKey: 'k' }} }} }}, \
             agents: {{ defaults: {{ model: 's/scripted' }} }}, \
             tools: {{ exec: {{ mode: 'full' }}, {tools} }} }}",
            json!(fixture),
            self.server.url()
        );
        fs::write(self.home.path("pincer.json5"), config).expect("a config");
    }

    /// Sends a message of a session, with the tool of the sender, and returns what came of it.
    pub(crate) fn message(&self, session: &str, message: &str) -> Value {
        let (_, document) = self.home.json(&Self::arguments(session, message));
        document
    }

    /// Sends a message and does not wait for what comes of it.
    pub(crate) fn begin(&self, session: &str, message: &str) -> Child {
        let mut command = self.home.command(&Self::arguments(session, message));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pincer")
    }

    /// Sends a message in a process that gets so many KiB of address space. Returns its exit code, what came of it, and the notices.
    #[cfg(target_os = "linux")]
    pub(crate) fn message_within(&self, room: u32, session: &str, message: &str) -> (i32, Value, String) {
        let pincer = self.home.command(&Self::arguments(session, message));
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &format!("ulimit -v {room}; exec \"$0\" \"$@\"")]);
        command.arg(pincer.get_program()).args(pincer.get_args());
        command.env_clear().envs(pincer.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(directory) = pincer.get_current_dir() {
            command.current_dir(directory);
        }
        let output = command.stdin(Stdio::null()).output().expect("a shell");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let document = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        (output.status.code().unwrap_or(-1), document, told)
    }

    fn arguments<'a>(session: &'a str, message: &'a str) -> [&'a str; 8] {
        ["agent", "--session", session, "-m", message, "--client-tools", "tools.json", "--json"]
    }

    /// Returns the names of the tools that a request shows.
    pub(crate) fn shown(&self, request: usize) -> Vec<String> {
        let body = self.server.requests()[request].body.clone();
        let name = |tool: &Value| tool["function"]["name"].as_str().expect("a name").to_owned();
        body["tools"].as_array().into_iter().flatten().map(name).collect()
    }

    /// Returns the text of the last result that a request carries.
    pub(crate) fn told(&self, request: usize) -> String {
        let messages = self.server.requests()[request].body["messages"].clone();
        let last = messages.as_array().expect("messages").iter().rfind(|message| message["role"] == "tool").cloned();
        last.expect("a result")["content"].as_str().expect("a text").to_owned()
    }

    /// Returns the same as a value.
    pub(crate) fn told_value(&self, request: usize) -> Value {
        let told = self.told(request);
        serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"))
    }
}

fn served(replies: &[String]) -> Server {
    let script = format!("{{ strict: true, replies: [{}] }}", replies.join(", "));
    Server::start(Script::parse(&script).expect("a script")).expect("a server")
}

/// Waits until a model has been asked so often.
pub(crate) fn asked(server: &Server, times: usize) {
    while server.requests().len() < times {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
