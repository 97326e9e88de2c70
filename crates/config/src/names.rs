//! Checks that a schema cannot express: names of tools, patterns, lists that exclude each other.

use pincer_catalog::{Selector, nearest, shortened};
use regex::Regex;

use crate::keys::{Channel, InstallPolicy, Mcp, McpTransport, SecretSource};
use crate::variables::is_secret_name;
use crate::{Config, Problem, Warning};

/// The channel that is always there.
const COMMAND_LINE: &str = "cli";
/// The longest name of a channel.
const MOST_CHANNEL_NAME: usize = 64;

pub(crate) fn check(config: &Config, problems: &mut Vec<Problem>) {
    let mut wrong = |error: &dyn std::fmt::Display| {
        // These messages begin with the path already.
        let text = error.to_string();
        let (path, message) = text.split_once(": ").unwrap_or(("", &text));
        problems.push(Problem::new(path, message));
    };
    for (at, rules) in config.all_rules() {
        if let Err(error) = pincer_catalog::Layer::new(at, &rules) {
            wrong(&error);
        }
    }
    for (name, hooks) in config.hooks.about_tools() {
        for (index, hook) in hooks.iter().enumerate() {
            let at = format!("hooks.{name}[{index}]");
            selectors(&format!("{at}.matcher"), hook.matcher.names(), &mut wrong);
            if hook.command.is_empty() {
                wrong(&format!("{at}.command: there is no command to run"));
            }
        }
    }
    for (name, hooks) in config.hooks.others() {
        for (index, _) in hooks.iter().enumerate().filter(|(_, hook)| hook.command.is_empty()) {
            wrong(&format!("hooks.{name}[{index}].command: there is no command to run"));
        }
    }
    for (index, rule) in config.approvals.rules.iter().enumerate() {
        selectors(&format!("approvals.rules[{index}].match"), rule.matches.names(), &mut wrong);
    }
    if !config.tools.exec.network && !config.tools.exec.confine {
        wrong(&"tools.exec.network: `false` needs `confine: true` beside it");
    }
    for (index, entry) in config.tools.exec.allow.iter().enumerate() {
        // A program, or a whole command: then only the program is a glob.
        let problem = match entry.contains(['\'', '"', '\\', '`', '$']) {
            true => Some("its words are separated by spaces, and nothing in it can be quoted or expanded".into()),
            false => glob_problem(entry.split_whitespace().next().unwrap_or_default()),
        };
        if let Some(reason) = problem {
            wrong(&format!("tools.exec.allow[{index}]: `{entry}` is not a glob: {reason}"));
        }
    }
    for (index, pattern) in config.tools.web.allow_hosts.iter().enumerate() {
        let problem = match pattern.contains(char::is_whitespace) {
            true => Some("it has a space in it: name one host".into()),
            false => glob_problem(pattern),
        };
        if let Some(reason) = problem {
            wrong(&format!("tools.web.allowHosts[{index}]: `{pattern}` is not a glob: {reason}"));
        }
    }
    installs(&config.security.install_policy, &mut wrong);
    servers(&config.mcp, &mut wrong);
    channels(config, &mut wrong);
    providers(config, &mut wrong);
    for (name, source) in &config.secrets {
        if !is_secret_name(name) {
            wrong(&format!(
                "secrets.{name}: this cannot be the name of a secret: it begins with a letter and has only letters, digits, `-`, `_` and `.`"
            ));
        }
        if matches!(source, SecretSource::Command(words) if words.first().is_none_or(String::is_empty)) {
            wrong(&format!("secrets.{name}.command: there is no command to run"));
        }
    }
    for (index, pattern) in config.logging.redact_patterns.iter().enumerate() {
        if let Err(error) = Regex::new(pattern) {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            wrong(&format!("logging.redactPatterns[{index}]: `{pattern}` is not a regular expression: {reason}"));
        }
    }
}

/// An entry that names nothing means everything, and one that cannot be read means nothing: both are refused.
fn installs(policy: &InstallPolicy, wrong: &mut impl FnMut(&dyn std::fmt::Display)) {
    for (list, rules) in [("allow", &policy.allow), ("block", &policy.block)] {
        for (index, rule) in rules.iter().enumerate() {
            let at = format!("security.installPolicy.{list}[{index}]");
            if rule.is_empty() {
                wrong(&format!("{at}: it names nothing: set `id`, `source`, `digest` or `type`"));
            }
            for (key, glob) in [("id", &rule.id), ("source", &rule.source)] {
                if let Some(reason) = glob.as_deref().and_then(glob_problem) {
                    let glob = glob.as_deref().unwrap_or_default();
                    wrong(&format!("{at}.{key}: `{glob}` is not a glob: {reason}"));
                }
            }
            let digits = |digest: &str| digest.strip_prefix("sha256:").map(str::to_owned);
            let is_digest = |digest: &String| {
                digits(digest).is_some_and(|text| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
            };
            if let Some(digest) = rule.digest.as_ref().filter(|digest| !is_digest(digest)) {
                wrong(&format!("{at}.digest: `{digest}` is no digest: it must be `sha256:` and 64 hexadecimal digits"));
            }
        }
    }
}

/// Names of servers become parts of ids, and each server is either a program or an address.
fn servers(mcp: &Mcp, wrong: &mut impl FnMut(&dyn std::fmt::Display)) {
    let mut known = std::collections::HashMap::new();
    for (name, server) in &mcp.servers {
        // As paths are shown elsewhere.
        let at = format!("mcp.servers.{name}");
        if !is_server_name(name) {
            wrong(&format!(
                "{at}: this cannot be the name of a server: it begins with a letter and has only letters, digits, `-`, `_` and `.`, \
                 no `__`, and at most {MOST_SERVER_NAME} characters; `{}` would do",
                server_name(name)
            ));
        }
        if let Some(other) = known.insert(name.to_lowercase(), name) {
            wrong(&format!("{at}: there is a server `{other}` already, and names differ in more than their capitals"));
        }
        let is_known = |key: &str| !server.unresolved.iter().any(|unresolved| unresolved.path.is_key(key));
        use McpTransport::{Http, Sse, Stdio, StreamableHttp};
        let problem = match (server.transport, &server.command, &server.url) {
            (_, Some(_), Some(_)) => Some("a server has a `command` or a `url`, not both"),
            (_, None, None) => Some("a server needs a `command` to start, or the `url` where it is reached"),
            (Some(Stdio), None, _) => Some("a server of type `stdio` needs a `command`"),
            (Some(Http | StreamableHttp | Sse), _, None) => Some("a server of this type needs a `url`"),
            (_, Some(command), _) if command.trim().is_empty() => Some("the `command` is empty"),
            (_, _, Some(url)) if is_known("url") && !(url.starts_with("http://") || url.starts_with("https://")) => {
                Some("the `url` must begin with http:// or https://")
            }
            _ => None,
        };
        if let Some(problem) = problem {
            wrong(&format!("{at}: {problem}"));
        }
    }
    for (user, token) in &mcp.serve.tokens {
        const LEAST: usize = 16;
        if token.len() < LEAST || token.contains(char::is_whitespace) {
            wrong(&format!("mcp.serve.tokens.{user}: a token needs at least {LEAST} characters, and no spaces"));
        }
    }
}

/// Names of channels stand in keys of sessions and in files, and the agents that a channel names must be there.
fn channels(config: &Config, wrong: &mut impl FnMut(&dyn std::fmt::Display)) {
    for (name, channel) in &config.channels {
        let at = format!("channels.{name}");
        if name == COMMAND_LINE {
            wrong(&format!("{at}: the command line is always there, and has no settings"));
        } else if !is_channel_name(name) {
            wrong(&format!(
                "{at}: this cannot be the name of a channel: it begins with a letter and has only lower-case letters, digits and \
                 single dashes, and at most {MOST_CHANNEL_NAME} characters"
            ));
        }
        if let Some(agent) = channel.agent.as_deref().filter(|agent| config.agent(agent).is_none() && *agent != "main")
        {
            let known = config.agents.keys().filter(|id| *id != Config::DEFAULTS);
            let near = nearest(agent, known.map(|id| (id.clone(), id.clone())), 1).pop();
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            wrong(&format!("{at}.agent: there is no agent `{agent}`{near}"));
        }
        if let Some(reason) = channel.session.as_deref().and_then(template_problem) {
            wrong(&format!("{at}.session: {reason}"));
        }
        for (key, list) in [("allowFrom", &channel.allow_from), ("allowTo", &channel.allow_to)] {
            if let Some(index) = list.iter().position(|id| id.trim().is_empty()) {
                wrong(&format!("{at}.{key}[{index}]: this is empty: name an id, or `*`"));
            }
        }
    }
}

/// Returns warnings about settings of channels that are not there.
pub(crate) fn without_channel(config: &Config) -> Vec<Warning> {
    let queue = &config.messages.queue;
    let modes = queue.by_channel.keys().map(|name| ("byChannel", name));
    let pauses = queue.debounce_ms_by_channel.keys().map(|name| ("debounceMsByChannel", name));
    let is_there = |name: &str| name == COMMAND_LINE || config.channels.contains_key(name);
    let warning = |(key, name): (&str, &String)| {
        let known = config.channels.keys().map(|known| (known.clone(), known.clone()));
        let shown = shortened(&name.escape_default().to_string(), MOST_CHANNEL_NAME);
        Warning::Channel { path: format!("messages.queue.{key}.{shown}"), near: nearest(name, known, 1).pop() }
    };
    modes.chain(pauses).filter(|(_, name)| !is_there(name)).map(warning).collect()
}

fn is_channel_name(name: &str) -> bool {
    let letters = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
    letters && begins && !name.ends_with('-') && !name.contains("--") && name.len() <= MOST_CHANNEL_NAME
}

/// Returns why a template for keys of sessions cannot be used, if it cannot.
fn template_problem(template: &str) -> Option<String> {
    let known = || Channel::PLACEHOLDERS.map(|name| format!("`{{{name}}}`")).join(", ");
    if template.trim().is_empty() {
        return Some("it is empty".into());
    }
    if template.chars().any(char::is_control) {
        return Some("it has control characters in it".into());
    }
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        let Some((name, after)) = rest[at..].strip_prefix('{').and_then(|rest| rest.split_once('}')) else {
            return Some(format!("`{{` and `}}` belong to placeholders, which are {}", known()));
        };
        if !Channel::PLACEHOLDERS.contains(&name) {
            return Some(format!("there is no placeholder `{{{name}}}`; there are {}", known()));
        }
        rest = after;
    }
    None
}

/// Names of providers stand before a slash, and what is named must be there.
fn providers(config: &Config, wrong: &mut impl FnMut(&dyn std::fmt::Display)) {
    for (id, provider) in &config.models.providers {
        if !is_server_name(id) {
            wrong(&format!(
                "models.providers.{id}: this cannot be the name of a provider: it begins with a letter and has only letters, digits, \
                 `-`, `_` and `.`"
            ));
        }
        let url = provider.base_url.as_deref().filter(|url| !url.contains("${"));
        if url.is_some_and(|url| !(url.starts_with("http://") || url.starts_with("https://"))) {
            wrong(&format!("models.providers.{id}.baseUrl: it must begin with http:// or https://"));
        }
        for (index, model) in provider.models.iter().enumerate() {
            if model.id.trim().is_empty() {
                wrong(&format!("models.providers.{id}.models[{index}].id: it is empty"));
            }
        }
    }
    for (provider, profiles) in &config.auth.order {
        for (index, profile) in profiles.iter().enumerate() {
            let at = format!("auth.order.{provider}[{index}]");
            match config.auth.profiles.get(profile) {
                None => wrong(&format!("{at}: there is no `{profile}` in `auth.profiles`")),
                Some(known) if known.provider != *provider => {
                    wrong(&format!("{at}: `{profile}` is a key of the provider `{}`", known.provider));
                }
                Some(_) => {}
            }
        }
    }
    for (id, agent) in &config.agents {
        for model in agent.model.iter().flat_map(crate::keys::ModelChoice::all) {
            if model.split_once('/').is_none_or(|(provider, model)| provider.is_empty() || model.is_empty()) {
                wrong(&format!("agents.{id}.model: `{model}` is not a model: write `provider/model`"));
            }
        }
        let summary = ("compaction.model", &agent.compaction.model);
        for (key, model) in [summary, ("compaction.memoryFlush.model", &agent.compaction.memory_flush.model)] {
            if let Some(model) = model
                && model.split_once('/').is_none_or(|(provider, model)| provider.is_empty() || model.is_empty())
            {
                wrong(&format!("agents.{id}.{key}: `{model}` is not a model: write `provider/model`"));
            }
        }
        if id == Config::DEFAULTS && agent.tools != crate::keys::AgentTools::default() {
            wrong(&format!("agents.{id}.tools: rights of all agents stand in `tools`, not here"));
        }
        let paths = [("workspace", &agent.workspace), ("sandbox.workspaceRoot", &agent.sandbox.workspace_root)];
        for (key, _) in paths.iter().filter(|(_, path)| path.as_ref().is_some_and(|path| path.trim().is_empty())) {
            wrong(&format!("agents.{id}.{key}: it is empty: write a path, or leave it out"));
        }
    }
    for (name, entry) in &config.skills.entries {
        for variable in entry.env.keys() {
            let at = format!("skills.entries.{name}.env.{variable}");
            if variable == "PATH" {
                wrong(&format!("{at}: a skill cannot set it: use `tools.exec.env`"));
            } else if variable.is_empty() || variable.contains(['=', '\0']) {
                wrong(&format!("{at}: this cannot be the name of a variable"));
            }
        }
    }
}

const MOST_SERVER_NAME: usize = 64;

fn is_server_name(name: &str) -> bool {
    let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    letters && begins && !name.contains("__") && name.len() <= MOST_SERVER_NAME
}

/// A name that a server can have, out of what somebody else calls it.
pub fn server_name(raw: &str) -> String {
    let mut name = String::new();
    for c in raw.trim().chars().map(|c| {
        if c.is_ascii_alphanumeric() || c == '.' {
            c
        } else if c == '_' {
            '_'
        } else {
            '-'
        }
    }) {
        // Runs of marks say no more than one.
        if !(name.ends_with(['-', '_']) && (c == '-' || c == '_')) {
            name.push(c);
        }
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.insert_str(0, "mcp-");
        name = name.replace("--", "-").replace("-_", "-");
    }
    name.truncate(MOST_SERVER_NAME);
    name.trim_end_matches('-').to_owned()
}

/// What is wrong with a glob. Deeply nested braces would exhaust the compiler of globs.
fn glob_problem(pattern: &str) -> Option<String> {
    const MOST_BRACES: usize = 8;
    if pattern.trim().is_empty() {
        return Some("it is empty".into());
    }
    if pattern.matches('{').count() > MOST_BRACES || pattern.len() > 1000 {
        return Some(format!("it is too long, or has more than {MOST_BRACES} braces"));
    }
    globset::Glob::new(pattern).err().map(|error| error.kind().to_string())
}

fn selectors(at: &str, names: &[String], wrong: &mut impl FnMut(&dyn std::fmt::Display)) {
    for (index, name) in names.iter().enumerate() {
        let at = if names.len() == 1 { at.to_owned() } else { format!("{at}[{index}]") };
        if let Err(error) = Selector::parse_matcher(&at, name) {
            wrong(&error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_becomes_one_that_a_server_can_have() {
        for (raw, expected) in [
            ("github", "github"),
            ("My Server", "My-Server"),
            ("a__b", "a_b"),
            ("1password", "mcp-1password"),
            ("größe", "gr-e"),
            ("@scope/pkg", "mcp-scope-pkg"),
            ("", "mcp"),
            ("___", "mcp"),
        ] {
            let name = server_name(raw);
            assert_eq!(name, expected, "{raw}");
            assert!(is_server_name(&name), "{raw} became {name}");
        }
        assert!(is_server_name(&server_name(&"x-".repeat(200))));
    }
}
