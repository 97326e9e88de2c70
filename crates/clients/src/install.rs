//! Pincer in a client's own file.

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use pincer_config::{EditError, Keys, edit};
use serde_json::{Map, Value};

use crate::file::{back_up, read_if_there, replace_file};
use crate::launch::keep_variables;
use crate::parse::parse;
use crate::server::is_pincer;
use crate::{ClientError, ClientFile, Format, Launch, OUR_NAME, toml};

/// What becomes of the servers that are in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replace {
    /// They stay.
    Beside,
    /// These, by their names there, are taken out: Pincer has them now.
    Instead(Vec<String>),
}

/// What was done to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// What became of Pincer's own entry.
    pub change: Change,
    /// Which servers were taken out.
    pub removed: Vec<String>,
    /// How the file was before. `None` if there was none, or if nothing was changed.
    pub backup: Option<PathBuf>,
}

/// What became of Pincer's own entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added,
    /// There was one that said something else.
    Updated,
    /// It was there as it should be.
    Unchanged,
}

/// A change to a text, before it is made.
struct Plan {
    old: Option<String>,
    new: String,
    change: Change,
    removed: Vec<String>,
}

/// What a file would say with Pincer in it. Nothing is written.
pub fn preview(file: &ClientFile, launch: &Launch, replace: &Replace) -> Result<String, ClientError> {
    plan(file, launch, replace).map(|plan| plan.new)
}

/// Puts Pincer into a file, which need not exist, and makes a backup of it first. If anything goes wrong, the file is as it was.
pub fn install(
    file: &ClientFile,
    launch: &Launch,
    replace: &Replace,
    now: SystemTime,
) -> Result<Installed, ClientError> {
    let Plan { old, new, change, removed } = plan(file, launch, replace)?;
    if old.as_deref() == Some(&new) {
        return Ok(Installed { change, removed, backup: None });
    }
    let backup = old.as_deref().map(|old| back_up(&file.path, old, now)).transpose()?;
    if let Err(error) = replace_file(&file.path, old.as_deref(), &new) {
        // A backup of what was not changed would only lie around, with its secrets.
        if let Some(backup) = &backup {
            let _ = fs::remove_file(backup);
        }
        return Err(error);
    }
    Ok(Installed { change, removed, backup })
}

fn plan(file: &ClientFile, launch: &Launch, replace: &Replace) -> Result<Plan, ClientError> {
    let mut entry = launch.entry(file.client)?;
    let old = read_if_there(&file.path)?;
    let text = old.clone().unwrap_or_default();
    let whole = parse(&file.path, file.format, &text)?;
    let none = Map::new();
    let servers = file.servers(&whole)?.unwrap_or(&none);
    if let Some(there) = servers.get(OUR_NAME).filter(|there| is_pincer(there)) {
        keep_variables(&mut entry, there);
    }
    let change = match servers.get(OUR_NAME) {
        None => Change::Added,
        Some(there) if *there == Value::Object(entry.clone()) => Change::Unchanged,
        Some(there) if is_pincer(there) => Change::Updated,
        Some(_) => return Err(ClientError::Taken { file: file.path.clone(), name: OUR_NAME.into() }),
    };
    let out: &[String] = match replace {
        Replace::Beside => &[],
        Replace::Instead(names) => names,
    };
    let removed: Vec<String> =
        out.iter().filter(|name| *name != OUR_NAME && servers.contains_key(*name)).cloned().collect();
    let new = if removed.is_empty() && change == Change::Unchanged {
        text
    } else {
        changed(file, &text, &whole, &removed, entry)?
    };
    Ok(Plan { old, new, change, removed })
}

fn changed(
    file: &ClientFile,
    text: &str,
    whole: &Value,
    out: &[String],
    entry: Map<String, Value>,
) -> Result<String, ClientError> {
    let failed = |source| ClientError::Edit { file: file.path.clone(), source };
    let keys: Vec<&str> = file.keys.iter().map(String::as_str).collect();
    let path = |name| [keys.as_slice(), &[name]].concat();
    match file.format {
        Format::Json => {
            let entry = Value::Object(entry);
            // Each step is read again and compared with what was wanted.
            let set = edit::set(text, &path(OUR_NAME), &entry, Keys::Quoted).map_err(failed)?;
            out.iter().try_fold(set, |text, name| edit::remove(&text, &path(name)).map_err(failed))
        }
        Format::Toml => {
            let key = keys.first().copied().unwrap_or("mcp_servers");
            let by_hand = || failed(EditError::ByHand { block: toml::block(key, OUR_NAME, &entry) });
            let names: Vec<&str> = out.iter().map(String::as_str).collect();
            let new = toml::changed(text, key, &names, OUR_NAME, &entry).ok_or_else(by_hand)?;
            let mut wanted = whole.clone();
            let servers = wanted.as_object_mut().map(|all| all.entry(key).or_insert_with(|| Map::new().into()));
            if let Some(servers) = servers.and_then(Value::as_object_mut) {
                servers.retain(|name, _| !out.contains(name));
                servers.insert(OUR_NAME.into(), Value::Object(entry.clone()));
            }
            if toml::value(&new).is_ok_and(|value| value == wanted) { Ok(new) } else { Err(by_hand()) }
        }
    }
}
