//! One server, as a client has it, becomes one of ours.
//!
//! The keys of all clients are known to one function: they agree where they have the same key, and people paste what was written
//! for one client into another.

use std::collections::BTreeMap;
use std::path::Path;

use pincer_config::keys::{McpServer, McpTransport};
use serde_json::{Map, Value};

use crate::Reach;
use crate::variables::{Translator, is_name};

/// The reason why a server of a client cannot be one of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// It is no object.
    #[error("it is not an object")]
    NotAnObject,
    /// A key has a value of the wrong kind.
    #[error("its `{key}` is not {expected}")]
    Wrong {
        /// The key.
        key: String,
        /// The kind of value that it should have.
        expected: &'static str,
    },
    /// A key must name a variable.
    #[error("`{key}` does not name a variable")]
    NoVariable {
        /// The key.
        key: String,
    },
    /// Its type is not known.
    #[error("its type `{0}` is not known to Pincer")]
    UnknownType(String),
    /// It cannot be reached in any way.
    #[error("it has neither a `command` nor a `url`")]
    NoWay,
    /// Its address is none of the web.
    #[error("its `url` does not begin with http:// or https://")]
    Url,
    /// There is no program to start.
    #[error("its `command` is empty")]
    EmptyCommand,
}

/// Reads one server.
pub(crate) fn read(members: &Value, translator: &mut Translator<'_>) -> Result<McpServer, ServerError> {
    let members = members.as_object().ok_or(ServerError::NotAnObject)?;
    let mut draft = Draft { server: McpServer::default(), kind: Kind::Unsaid, translator };
    for (key, value) in members {
        draft.member(key, value)?;
    }
    draft.finished()
}

/// Returns whether a server is Pincer itself: it would start itself, and so on for ever.
pub(crate) fn is_pincer(members: &Value) -> bool {
    let command = members.get("command").and_then(Value::as_str).unwrap_or_default();
    let program = command.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let args = members.get("args").and_then(Value::as_array);
    let has = |word: &str| args.is_some_and(|args| args.iter().any(|arg| arg.as_str() == Some(word)));
    program.strip_suffix(".exe").unwrap_or(&program) == "pincer" && has("mcp") && has("serve")
}

/// What the file says of how a server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unsaid,
    Program,
    Address(McpTransport),
}

struct Draft<'d, 'a> {
    server: McpServer,
    kind: Kind,
    translator: &'d mut Translator<'a>,
}

impl Draft<'_, '_> {
    fn member(&mut self, key: &str, value: &Value) -> Result<(), ServerError> {
        match key {
            // Nothing said is nothing wrong.
            _ if value.is_null() => {}
            "type" | "transport" => self.kind = self.kind(key, value)?,
            "command" => self.server.command = Some(self.needed(key, value)?),
            "url" | "serverUrl" | "httpUrl" => self.server.url = Some(self.needed(key, value)?),
            "args" => self.server.args = self.list(key, value)?,
            "env" => self.server.env = self.texts(key, value)?,
            "cwd" => self.server.cwd = Some(self.needed(key, value)?),
            "headers" | "http_headers" => {
                let headers = self.texts(key, value)?;
                self.server.headers.extend(headers);
            }
            "env_http_headers" => self.headers_of_variables(key, value)?,
            "env_vars" => self.passed_on(key, value)?,
            "bearer_token_env_var" => {
                let name = value.as_str().filter(|name| is_name(name));
                let name = name.ok_or_else(|| ServerError::NoVariable { key: key.to_owned() })?;
                self.server.auth.token = Some(self.reference(name));
            }
            "bearer_token" => self.server.auth.token = Some(self.needed(key, value)?),
            "disabled" | "enabled" => self.enabled(key, value),
            "startup_timeout_sec" => self.server.connect_timeout_ms = self.duration(key, value, 1000.0, 600_000)?,
            "startup_timeout_ms" => self.server.connect_timeout_ms = self.duration(key, value, 1.0, 600_000)?,
            "tool_timeout_sec" => self.server.timeout_ms = self.duration(key, value, 1000.0, 86_400_000)?,
            "enabled_tools" => self.server.tools.allow = self.list(key, value)?,
            "disabled_tools" => self.server.tools.deny = self.list(key, value)?,
            "oauth" | "auth" => self.auth(key, value)?,
            "scopes" => self.server.auth.scopes = self.scopes(key, value)?,
            "envFile" => {
                self.translator.remark("`envFile` is left out: put its variables into `env`, or into the environment")
            }
            "headersHelper" => {
                self.translator.remark("`headersHelper` is left out: Pincer runs no program for headers")
            }
            "alwaysAllow" | "autoApprove" => {
                self.translator.remark(format!("`{key}` is left out: say under `approvals` which calls are allowed"));
            }
            "timeout" => {
                self.translator.remark("`timeout` is left out: clients count it differently; ours is `timeoutMs`")
            }
            // Words for people.
            "name" | "description" | "$schema" => {}
            _ => self.translator.remark(format!("`{key}` is left out: it is not understood")),
        }
        Ok(())
    }

    /// Checks what only the whole server can say.
    fn finished(mut self) -> Result<McpServer, ServerError> {
        let server = &mut self.server;
        match (&server.command, &server.url, self.kind) {
            (None, None, _) => return Err(ServerError::NoWay),
            (Some(_), Some(_), Kind::Address(_)) => {
                server.command = None;
                self.translator.remark("`command` is left out: the `type` is that of a `url`");
            }
            (Some(_), Some(_), _) => {
                server.url = None;
                self.translator.remark("`url` is left out: a server has a `command` or a `url`, not both");
            }
            _ => {}
        }
        if server.url.is_some() {
            if let Kind::Address(transport) = self.kind {
                server.transport = Some(transport);
            }
            for (unused, what) in [(!server.args.is_empty(), "args"), (!server.env.is_empty(), "env")] {
                if unused {
                    self.translator.remark(format!("`{what}` is left out: it is of no use with a `url`"));
                }
            }
            (server.args, server.env, server.cwd) = (Vec::new(), BTreeMap::new(), None);
        }
        let url = server.url.as_deref().unwrap_or("https://");
        if !["http://", "https://", "${"].iter().any(|start| url.starts_with(start)) {
            return Err(ServerError::Url);
        }
        if server.command.as_ref().is_some_and(|command| command.trim().is_empty()) {
            return Err(ServerError::EmptyCommand);
        }
        Ok(self.server)
    }

    fn kind(&mut self, key: &str, value: &Value) -> Result<Kind, ServerError> {
        let word = value.as_str().ok_or_else(|| wrong(key, "a string"))?;
        match word.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
            "stdio" | "local" => Ok(Kind::Program),
            "http" => Ok(Kind::Address(McpTransport::Http)),
            "streamablehttp" => Ok(Kind::Address(McpTransport::StreamableHttp)),
            "sse" => Ok(Kind::Address(McpTransport::Sse)),
            _ => Err(ServerError::UnknownType(shortened(word))),
        }
    }

    fn text(&mut self, value: &Value) -> Option<String> {
        match value {
            Value::String(raw) => Some(self.translator.text(raw)),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            _ => None,
        }
    }

    fn needed(&mut self, key: &str, value: &Value) -> Result<String, ServerError> {
        let text = value.as_str().ok_or_else(|| wrong(key, "a string"))?;
        Ok(self.translator.text(text))
    }

    /// A list without one of its items would mean something else, so each must be right.
    fn list(&mut self, key: &str, value: &Value) -> Result<Vec<String>, ServerError> {
        let items = value.as_array().ok_or_else(|| wrong(key, "a list"))?;
        items.iter().map(|item| self.text(item).ok_or_else(|| wrong(key, "a list of strings"))).collect()
    }

    fn texts(&mut self, key: &str, value: &Value) -> Result<BTreeMap<String, String>, ServerError> {
        let mut texts = BTreeMap::new();
        for (name, value) in object(key, value)? {
            match self.text(value) {
                Some(text) => drop(texts.insert(name.clone(), text)),
                None => self.translator.remark(format!("`{key}.{}` is left out: it is not a string", shortened(name))),
            }
        }
        Ok(texts)
    }

    fn reference(&mut self, name: &str) -> String {
        self.translator.need_by_name(name);
        format!("${{{name}}}")
    }

    fn headers_of_variables(&mut self, key: &str, value: &Value) -> Result<(), ServerError> {
        for (header, variable) in object(key, value)? {
            match variable.as_str().filter(|name| is_name(name)) {
                Some(name) => {
                    let reference = self.reference(name);
                    self.server.headers.insert(header.clone(), reference);
                }
                None => {
                    let header = shortened(header);
                    self.translator.remark(format!("`{key}.{header}` is left out: it does not name a variable"));
                }
            }
        }
        Ok(())
    }

    /// Passes variables on to the server as they are.
    fn passed_on(&mut self, key: &str, value: &Value) -> Result<(), ServerError> {
        for item in value.as_array().ok_or_else(|| wrong(key, "a list"))? {
            match item.as_str().or_else(|| item.get("name")?.as_str()).filter(|name| is_name(name)) {
                Some(name) => {
                    let reference = self.reference(name);
                    self.server.env.entry(name.to_owned()).or_insert(reference);
                }
                None => self.translator.remark(format!("an item of `{key}` is left out: it does not name a variable")),
            }
        }
        Ok(())
    }

    fn enabled(&mut self, key: &str, value: &Value) {
        match value.as_bool() {
            // Of two keys that disagree, the cautious one counts.
            Some(flag) => self.server.enabled &= flag == (key == "enabled"),
            None => self.translator.remark(format!("`{key}` is left out: it is not true or false")),
        }
    }

    fn duration(&mut self, key: &str, value: &Value, unit: f64, most: u64) -> Result<u64, ServerError> {
        const LEAST: u64 = 100;
        let number = value.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
        let wanted = number.ok_or_else(|| wrong(key, "a number"))? * unit;
        // Beyond 64 bits this is the greatest number there is, which is then too great.
        let used = (wanted as u64).clamp(LEAST, most);
        if used != wanted as u64 {
            self.translator.remark(format!("`{key}` is brought into the range that is allowed: {used} ms"));
        }
        Ok(used)
    }

    /// Claude Code's `oauth`, Cursor's `auth`.
    fn auth(&mut self, key: &str, value: &Value) -> Result<(), ServerError> {
        for (inner, value) in object(key, value)? {
            let path = format!("{key}.{inner}");
            match inner.as_str() {
                "clientId" | "CLIENT_ID" => self.server.auth.client_id = Some(self.needed(&path, value)?),
                "clientSecret" | "CLIENT_SECRET" => self.server.auth.client_secret = Some(self.needed(&path, value)?),
                "scopes" => self.server.auth.scopes = self.scopes(&path, value)?,
                "callbackPort" if value.as_u64().is_some_and(|port| u16::try_from(port).is_ok_and(|port| port > 0)) => {
                    self.server.auth.redirect_port = value.as_u64().and_then(|port| u16::try_from(port).ok());
                }
                _ => self.translator.remark(format!("`{key}.{}` is left out: it is not understood", shortened(inner))),
            }
        }
        Ok(())
    }

    fn scopes(&mut self, key: &str, value: &Value) -> Result<Vec<String>, ServerError> {
        match value.as_str() {
            Some(words) => Ok(words.split_whitespace().map(|word| self.translator.text(word)).collect()),
            None => self.list(key, value),
        }
    }
}

/// Sets the directory in which a server starts: a project's in the project, as the client starts it, and every other whose
/// arguments have relative paths. Only what plainly is such a path counts.
pub(crate) fn seen_from(server: &mut McpServer, directory: &Path, reach: Reach) {
    if server.command.is_none() {
        return;
    }
    let is_project = matches!(reach, Reach::Project | Reach::Local);
    let Some(at) = directory.to_str().map(crate::variables::escaped) else { return };
    let relative = |text: &String| {
        [".", ".."].contains(&text.as_str()) || ["./", "../", ".\\", "..\\"].iter().any(|start| text.starts_with(start))
    };
    match &server.cwd {
        Some(cwd) if is_project && Path::new(cwd).is_relative() && !cwd.starts_with(['$', '~']) => {
            server.cwd = Some(Path::new(&at).join(cwd).to_string_lossy().into_owned());
        }
        None if is_project || server.command.iter().chain(&server.args).any(relative) => server.cwd = Some(at),
        _ => {}
    }
}

fn object<'v>(key: &str, value: &'v Value) -> Result<&'v Map<String, Value>, ServerError> {
    value.as_object().ok_or_else(|| wrong(key, "an object"))
}

fn wrong(key: &str, expected: &'static str) -> ServerError {
    ServerError::Wrong { key: key.to_owned(), expected }
}

/// Returns words of a client's config as they are shown: short, and on one line.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 60;
    let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST).collect();
    if text.chars().nth(MOST).is_some() { format!("{shown}…") } else { shown }
}
