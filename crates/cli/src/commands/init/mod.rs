//! `pincer init`: finds what is there, and writes a config that works.

mod choice;
mod detect;
mod text;

use std::env;
use std::fs::symlink_metadata;
use std::path::{Path, PathBuf, absolute};

use clap::CommandFactory;
use pincer_clients::{read_text, replace_file};
use pincer_config::{Candidates, FILE_NAME, find};
use serde_json::{Value, json};

use self::choice::is_plain;
use self::detect::{Found, missing_key};
use crate::asking::{next_line, somebody_is_here};
use crate::print::{chain, count, note, streamed};
use crate::progress::waiting;
use crate::refused::{Refused, report};
use crate::settings::places_of;
use crate::usage::{Cli, LocationArguments};
use crate::usage_setup::InitArguments;
use crate::{FAILED, INTERRUPTED, WRONG_USAGE, state, tokio_runtime};

/// The most models that a person is shown to choose from.
const MOST_SHOWN: usize = 12;

pub(crate) fn run(locations: &LocationArguments, arguments: &InitArguments) -> u8 {
    report(init(locations, arguments), arguments.json)
}

/// Returns the report, for programs and for people.
fn init(locations: &LocationArguments, arguments: &InitArguments) -> Result<(Value, String), Refused> {
    let places = places_of(locations);
    let to = target(&places)?;
    if symlink_metadata(&to).is_ok() && !arguments.force {
        let why = format!(
            "{} is there already and was left as it is: pass --force to replace it, or --config FILE to write another file",
            to.display()
        );
        return Err(Refused(WRONG_USAGE, why));
    }
    let tokio = tokio_runtime::small().map_err(|error| Refused(FAILED, chain(&error)))?;
    let state = state::directory(locations);
    let (found, model) = tokio.block_on(async {
        let spinner = waiting("looking for models");
        let found = Found::look(state.as_deref()).await;
        spinner.finish_and_clear();
        let model = chosen(&found, arguments).await?;
        Ok::<_, Refused>((found, model))
    })?;
    let text = text::config(model.as_deref(), &found.local);
    check(&text, model.as_deref())?;
    let old = if to.exists() { Some(read_text(&to)) } else { None };
    let old = old.transpose().map_err(|error| Refused(FAILED, chain(&error)))?;
    replace_file(&to, old.as_deref(), &text).map_err(|error| Refused(FAILED, chain(&error)))?;
    let option = config_option(&places, &to);
    if option.is_some() && places.named.is_none() {
        note(&format!("warning: commands in this directory use ./{FILE_NAME}, not the file that was written"));
    }
    let done = Done { to: absolute(&to).unwrap_or(to), option: option.unwrap_or_default(), found, model };
    Ok((done.document(), done.told()))
}

/// Where the config goes.
fn target(places: &Candidates) -> Result<PathBuf, Refused> {
    let own = || places.home.as_ref().map(|home| home.join(FILE_NAME));
    let none = || Refused(WRONG_USAGE, "there is no place for a config: set HOME, or name one with --config".into());
    places.named.clone().or_else(own).ok_or_else(none)
}

/// The model that is named, the one that a person chooses, or the first that is found.
async fn chosen(found: &Found, arguments: &InitArguments) -> Result<Option<String>, Refused> {
    if let Some(name) = &arguments.model {
        return usable(found, name).map(Some).map_err(|why| Refused(WRONG_USAGE, why));
    }
    let models = found.models();
    let best = models.first().and_then(|(id, models)| Some(format!("{id}/{}", models.first()?)));
    let has_choice = models.iter().map(|(_, models)| models.len()).sum::<usize>() > 1;
    let may_ask = !arguments.yes && !arguments.json && somebody_is_here();
    match best {
        Some(best) if may_ask && has_choice => ask_which(found, best).await.map(Some),
        None if may_ask && !found.keyed.is_empty() => ask_name(found).await,
        best => Ok(best),
    }
}

/// A name that can be asked for, or why it cannot.
fn usable(found: &Found, name: &str) -> Result<String, String> {
    match found.setup.target(name) {
        Ok(_) if is_plain(name) => Ok(name.to_owned()),
        Ok(_) => Err(format!("`{name}` is not a model: a name has no spaces, quotes or `$`")),
        Err(error) => Err(error.to_string()),
    }
}

async fn ask_which(found: &Found, best: String) -> Result<String, Refused> {
    let models = found.models();
    // Some of each provider: one alone may have hundreds.
    let each = MOST_SHOWN.div_ceil(models.len());
    let shown =
        models.iter().flat_map(|(id, models)| models.iter().take(each).map(move |model| format!("{id}/{model}")));
    let shown: Vec<String> = shown.collect();
    note("Which model should agents use?");
    shown.iter().enumerate().for_each(|(index, name)| note(&format!("  {:>2}  {name}", index + 1)));
    let more = models.iter().map(|(_, models)| models.len()).sum::<usize>() - shown.len();
    if more > 0 {
        note(&format!("  … and {more} more, which you can type as provider/model"));
    }
    loop {
        let answer = answered("A number, or provider/model [1]: ").await?;
        let numbered = answer.parse::<usize>().ok().and_then(|number| shown.get(number.checked_sub(1)?));
        match (answer.as_str(), numbered) {
            ("", _) => return Ok(best),
            (_, Some(name)) => return Ok(name.clone()),
            (name, None) => match usable(found, name) {
                Ok(name) => return Ok(name),
                Err(why) => note(&why),
            },
        }
    }
}

/// A key is set, but no provider has told its models.
async fn ask_name(found: &Found) -> Result<Option<String>, Refused> {
    for keyed in &found.keyed {
        if let Err(why) = &keyed.models {
            note(&format!("{} does not list its models: {why}", keyed.id));
        }
    }
    loop {
        let answer = answered("The model that agents use, as provider/model, or nothing to leave it open: ").await?;
        match usable(found, &answer) {
            _ if answer.is_empty() => return Ok(None),
            Ok(name) => return Ok(Some(name)),
            Err(why) => note(&why),
        }
    }
}

async fn answered(question: &str) -> Result<String, Refused> {
    streamed(question);
    let line = next_line().await.ok_or_else(|| Refused(INTERRUPTED, "nothing was written".into()))?;
    Ok(line.trim().to_owned())
}

/// Reads the text as every command will. A name that means something else there must not be written.
fn check(text: &str, model: Option<&str>) -> Result<(), Refused> {
    let wrong = |why: &str| Refused(FAILED, format!("nothing was written: the config would not be valid: {why}"));
    let parsed = pincer_config::parse(text, &|_| None).map_err(|problems| wrong(&problems.to_string()))?;
    let choice = parsed.config.agent_setting(None, |agent| agent.model.clone());
    let read = choice.as_ref().and_then(|choice| choice.all().next());
    if read == model { Ok(()) } else { Err(wrong("it names another model than the chosen one")) }
}

/// The option that later commands need to find the file, if they would use another one.
fn config_option(places: &Candidates, to: &Path) -> Option<String> {
    let whole = |path: &Path| absolute(path).unwrap_or_else(|_| path.to_owned());
    let named = env::var_os("PINCER_CONFIG").filter(|name| !name.is_empty()).map(PathBuf::from);
    let used = find(&Candidates { named, ..places.clone() });
    let shown = whole(to).display().to_string();
    let quoted = if shown.contains(char::is_whitespace) { format!("'{shown}'") } else { shown };
    (used.as_deref().map(whole) != Some(whole(to))).then(|| format!(" --config {quoted}"))
}

/// What was written, and all there is to say about it.
struct Done {
    to: PathBuf,
    /// The option that later commands need to find the file; empty if they need none.
    option: String,
    found: Found,
    model: Option<String>,
}

impl Done {
    /// The commands to try.
    fn next(&self) -> Vec<String> {
        let mut commands = vec!["doctor"];
        commands.extend((!self.found.clients.is_empty()).then_some("mcp import"));
        if self.model.is_some() {
            commands.extend(["models test", "agent -m \"What can you do?\""]);
        }
        let cli = Cli::command();
        // A build may be without one of them.
        let is_there = |line: &&str| line.split(' ').next().is_some_and(|name| cli.find_subcommand(name).is_some());
        commands.into_iter().filter(is_there).map(|line| format!("pincer {line}{}", self.option)).collect()
    }

    /// What is missing before agents can use a model, and the remedy.
    fn missing(&self) -> Option<String> {
        let again = format!("pincer init --force{}", self.option);
        let Some(model) = &self.model else {
            let idle: Vec<&str> = self.found.local.iter().map(|local| local.id.as_str()).collect();
            return Some(match (self.found.keyed.is_empty(), idle.is_empty()) {
                (true, true) => format!(
                    "No model was found: no key of a provider is set, and no model server answers on this machine. Set \
                     ANTHROPIC_API_KEY (or the key of another provider) or start Ollama, then run `{again}`."
                ),
                (true, false) => format!(
                    "No model was found: {} answers, but lists none that an agent can use. Load one (with Ollama: \
                     `ollama pull NAME`), then run `{again}`.",
                    idle.join(", ")
                ),
                (false, _) => format!(
                    "No model was chosen: no provider has listed one. Name one: `{again} --model PROVIDER/MODEL`."
                ),
            });
        };
        let id = model.split_once('/').map_or(model.as_str(), |(id, _)| id);
        let key = missing_key(id)?;
        Some(format!("The key of {id} is missing: set {key} in the environment."))
    }

    fn document(&self) -> Value {
        let keyed = self.found.keyed.iter().map(|keyed| match &keyed.models {
            Ok(models) => json!({ "provider": keyed.id, "variable": keyed.variable, "models": models }),
            Err(why) => json!({ "provider": keyed.id, "variable": keyed.variable, "error": why }),
        });
        let local = self.found.local.iter();
        let local = local.map(|local| json!({ "provider": local.id, "baseUrl": local.url, "models": local.models }));
        let clients = self.found.clients.iter();
        let clients = clients.map(|(client, servers)| json!({ "client": client.id(), "servers": servers }));
        let mut document = json!({
            "config": self.to, "providers": keyed.collect::<Vec<_>>(), "local": local.collect::<Vec<_>>(),
            "clients": clients.collect::<Vec<_>>(), "next": self.next(),
        });
        if let Some(model) = &self.model {
            document["model"] = model.as_str().into();
        }
        if let Some(missing) = self.missing() {
            document["missing"] = missing.into();
        }
        document
    }

    fn told(&self) -> String {
        let mut lines = Vec::new();
        for keyed in &self.found.keyed {
            let models = match &keyed.models {
                Ok(models) => format!("{} has {}", keyed.id, count(models.len(), "model")),
                Err(why) => format!("the models of {} are not known ({why})", keyed.id),
            };
            lines.push(format!("{} is set: {models}", keyed.variable));
        }
        for local in &self.found.local {
            lines.push(format!("{} answers at {}: it has {}", local.id, local.url, count(local.models.len(), "model")));
        }
        for (client, servers) in &self.found.clients {
            let servers = count(*servers, "MCP server");
            lines.push(format!("{} has {servers}: `pincer mcp import` takes them over", client.title()));
        }
        lines.push(format!("The config was written to {}.", self.to.display()));
        lines.extend(self.model.as_ref().map(|model| format!("Agents use {model}.")));
        lines.extend(self.missing());
        lines.push("\nTry next:".into());
        lines.extend(self.next().iter().map(|command| format!("  {command}")));
        lines.join("\n")
    }
}
