//! Variables in the texts of clients, as ours.
//!
//! Each client has its own way to name them; ours is `${NAME}`, and `$${` for the characters themselves. What a client would have
//! passed on as it stands is passed on as it stands: it may be meant for a shell.

use std::collections::BTreeMap;

use crate::secrets::variable_name;
use crate::{Client, Surroundings};

/// What a client would have asked the user for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Input {
    pub description: Option<String>,
    /// The variable that it becomes.
    pub variable: String,
}

/// How a client gives a variable to a server that it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passing {
    /// By a text of its own in the server's `env`, which it fills in.
    Written(String),
    /// By the name in a list of variables.
    ByName,
}

/// Translates the texts of one file.
#[derive(Debug)]
pub(crate) struct Translator<'a> {
    pub client: Option<Client>,
    pub around: &'a Surroundings,
    pub inputs: &'a BTreeMap<String, Input>,
    /// The variables that were named so far.
    pub named: Vec<String>,
    /// How the client can pass them on.
    pub passed: BTreeMap<String, Passing>,
    pub remarks: Vec<String>,
}

/// What stands between `${` and `}`.
enum Meaning {
    Variable(String),
    Literal(String),
    Unknown,
}

impl Translator<'_> {
    /// A text in our way.
    pub(crate) fn text(&mut self, raw: &str) -> String {
        let (mut written, mut rest) = (String::new(), raw);
        while let Some(at) = rest.find("${") {
            written.push_str(&rest[..at]);
            let inner = &rest[at + 2..];
            let closed = inner.split_once('}');
            let meaning = match closed {
                // After a `$` ours would be no reference, and there is no other way to write it.
                Some((reference, _)) if !written.ends_with('$') => self.meaning(reference),
                _ => Meaning::Unknown,
            };
            match (meaning, closed) {
                (Meaning::Variable(name), Some((reference, after))) => {
                    written.push_str(&format!("${{{name}}}"));
                    self.passed.entry(name.clone()).or_insert(Passing::Written(format!("${{{reference}}}")));
                    self.need(name);
                    rest = after;
                }
                (Meaning::Literal(text), Some((_, after))) => {
                    written.push_str(&escaped(&text));
                    rest = after;
                }
                (_, closed) => {
                    if let Some((reference, _)) = closed {
                        self.remark(format!("`${{{reference}}}` is passed on as it stands: {}", self.reason()));
                    }
                    written.push_str("$${");
                    rest = inner;
                }
            }
        }
        written.push_str(rest);
        written
    }

    /// A variable of the client's environment that a key names.
    pub(crate) fn need_by_name(&mut self, name: &str) {
        let passing = match self.client {
            Some(Client::Codex) => Some(Passing::ByName),
            Some(Client::Cursor | Client::VsCode) => Some(Passing::Written(format!("${{env:{name}}}"))),
            Some(Client::ClaudeCode) => Some(Passing::Written(format!("${{{name}}}"))),
            Some(Client::ClaudeDesktop) | None => None,
        };
        if let Some(passing) = passing {
            self.passed.entry(name.to_owned()).or_insert(passing);
        }
        self.need(name.to_owned());
    }

    /// A variable that our config will name.
    fn need(&mut self, name: String) {
        if !self.named.contains(&name) {
            self.named.push(name);
        }
    }

    pub(crate) fn remark(&mut self, remark: impl Into<String>) {
        let remark = remark.into();
        if !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    fn meaning(&mut self, reference: &str) -> Meaning {
        let editor = matches!(self.client, None | Some(Client::Cursor | Client::VsCode));
        let plain = matches!(self.client, None | Some(Client::ClaudeCode));
        if let Some(id) = reference.strip_prefix("input:").filter(|id| editor && !id.is_empty()) {
            return self.input(id);
        }
        match reference.strip_prefix("env:") {
            Some(name) if editor && is_name(name) => return Meaning::Variable(name.to_owned()),
            _ => {}
        }
        if let Some(text) = editor.then(|| self.known(reference)).flatten() {
            self.remark(format!("`${{{reference}}}` is written out: our config has no such variable"));
            return Meaning::Literal(text);
        }
        match reference.split_once(":-") {
            Some((name, default)) if plain && is_name(name) => self.with_default(name, default),
            None if plain && is_name(reference) => Meaning::Variable(reference.to_owned()),
            _ => Meaning::Unknown,
        }
    }

    /// Ours has no defaults: the variable counts if it is set now, and otherwise what would be used without it.
    fn with_default(&mut self, name: &str, default: &str) -> Meaning {
        if self.around.variables.contains_key(name) {
            self.remark(format!("the default of `{name}` is left out: the variable is set, and must be from now on"));
            return Meaning::Variable(name.to_owned());
        }
        self.remark(format!("`{name}` is not set, so its default is written instead of it"));
        Meaning::Literal(default.to_owned())
    }

    fn input(&mut self, id: &str) -> Meaning {
        let input = self.inputs.get(id);
        let name = input.map_or_else(|| variable_name(id), |input| input.variable.clone());
        let asked = input.and_then(|input| input.description.as_deref());
        let asked = asked.map_or_else(String::new, |what| format!(" ({what})"));
        self.remark(format!("the client asks for `{id}`{asked}; Pincer takes it from the variable {name}"));
        Meaning::Variable(name)
    }

    /// Names that editors give to places.
    fn known(&self, reference: &str) -> Option<String> {
        let path = match reference {
            "userHome" => &self.around.home,
            "workspaceFolder" | "workspaceRoot" | "cwd" => &self.around.directory,
            "workspaceFolderBasename" => {
                return Some(self.around.directory.file_name()?.to_str()?.to_owned());
            }
            "pathSeparator" | "/" => return Some(std::path::MAIN_SEPARATOR.to_string()),
            _ => return None,
        };
        path.to_str().map(str::to_owned)
    }

    fn reason(&self) -> String {
        match self.client {
            Some(client @ (Client::ClaudeDesktop | Client::Codex)) => {
                format!("{} fills in no variables", client.title())
            }
            _ => "it is not understood".into(),
        }
    }
}

/// A text that means itself in our config.
pub(crate) fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

/// What a text of our config says, if no variable is in it.
pub(crate) fn literal(written: &str) -> Option<String> {
    let names_variable = written.match_indices("${").any(|(at, _)| !written[..at].ends_with('$'));
    (!names_variable).then(|| written.replace("$${", "${"))
}

/// What a variable of the environment can be called.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |(index, c): (usize, char)| c == '_' || c.is_ascii_alphabetic() || index > 0 && c.is_ascii_digit();
    !name.is_empty() && name.char_indices().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::System;

    #[test]
    fn the_variables_of_every_client_become_ours() {
        use Client::{ClaudeCode, ClaudeDesktop, Codex, Cursor, VsCode};
        let mut around = Surroundings::new("/home/me", "/code/app", System::Linux);
        around.variables.insert("SET".into(), "now".into());
        for (client, raw, expected) in [
            (Some(ClaudeCode), "a ${X} b ${Y}", "a ${X} b ${Y}"),
            (Some(ClaudeCode), "${SET:-d}", "${SET}"),
            (Some(ClaudeCode), "${UNSET:-https://d}/x", "https://d/x"),
            (Some(ClaudeCode), "${UNSET:-}", ""),
            (Some(ClaudeCode), "${env:X}", "$${env:X}"),
            (Some(ClaudeCode), "$X ${ } ${1}", "$X $${ } $${1}"),
            (Some(ClaudeCode), "$${X}", "$$${X}"),
            (Some(ClaudeCode), "${X", "$${X"),
            (Some(ClaudeCode), "${${X}}", "$${${X}}"),
            (Some(Cursor), "${env:X}", "${X}"),
            (Some(Cursor), "${userHome}/a", "/home/me/a"),
            (Some(VsCode), "${workspaceFolder}:${workspaceFolderBasename}", "/code/app:app"),
            (Some(VsCode), "Bearer ${input:api-key}", "Bearer ${API_KEY}"),
            (Some(VsCode), "${input:}", "$${input:}"),
            (Some(VsCode), "${command:x} ${X}", "$${command:x} $${X}"),
            (Some(ClaudeDesktop), "sh -c 'echo ${X}'", "sh -c 'echo $${X}'"),
            (Some(Codex), "${env:X}", "$${env:X}"),
            (None, "${X} ${env:Y} ${input:z}", "${X} ${Y} ${Z}"),
        ] {
            let inputs = BTreeMap::new();
            let mut translator = Translator {
                client,
                around: &around,
                inputs: &inputs,
                named: vec![],
                passed: BTreeMap::new(),
                remarks: vec![],
            };
            assert_eq!(translator.text(raw), expected, "{client:?} {raw}");
        }
    }
}
