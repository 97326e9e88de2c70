//! `pincer secrets`: values that configs name as `${secret:NAME}`, and that are never shown.

use std::io::{IsTerminal, Read, stderr, stdin};

use pincer_config::keys::SecretSource;
use pincer_config::{Sources, is_secret_name};
use pincer_runtime::{MOST_SECRET_BYTES, SecretError, Stored, Vault, fit_secret};
use serde_json::{Value, json};

use crate::print::chain;
use crate::refused::{Refused, report};
use crate::usage::{LocationArguments, SecretsArguments, SecretsCommand};
use crate::{FAILED, INTERRUPTED, WRONG_USAGE, settings, state};

impl From<SecretError> for Refused {
    fn from(error: SecretError) -> Self {
        Self(FAILED, chain(&error))
    }
}

pub(crate) fn run(locations: &LocationArguments, arguments: &SecretsArguments) -> u8 {
    // A config that is wrong says nothing of secrets; they are needed to mend it.
    let loaded = settings::read_only(locations).unwrap_or_default();
    let vault = Vault::new(state::directory(locations), loaded.file.as_deref());
    report(act(&vault, &loaded.parsed.config.secrets, &arguments.command), arguments.json)
}

fn act(vault: &Vault, sources: &Sources, command: &SecretsCommand) -> Result<(Value, String), Refused> {
    match command {
        SecretsCommand::Set { name, keychain } => set(vault, sources, name, *keychain),
        SecretsCommand::List => list(vault, sources),
        SecretsCommand::Remove { name } => remove(vault, name),
    }
}

fn set(vault: &Vault, sources: &Sources, name: &str, keychain: bool) -> Result<(Value, String), Refused> {
    if !is_secret_name(name) {
        let why = "a name has letters, digits, `-`, `_` and `.`, and begins with a letter or `_`";
        return Err(Refused(WRONG_USAGE, format!("`{name}` cannot be the name of a secret: {why}")));
    }
    if sources.contains_key(name) {
        let why =
            format!("the config says where {name} is kept: change it there, or take secrets.{name} out of the config");
        return Err(Refused(WRONG_USAGE, why));
    }
    let value = asked(name)?;
    if keychain && cfg!(target_os = "macos") && !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return Err(Refused(WRONG_USAGE, "the keychain of this system gives only plain ASCII back as it was".into()));
    }
    let replaced = vault.change(|stored| {
        let new = match keychain {
            true => vault.put_into_keychain(name, &value).map(|()| Stored::Keychain)?,
            false => Stored::Value(value.clone()),
        };
        match stored.insert(name.to_owned(), new) {
            Some(Stored::Keychain) if !keychain => vault.take_from_keychain(name).map(|()| true),
            old => Ok(old.is_some()),
        }
    })?;
    let (kept, place) = if keychain { ("keychain", "the system's keychain") } else { ("state", "the state directory") };
    let text = format!("{name} is kept in {place}; a config names it as ${{secret:{name}}}");
    Ok((json!({ "name": name, "kept": kept, "replaced": replaced }), text))
}

/// The value: never an argument, which others can see and shells remember.
fn asked(name: &str) -> Result<String, Refused> {
    let unfit = || SecretError::Unfit("standard input".into());
    if !stdin().is_terminal() {
        let mut text = Vec::new();
        let read = stdin().take(MOST_SECRET_BYTES + 2).read_to_end(&mut text);
        read.map_err(|error| Refused(FAILED, format!("standard input cannot be read: {error}")))?;
        return Ok(fit_secret(text).ok_or_else(unfit)?);
    }
    if !stderr().is_terminal() {
        return Err(Refused(WRONG_USAGE, "there is no terminal to ask on: pass the value on standard input".into()));
    }
    let terminal = console::Term::stderr();
    let read = terminal.write_str(&format!("value of {name} (not shown): ")).and_then(|()| terminal.read_secure_line());
    match read {
        Ok(text) => Ok(fit_secret(text.into_bytes()).ok_or_else(unfit)?),
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
            Err(Refused(INTERRUPTED, "nothing was kept".into()))
        }
        Err(error) => Err(Refused(FAILED, format!("the terminal cannot be read: {error}"))),
    }
}

fn list(vault: &Vault, sources: &Sources) -> Result<(Value, String), Refused> {
    let mut rows: Vec<(String, &str, String)> = Vec::new();
    for (name, stored) in vault.stored()? {
        if !sources.contains_key(&name) {
            let (kept, place) = match stored {
                Stored::Value(_) => ("state", "the state directory"),
                Stored::Keychain => ("keychain", "the system's keychain"),
            };
            rows.push((name, kept, place.to_owned()));
        }
    }
    for (name, source) in sources {
        let (kept, place) = match source {
            SecretSource::File(file) => ("file", format!("the file {file}")),
            // Its arguments may be secret too.
            SecretSource::Command(words) => ("command", format!("the command {}", words[0])),
            SecretSource::Keychain(account) => ("keychain", format!("the system's keychain, as {account}")),
        };
        rows.push((name.clone(), kept, place));
    }
    rows.sort();
    let document = rows.iter().map(|(name, kept, _)| json!({ "name": name, "kept": kept })).collect();
    let width = rows.iter().map(|(name, ..)| name.len()).max().unwrap_or_default();
    let text: Vec<String> = rows.iter().map(|(name, _, place)| format!("{name:width$}  {place}")).collect();
    let none = "there are no secrets: `pincer secrets set NAME` keeps one";
    Ok((document, if text.is_empty() { none.into() } else { text.join("\n") }))
}

fn remove(vault: &Vault, name: &str) -> Result<(Value, String), Refused> {
    vault.change(|stored| match stored.remove(name) {
        Some(Stored::Keychain) => vault.take_from_keychain(name),
        Some(Stored::Value(_)) => Ok(()),
        None => Err(SecretError::Unset(name.to_owned())),
    })?;
    Ok((json!({ "name": name, "removed": true }), format!("removed {name}")))
}
