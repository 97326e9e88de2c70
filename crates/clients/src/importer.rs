//! From the files of clients to servers for our config.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pincer_config::keys::McpServer;
use pincer_config::{edit, server_name};
use pincer_secrecy::{is_secret, looks_secret};
use serde_json::Value;

use crate::file::read_text;
use crate::parse::parse;
use crate::secrets::{Vault, variable_name};
use crate::server::{self, ServerError, shortened};
use crate::variables::{Input, Passing, Translator, literal};
use crate::{ClientError, ClientFile, Format, Hidden, Secrets, Surroundings};

/// A server that can stand in our config.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name as it stands in the file.
    pub name_there: String,
    /// The name it can have in our config: no other that this importer has found has it.
    pub name: String,
    /// What our config would say of it.
    pub server: McpServer,
    /// What a person should know: what was left out, or means something else now. No values of secrets.
    pub remarks: Vec<String>,
}

/// A server that is not taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name as it stands in the file.
    pub name_there: String,
    /// Why.
    pub reason: Reason,
}

/// The reason why a server is not taken over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It is Pincer.
    #[error("it is Pincer itself, which would start itself for ever")]
    Ourselves,
    /// Another file had it already.
    #[error("it is the same as `{0}`, which was found before")]
    Same(String),
    /// It cannot be a server of ours.
    #[error(transparent)]
    Unusable(#[from] ServerError),
}

/// A variable that servers of our config name. As long as it is not set, those servers are down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// What it is called.
    pub name: String,
    /// What must be in it, if the file said so: it stands nowhere else now.
    pub value: Option<Hidden>,
    /// Whether the environment has it.
    pub is_set: bool,
}

/// What stands in a file.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The servers, in the order of the file.
    pub servers: Vec<Found>,
    /// Those that are not taken over.
    pub left_out: Vec<LeftOut>,
    /// The variables that those servers name.
    pub variables: Vec<Needed>,
    /// How the client can pass variables on to Pincer, by their names in our config.
    pub passed: BTreeMap<String, Passing>,
    /// What is to be said of the file as a whole.
    pub remarks: Vec<String>,
}

/// The variables that a server names.
struct Named {
    names: Vec<String>,
    /// How the client can pass them on.
    passed: BTreeMap<String, Passing>,
}

/// Reads files one after the other: names stay unique, a variable stands for one secret, and a server that several clients have is
/// found once.
#[derive(Debug)]
pub struct Importer<'a> {
    around: &'a Surroundings,
    secrets: Secrets,
    /// Names in small letters.
    names: BTreeSet<String>,
    /// What was found, as it was before secrets were taken out.
    known: Vec<(String, McpServer)>,
    /// Variables that the files themselves name.
    named: BTreeSet<String>,
    /// Variables that stand for what a client asks the user for: of which file, and what it is called there.
    asked: BTreeMap<String, (PathBuf, String)>,
    vault: Vault,
}

impl<'a> Importer<'a> {
    /// One that has read nothing yet.
    pub fn new(around: &'a Surroundings, secrets: Secrets) -> Self {
        Self {
            around,
            secrets,
            names: BTreeSet::new(),
            known: Vec::new(),
            named: BTreeSet::new(),
            asked: BTreeMap::new(),
            vault: Vault::default(),
        }
    }

    /// Reads a file. One without servers is no mistake; one that is not there, or not what it should be, is.
    pub fn read(&mut self, file: &ClientFile) -> Result<Reading, ClientError> {
        let text = read_text(&file.path)?;
        let whole = parse(&file.path, file.format, &text)?;
        let mut reading = Reading::default();
        let Some(servers) = file.servers(&whole)? else { return Ok(reading) };
        let inputs = self.inputs(file, &text, &whole);
        let mut named = BTreeSet::new();
        for name in in_order(file, &text, servers.keys().cloned().collect(), &mut reading.remarks) {
            let Some(members) = servers.get(&name) else { continue };
            match self.server(file, &inputs, &name, members) {
                Ok((found, Named { names, passed })) => {
                    named.extend(names);
                    reading.passed.extend(passed);
                    reading.servers.push(found);
                }
                Err(reason) => reading.left_out.push(LeftOut { name_there: name, reason }),
            }
        }
        // Not before all is read: a variable that any server names is nobody's secret.
        self.named.extend(named.iter().cloned());
        if self.secrets == Secrets::Variables {
            for found in &mut reading.servers {
                named.extend(self.hide(&found.name, &mut found.server));
                if shows_secret(&found.server) {
                    let remark = "an argument or the address looks like a secret, and stands in our config as it is";
                    found.remarks.push(remark.into());
                }
            }
        }
        reading.variables = named.into_iter().map(|name| self.needed(name)).collect();
        Ok(reading)
    }

    fn server(
        &mut self,
        file: &ClientFile,
        inputs: &BTreeMap<String, Input>,
        name_there: &str,
        members: &Value,
    ) -> Result<(Found, Named), Reason> {
        if server::is_pincer(members) {
            return Err(Reason::Ourselves);
        }
        let (around, client) = (self.around, file.client);
        let (named, passed, remarks) = Default::default();
        let mut translator = Translator { client, around, inputs, named, passed, remarks };
        let mut server = server::read(members, &mut translator)?;
        let Translator { named, passed, remarks, .. } = translator;
        server::seen_from(&mut server, &self.around.directory, file.reach);
        let wanted = server_name(name_there);
        if let Some((known, _)) = self.known.iter().find(|(name, other)| same_name(name, &wanted) && *other == server) {
            return Err(Reason::Same(known.clone()));
        }
        let name = self.unique(wanted);
        self.known.push((name.clone(), server.clone()));
        Ok((Found { name_there: name_there.to_owned(), name, server, remarks }, Named { names: named, passed }))
    }

    /// The inputs that the file asks the user for. Each gets a variable of its own, which stands for nothing else in any of the files.
    fn inputs(&mut self, file: &ClientFile, text: &str, whole: &Value) -> BTreeMap<String, Input> {
        let described = whole.get("inputs").and_then(Value::as_array).into_iter().flatten().filter_map(|input| {
            let description = input.get("description").and_then(Value::as_str).map(shortened);
            Some((input.get("id")?.as_str()?.to_owned(), description))
        });
        let described: BTreeMap<String, Option<String>> = described.collect();
        let within = |start: &str| -> BTreeSet<String> {
            text.split(start).skip(1).filter_map(|rest| rest.split_once('}')).map(|(id, _)| id.to_owned()).collect()
        };
        let variables = within("${env:");
        let mut inputs = BTreeMap::new();
        for id in within("${input:") {
            let wanted = variable_name(&id);
            let whose = (file.path.clone(), id.clone());
            let names = std::iter::once(wanted.clone()).chain((2..).map(|number| format!("{wanted}_{number}")));
            let is_free = |name: &String| match self.asked.get(name) {
                Some(known) => *known == whose,
                None => !variables.contains(name) && !self.named.contains(name),
            };
            // There are more numbers than inputs.
            let variable = names.into_iter().find(is_free).unwrap_or(wanted);
            self.asked.insert(variable.clone(), whose);
            inputs.insert(id.clone(), Input { description: described.get(&id).cloned().flatten(), variable });
        }
        inputs
    }

    /// Puts variables in the place of secrets, and gives back which.
    fn hide(&mut self, name: &str, server: &mut McpServer) -> Vec<String> {
        let mut named = Vec::new();
        let fits = |variable: &str, value: &str| match self.around.variables.get(variable) {
            Some(known) => known == value,
            None => !self.named.contains(variable),
        };
        let mut hide = |key: &str, variable: &str, text: &mut String| {
            let Some(value) = literal(text).filter(|value| is_secret(key, value)) else { return };
            // The word in front of a token is none, and tells people what the token is.
            let (scheme, value) = match value.split_once(' ') {
                Some((scheme, token)) if !token.contains(' ') && scheme.chars().all(char::is_alphabetic) => {
                    (format!("{scheme} "), token)
                }
                _ => (String::new(), value.as_str()),
            };
            let variable = self.vault.variable(name, variable, value, &fits);
            *text = format!("{scheme}${{{variable}}}");
            named.push(variable);
        };
        for (key, text) in &mut server.env {
            hide(key, key, text);
        }
        for (key, text) in &mut server.headers {
            let what = if key.eq_ignore_ascii_case("authorization") { "token" } else { key };
            hide(key, &format!("{name}_{what}"), text);
        }
        for (what, text) in [("token", &mut server.auth.token), ("client_secret", &mut server.auth.client_secret)] {
            if let Some(text) = text {
                hide("secret", &format!("{name}_{what}"), text);
            }
        }
        named
    }

    fn needed(&self, name: String) -> Needed {
        let is_set = self.around.variables.contains_key(&name);
        Needed { value: self.vault.value(&name).cloned(), is_set, name }
    }

    /// The name itself, or with a number behind it.
    fn unique(&mut self, name: String) -> String {
        const MOST: usize = 64;
        let numbered = |number: usize| {
            let end = format!("-{number}");
            let kept: String = name.chars().take(MOST - end.len()).collect();
            server_name(&format!("{kept}{end}"))
        };
        let mut free = name.clone();
        let mut number = 2;
        while !self.names.insert(free.to_lowercase()) {
            free = numbered(number);
            number += 1;
        }
        free
    }
}

/// Whether `name` is `wanted`, or that with a number behind it.
fn same_name(name: &str, wanted: &str) -> bool {
    let (name, wanted) = (name.to_lowercase(), wanted.to_lowercase());
    let is_number = |rest: &str| rest.strip_prefix('-').is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()));
    name.strip_prefix(&wanted).is_some_and(|rest| rest.is_empty() || is_number(rest))
}

/// Returns whether a secret is where none is replaced: it cannot be told which part of an argument is one.
fn shows_secret(server: &McpServer) -> bool {
    // `--api-key=…`, `?token=…`, `Authorization: …`.
    let is_named = |text: &str| {
        let pairs = text.split(['?', '&', ';']).filter_map(|pair| pair.split_once(['=', ':']));
        pairs.into_iter().any(|(name, value)| literal(value).is_some_and(|value| is_secret(name, &value)))
    };
    let follows = |pair: &[String]| {
        pair[0].starts_with('-') && literal(&pair[1]).is_some_and(|value| is_secret(&pair[0], &value))
    };
    let mut texts = server.args.iter().chain(&server.url);
    texts.any(|text| looks_secret(text) || is_named(text)) || server.args.windows(2).any(follows)
}

/// The names in the order of the file. What stands twice is told; the last counts, as it does for the client.
fn in_order(file: &ClientFile, text: &str, names: Vec<String>, remarks: &mut Vec<String>) -> Vec<String> {
    if file.format == Format::Toml {
        return names;
    }
    let path: Vec<&str> = file.keys.iter().map(String::as_str).collect();
    let mut order: Vec<String> = Vec::new();
    for name in edit::keys(text, &path) {
        if order.contains(&name) {
            remarks.push(format!("`{}` stands twice in this file; the last one counts", shortened(&name)));
        } else {
            order.push(name);
        }
    }
    order
}
