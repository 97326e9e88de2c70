//! `pincer models`: which language models there are, and whether one answers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use pincer_model::{Event, Message, ModelError, Plan, Provider, Reply, Request};
use pincer_runtime::{ModelSetup, ModelSetupError};
use serde_json::{Value, json};

use crate::print::{harmless, line, note, time};
use crate::refused::{Refused, report};
use crate::usage::{LocationArguments, ModelsArguments, ModelsCommand};
use crate::{DONE, FAILED, WRONG_USAGE, settings, state, tokio_runtime};

/// The most tokens of a test's reply.
const TEST_TOKENS: u32 = 64;

impl From<ModelSetupError> for Refused {
    fn from(error: ModelSetupError) -> Self {
        Self(WRONG_USAGE, error.to_string())
    }
}

pub(crate) fn run(locations: &LocationArguments, arguments: &ModelsArguments) -> u8 {
    let loaded = match settings::told(settings::read(locations)) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let setup = ModelSetup::new(&loaded, state::directory(locations).as_deref());
    let tokio = match tokio_runtime::small() {
        Ok(tokio) => tokio,
        Err(error) => return report(Err(Refused(FAILED, error.to_string())), arguments.json),
    };
    match &arguments.command {
        ModelsCommand::List { offline } => report(tokio.block_on(list(&setup, *offline)), arguments.json),
        ModelsCommand::Test { name } => match tokio.block_on(test(&setup, name.as_deref(), arguments.json)) {
            Ok(code) => code,
            Err(refused) => report(Err(refused), arguments.json),
        },
    }
}

/// One provider, and what it says of its models.
struct Asked {
    provider: Arc<Provider>,
    listed: Option<Result<Vec<String>, ModelError>>,
}

async fn list(setup: &ModelSetup, offline: bool) -> Result<(Value, String), Refused> {
    let names = setup.names(None);
    let mut ids = setup.providers();
    // A well-known provider whose key is missing is listed if an agent asks it.
    for id in names.iter().filter_map(|name| Some(name.split_once('/')?.0)) {
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    let (mut providers, mut wrong) = (Vec::new(), Vec::new());
    for id in &ids {
        match setup.provider(id) {
            Ok(provider) => providers.push(provider),
            Err(error) => wrong.push((id.clone(), error.to_string())),
        }
    }
    let asked = join_all(providers.into_iter().map(|provider| async move {
        let listed = if offline { None } else { Some(setup.models().list(&provider).await) };
        Asked { provider, listed }
    }));
    let asked = asked.await;
    let documents = asked.iter().map(|asked| document(asked, &names));
    let unusable = wrong.iter().map(|(id, error)| json!({ "provider": id, "error": error }));
    let document = json!({ "default": names, "providers": documents.chain(unusable).collect::<Vec<_>>() });
    let mut text: Vec<String> = asked.iter().flat_map(|asked| rows(asked, &names)).collect();
    text.extend(wrong.iter().map(|(_, error)| format!("error: {error}")));
    if text.is_empty() {
        text.push(ModelSetupError::NoModel.to_string());
    }
    Ok((document, text.join("\n")))
}

/// The ids of a provider's models: those of the config, those that an agent asks, and those that the provider has.
fn ids(asked: &Asked, names: &[String]) -> Vec<String> {
    let own = asked.provider.models.iter().map(|model| model.id.clone());
    let prefix = format!("{}/", asked.provider.id);
    let wanted = names.iter().filter_map(|name| name.strip_prefix(&prefix)).map(str::to_owned);
    let listed = asked.listed.iter().filter_map(|listed| listed.as_ref().ok()).flatten().cloned();
    let mut seen = BTreeSet::new();
    own.chain(wanted).chain(listed).filter(|id| seen.insert(id.clone())).collect()
}

/// Whether the provider has a model, as far as it says.
fn has(asked: &Asked, id: &str) -> Option<bool> {
    asked.listed.as_ref()?.as_ref().ok().map(|listed| listed.iter().any(|known| known == id))
}

fn document(asked: &Asked, names: &[String]) -> Value {
    let provider = &asked.provider;
    let model = |id: String| {
        let known = provider.models.iter().find(|model| model.id == id);
        json!({
            "id": id,
            "configured": known.is_some(),
            "listed": has(asked, &id),
            "contextWindow": known.and_then(|model| model.context_window),
            "maxTokens": known.and_then(|model| model.max_tokens),
        })
    };
    let error = asked.listed.as_ref().and_then(|listed| listed.as_ref().err());
    json!({
        "provider": provider.id,
        "api": provider.api.name(),
        "local": provider.is_local(),
        "models": ids(asked, names).into_iter().map(model).collect::<Vec<_>>(),
        "error": error.map(|error| json!({ "kind": error.kind.name(), "message": error.message })),
    })
}

fn rows(asked: &Asked, names: &[String]) -> Vec<String> {
    let provider = &asked.provider;
    let mut rows = vec![format!("{} ({})", provider.id, provider.api.name())];
    for id in ids(asked, names) {
        let name = format!("{}/{id}", provider.id);
        let place = names.iter().position(|known| *known == name);
        let mut remarks: Vec<String> = Vec::new();
        match place {
            Some(0) => remarks.push("asked first".to_owned()),
            Some(place) => remarks.push(format!("fallback {place}")),
            None => {}
        }
        if has(asked, &id) == Some(false) {
            remarks.push("not in the provider's list".to_owned());
        }
        let remarks = if remarks.is_empty() { String::new() } else { format!("  ({})", remarks.join("; ")) };
        // A provider could drive the terminal with the name of a model.
        rows.push(format!("  {}{remarks}", harmless(&name)));
    }
    if let Some(Err(error)) = &asked.listed {
        rows.push(format!("  its list cannot be had: {}: {}", harmless(&error.message), error.kind.remedy()));
    }
    rows
}

/// A step of a test, and the time it took.
struct Step(&'static str, Duration, String);

async fn test(setup: &ModelSetup, name: Option<&str>, json: bool) -> Result<u8, Refused> {
    let begun = Instant::now();
    let target = match name {
        Some(name) => setup.target(name)?,
        None => setup.plan(None)?.targets.remove(0),
    };
    let mut steps = vec![Step("settings", begun.elapsed(), format!("{target}, {}", target.provider.api.name()))];
    let mut told = 0;
    let show = |steps: &[Step], told: &mut usize| {
        for Step(name, took, what) in steps.iter().skip(*told).filter(|_| !json) {
            line(&format!("{name:<10} {:>9}  {}", time(*took), harmless(what)));
        }
        *told = steps.len();
    };
    show(&steps, &mut told);
    let outcome = asked(setup, Plan { attempts: 1, ..Plan::new(target.clone()) }, |step| {
        steps.push(step);
        show(&steps, &mut told);
    })
    .await;
    if json {
        let shown = steps.iter().map(|Step(name, took, _)| json!({ "step": name, "ms": took.as_secs_f64() * 1000.0 }));
        let steps: Vec<Value> = shown.collect();
        let document = match &outcome {
            Ok(reply) => json!({ "model": target.to_string(), "ok": true, "steps": steps, "text": reply.message.text(),
                "usage": reply.usage, "stop": reply.stop }),
            Err(error) => json!({ "model": target.to_string(), "ok": false, "steps": steps,
                "error": { "kind": error.kind.name(), "message": error.message, "remedy": error.kind.remedy() } }),
        };
        line(&document.to_string());
    }
    match outcome {
        Ok(_) => Ok(DONE),
        Err(error) => {
            if !json {
                note(&format!(
                    "error: {}: {}: {}",
                    error.kind.name(),
                    harmless(&error.to_string()),
                    error.kind.remedy()
                ));
            }
            Ok(FAILED)
        }
    }
}

/// Sends one tiny request.
async fn asked(setup: &ModelSetup, plan: Plan, mut step: impl FnMut(Step)) -> Result<Reply, ModelError> {
    let begun = Instant::now();
    let target = plan.targets[0].clone();
    let named = |mut error: ModelError| {
        error.target = target.to_string();
        error
    };
    let profile = setup.models().key(&target.provider).await.map_err(named)?;
    step(Step("key", begun.elapsed(), format!("profile {profile}")));
    let request = Request {
        messages: vec![Message::user("Reply with the word OK and nothing else.")],
        max_tokens: Some(TEST_TOKENS),
        ..Request::default()
    };
    let mut since = Instant::now();
    let mut has_said = false;
    let mut reply = setup.models().ask(plan, request);
    while let Some(event) = reply.next().await {
        match event? {
            Event::Began { model, .. } => {
                step(Step("answer", since.elapsed(), model.unwrap_or_default()));
                since = Instant::now();
            }
            Event::Text(_) | Event::Thinking(_) | Event::Refusal(_) if !has_said => {
                has_said = true;
                step(Step("first word", since.elapsed(), String::new()));
                since = Instant::now();
            }
            Event::Done(reply) => {
                let tokens = format!("{} tokens in, {} out", reply.usage.prompt(), reply.usage.output);
                step(Step("complete", since.elapsed(), tokens));
                return Ok(*reply);
            }
            _ => {}
        }
    }
    Err(ModelError::new(pincer_model::ErrorKind::CutOff, "the reply has no end"))
}
