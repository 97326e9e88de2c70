//! `pincer mcp import`: the servers of a client, into our config; and Pincer, into the client.

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pincer_clients::{
    Change, Client, ClientError, ClientFile, Importer, Launch, Needed, Reading, Replace, Secrets, Surroundings, System,
    block, files_of, install, known_files, read_text, recognise, replace_file,
};
use pincer_config::keys::McpServer;
use pincer_config::{Edited, Existing, add_servers};
use pincer_runtime::user_directory;
use serde_json::{Value, json};

use super::undo::{Record, UndoError, undo};
use crate::print::{chain, line, note};
use crate::settings::places_of;
use crate::usage::LocationArguments;
use crate::usage_mcp::{ImportArguments, SecretsArgument};
use crate::{DONE, FAILED, WRONG_USAGE, state};

/// What was read of a file.
struct Read {
    file: ClientFile,
    reading: Reading,
}

/// Why nothing was imported, and the exit code for it.
struct Stop(u8, String);

impl From<ClientError> for Stop {
    fn from(error: ClientError) -> Self {
        Self(FAILED, chain(&error))
    }
}

impl From<UndoError> for Stop {
    fn from(error: UndoError) -> Self {
        Self(FAILED, chain(&error))
    }
}

pub(crate) fn run(locations: &LocationArguments, arguments: &ImportArguments) -> u8 {
    let done = if arguments.undo { bring_back(locations, arguments) } else { import(locations, arguments) };
    match done {
        Ok(document) => {
            if arguments.json {
                line(&document.to_string());
            }
            DONE
        }
        Err(Stop(code, error)) => {
            note(&format!("error: {error}"));
            code
        }
    }
}

fn bring_back(locations: &LocationArguments, arguments: &ImportArguments) -> Result<Value, Stop> {
    let files = undo(&directory(locations)?)?;
    if !arguments.json {
        files.iter().for_each(|file| line(&format!("{} is as it was before the import", file.display())));
    }
    Ok(json!({ "undone": files }))
}

fn directory(locations: &LocationArguments) -> Result<PathBuf, Stop> {
    let none = || Stop(WRONG_USAGE, "there is no place to note an import in: set HOME, or pass --state-dir".into());
    state::directory(locations).ok_or_else(none)
}

fn import(locations: &LocationArguments, arguments: &ImportArguments) -> Result<Value, Stop> {
    let around = surroundings()?;
    let files = wanted(arguments, &around)?;
    let secrets = match arguments.secrets {
        SecretsArgument::Keep => Secrets::Keep,
        SecretsArgument::Variables => Secrets::Variables,
    };
    let mut importer = Importer::new(&around, secrets);
    let mut read = Vec::new();
    for file in files {
        let reading = importer.read(&file)?;
        read.push(Read { file, reading });
    }
    let to = target(locations)?;
    let servers: BTreeMap<String, McpServer> = read
        .iter()
        .flat_map(|read| &read.reading.servers)
        .map(|found| (found.name.clone(), found.server.clone()))
        .collect();
    let old = if to.exists() { Some(read_text(&to)?) } else { None };
    let existing = if arguments.replace { Existing::Replace } else { Existing::Keep };
    let edited = add_servers(old.as_deref().unwrap_or_default(), &servers, existing, &|name| env::var(name).ok())
        .map_err(|error| Stop(WRONG_USAGE, format!("{} cannot be added to: {}", to.display(), chain(&error))))?;
    if !arguments.json {
        read.iter().for_each(|read| tell(read, &edited));
    }
    let changes = !edited.added.is_empty() || !edited.replaced.is_empty();
    let directory = directory(locations)?;
    let mut record = Record::default();
    if changes && !arguments.dry_run {
        replace_file(&to, old.as_deref(), &edited.text)?;
        if arguments.write {
            record.add(&directory, &to, old, None)?;
        }
    }
    if !arguments.json {
        line(&match (changes, arguments.dry_run) {
            (true, false) => format!("\nwritten to {}", to.display()),
            (true, true) => format!("\nnothing was written: this was a dry run. It would be {}", to.display()),
            (false, _) => format!("\nnothing new for {}", to.display()),
        });
    }
    let missing = variables(&read, arguments);
    let launch = launch(&to)?;
    let installed =
        clients(&read, arguments, &launch, |path, before, backup| record.add(&directory, path, before, backup))?;
    Ok(json!({
        "config": to, "written": changes && !arguments.dry_run,
        "added": edited.added, "replaced": edited.replaced, "kept": edited.kept,
        "files": read.iter().map(document).collect::<Vec<_>>(), "missingVariables": missing, "clients": installed,
    }))
}

fn surroundings() -> Result<Surroundings, Stop> {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home = home.ok_or_else(|| Stop(WRONG_USAGE, "HOME is not set, so no client's config can be found".into()))?;
    let here = env::current_dir().map_err(|error| Stop(FAILED, format!("the current directory is gone: {error}")))?;
    let mut around = Surroundings::new(home, here, System::here());
    around.variables = env::vars().collect();
    Ok(around)
}

/// Returns the clients of this machine that have servers to import, and how many.
pub(crate) fn importable() -> Vec<(Client, usize)> {
    let Ok(around) = surroundings() else { return Vec::new() };
    let mut importer = Importer::new(&around, Secrets::Keep);
    let mut counts: BTreeMap<Client, usize> = BTreeMap::new();
    for file in distinct(known_files(&around).into_iter().filter(ClientFile::exists).collect()) {
        // A file that cannot be read has nothing to import; `pincer mcp import` says what is wrong with it.
        if let (Some(client), Ok(reading)) = (file.client, importer.read(&file)) {
            *counts.entry(client).or_default() += reading.servers.len();
        }
    }
    counts.into_iter().filter(|(_, servers)| *servers > 0).collect()
}

/// The files to read: those that are named, or all that there are.
fn wanted(arguments: &ImportArguments, around: &Surroundings) -> Result<Vec<ClientFile>, Stop> {
    let mut files = Vec::new();
    for name in &arguments.from {
        let path = Path::new(name);
        match Client::from_id(name) {
            Some(client) if !path.is_file() => {
                let known = files_of(client, around);
                let there: Vec<ClientFile> = known.iter().filter(|file| file.exists()).cloned().collect();
                if there.is_empty() {
                    let looked: Vec<String> = known.iter().map(|file| file.path.display().to_string()).collect();
                    let why = format!("{} has no config here; looked for {}", client.title(), looked.join(", "));
                    return Err(Stop(FAILED, why));
                }
                files.extend(there);
            }
            _ if path.exists() => files.extend(recognise(path, around)?),
            _ => {
                let clients: Vec<&str> = Client::ALL.iter().map(|client| client.id()).collect();
                let why = format!("`{name}` is neither a file nor a client: clients are {}", clients.join(", "));
                return Err(Stop(WRONG_USAGE, why));
            }
        }
    }
    if arguments.from.is_empty() {
        files.extend(known_files(around).into_iter().filter(ClientFile::exists));
        if files.is_empty() {
            let clients: Vec<&str> = Client::ALL.iter().map(|client| client.title()).collect();
            let why = format!("no config of an MCP client was found ({}): name a file", clients.join(", "));
            return Err(Stop(FAILED, why));
        }
    }
    Ok(distinct(files))
}

/// Each file once: in the home itself, the user's files are those of the project too.
fn distinct(mut files: Vec<ClientFile>) -> Vec<ClientFile> {
    let mut known = HashSet::new();
    files.retain(|file| known.insert((file.path.clone(), file.keys.clone())));
    files
}

/// The config that is added to: the one in use, or the user's own.
fn target(locations: &LocationArguments) -> Result<PathBuf, Stop> {
    let locations = places_of(locations);
    let own = || locations.home.as_ref().map(|home| home.join(pincer_config::FILE_NAME));
    let found = pincer_config::find(&locations).or_else(own);
    found.ok_or_else(|| Stop(WRONG_USAGE, "there is no place for a config: set HOME, or name one with --config".into()))
}

/// How clients are to start us.
fn launch(config: &Path) -> Result<Launch, Stop> {
    let program =
        env::current_exe().map_err(|error| Stop(FAILED, format!("this program cannot find itself: {error}")))?;
    let usual = user_directory("XDG_CONFIG_HOME", ".config").map(|home| home.join(pincer_config::FILE_NAME));
    let absolute = std::path::absolute(config).unwrap_or_else(|_| config.to_owned());
    let config = (usual.as_deref() != Some(&absolute)).then_some(absolute);
    Ok(Launch { program, config, variables: BTreeMap::new() })
}

/// What a file has, and what becomes of it.
fn tell(read: &Read, edited: &Edited) {
    let whose = read.file.client.map_or_else(String::new, |client| format!("{}: ", client.title()));
    line(&format!("{whose}{}", read.file.path.display()));
    for found in &read.reading.servers {
        let name = if found.name == found.name_there {
            found.name.clone()
        } else {
            format!("{} (there: {})", found.name, found.name_there)
        };
        let server = found.server.shown();
        let what = match (&server.command, &server.url) {
            (Some(command), _) => std::iter::once(command).chain(&server.args).cloned().collect::<Vec<_>>().join(" "),
            (None, Some(url)) => url.clone(),
            (None, None) => String::new(),
        };
        let known = edited.kept.iter().any(|kept| kept.eq_ignore_ascii_case(&found.name));
        let becomes = if known { "  is there already, and stays as it is" } else { "" };
        line(&format!("  {name}  {what}{becomes}"));
        found.remarks.iter().for_each(|remark| line(&format!("    {remark}")));
    }
    for left in &read.reading.left_out {
        line(&format!("  {}  is left out: {}", left.name_there, left.reason));
    }
    read.reading.remarks.iter().for_each(|remark| line(&format!("  {remark}")));
    if read.reading.servers.is_empty() && read.reading.left_out.is_empty() {
        line("  has no servers");
    }
}

/// The variables that a person must set before all servers can be used. Their values are not shown.
fn variables(read: &[Read], arguments: &ImportArguments) -> Vec<String> {
    let needed: BTreeMap<&str, &Needed> =
        read.iter().flat_map(|read| &read.reading.variables).map(|needed| (needed.name.as_str(), needed)).collect();
    let passed: HashSet<&String> = read.iter().flat_map(|read| read.reading.passed.keys()).collect();
    let is_missing = |needed: &&&Needed| !needed.is_set && !passed.contains(&needed.name);
    let missing: Vec<String> = needed.values().filter(is_missing).map(|needed| needed.name.clone()).collect();
    let unset = needed.values().filter(|needed| !needed.is_set && passed.contains(&needed.name));
    let unset: Vec<&str> = unset.map(|needed| needed.name.as_str()).collect();
    if !unset.is_empty() && !arguments.json {
        note(&format!(
            "\nthe client gives these to Pincer; to use the servers outside of it, set them yourself: {}",
            unset.join(", ")
        ));
    }
    if !missing.is_empty() && !arguments.json {
        note(&format!(
            "\nset these in the environment that Pincer is started in, or the servers that name them are down: {}",
            missing.join(", ")
        ));
        let file =
            if arguments.write && !arguments.keep { "the copy of the client's file" } else { "the client's file" };
        for needed in needed.values().filter(|needed| !needed.is_set && needed.value.is_some()) {
            note(&format!("  {}: its value is in {file}, and in no other place", needed.name));
        }
    }
    missing
}

/// Shows what puts Pincer into each client, or puts it there.
fn clients(
    read: &[Read],
    arguments: &ImportArguments,
    launch: &Launch,
    mut note_change: impl FnMut(&Path, Option<String>, Option<&Path>) -> Result<(), UndoError>,
) -> Result<Vec<Value>, Stop> {
    let mut told = Vec::new();
    for Read { file, reading } in read {
        let Some(client) = file.client else { continue };
        let launch = &Launch { variables: reading.passed.clone(), ..launch.clone() };
        if !arguments.write {
            let text = block(client, launch)?;
            if !arguments.json {
                line(&format!(
                    "\nTo use it in {}, put this into {}, in place of its servers (or use --write):\n",
                    client.title(),
                    file.path.display()
                ));
                line(&text);
            }
            told.push(json!({ "client": client.id(), "file": file.path, "block": text }));
            continue;
        }
        let names = reading.servers.iter().map(|found| found.name_there.clone()).collect();
        let replace = if arguments.keep { Replace::Beside } else { Replace::Instead(names) };
        let before = if file.path.exists() { Some(read_text(&file.path)?) } else { None };
        let installed = install(file, launch, &replace, SystemTime::now())?;
        note_change(&file.path, before, installed.backup.as_deref())?;
        if !arguments.json {
            let backup = installed
                .backup
                .as_ref()
                .map_or_else(String::new, |backup| format!("; as it was: {}", backup.display()));
            let done = match installed.change {
                Change::Added => "Pincer was added to",
                Change::Updated => "Pincer was updated in",
                Change::Unchanged => "Pincer is already in",
            };
            let removed = if installed.removed.is_empty() {
                String::new()
            } else {
                format!(", in place of {}", installed.removed.join(", "))
            };
            line(&format!("\n{done} {}{removed}{backup}", file.path.display()));
        }
        told.push(json!({
            "client": client.id(), "file": file.path, "removed": installed.removed, "backup": installed.backup,
        }));
    }
    Ok(told)
}

fn document(read: &Read) -> Value {
    let servers: Vec<Value> = read
        .reading
        .servers
        .iter()
        .map(|found| json!({ "name": found.name, "nameThere": found.name_there, "remarks": found.remarks }))
        .collect();
    let left: Vec<Value> = read
        .reading
        .left_out
        .iter()
        .map(|left| json!({ "nameThere": left.name_there, "reason": left.reason.to_string() }))
        .collect();
    json!({
        "client": read.file.client.map(Client::id), "file": read.file.path, "servers": servers, "leftOut": left,
        "remarks": read.reading.remarks,
    })
}
