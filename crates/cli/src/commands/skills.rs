//! `pincer skills`: which skills an agent has, why it has others not, and what one says.

use pincer_catalog::nearest;
use pincer_install::Kind;
use pincer_runtime::{
    Audience, EngineStart, LeftOut, Principal, Runtime, RuntimeOptions, Scope, ScopeRequest, ScopeSkills,
};
use pincer_skills::{Skill, Source};
use serde_json::{Value, json};

use crate::commands::installs::{self, Change};
use crate::opened::{for_tools, told};
use crate::print::{chain, harmless, line, note};
use crate::usage::LocationArguments;
use crate::usage_skills::{SkillsArguments, SkillsCommand};
use crate::{DONE, FAILED, tokio_runtime};

/// The most characters of a description in a row.
const MOST_SHOWN: usize = 100;

pub(crate) fn run(locations: &LocationArguments, arguments: &SkillsArguments) -> u8 {
    let change = match &arguments.command {
        SkillsCommand::Install(install) => Some(Change::Install(install)),
        SkillsCommand::Update(update) => Some(Change::Update(update)),
        SkillsCommand::Remove(remove) => Some(Change::Remove(remove)),
        SkillsCommand::List | SkillsCommand::Check | SkillsCommand::Show { .. } => None,
    };
    if let Some(change) = change {
        return installs::run(locations, Kind::Skill, &change, arguments.json);
    }
    let tokio = match tokio_runtime::small() {
        Ok(tokio) => tokio,
        Err(error) => {
            note(&format!("error: {}", chain(&error)));
            return FAILED;
        }
    };
    tokio.block_on(async { look(locations, arguments) }).unwrap_or_else(|code| code)
}

fn look(locations: &LocationArguments, arguments: &SkillsArguments) -> Result<u8, u8> {
    let runtime = for_tools(locations, |options| RuntimeOptions { engine: EngineStart::WhenNeeded, ..options })?;
    let request = ScopeRequest {
        agent: arguments.agent.clone(),
        audience: Audience::AgentRun,
        ..ScopeRequest::new(Principal::of_this_process(), arguments.session.as_str())
    };
    if let Some(id) = arguments.agent.as_deref().filter(|id| *id != "main" && runtime.config().agent(id).is_none()) {
        note(&format!("error: there is no agent {id:?} in the config"));
        return Err(crate::WRONG_USAGE);
    }
    let scope = runtime.scope(&request).map_err(|error| told(&error))?;
    let skills = runtime.skills(&scope);
    match &arguments.command {
        SkillsCommand::List => list(&skills, arguments.json),
        SkillsCommand::Check => return Ok(check(&skills, arguments.json)),
        // Done before.
        SkillsCommand::Install(_) | SkillsCommand::Update(_) | SkillsCommand::Remove(_) => {}
        SkillsCommand::Show { name } => return show(&runtime, &scope, &skills, name, arguments.json),
    }
    Ok(DONE)
}

/// Returns all skills, with the reasons why models are not told of them.
fn all(skills: &ScopeSkills) -> Vec<(&Skill, &[LeftOut])> {
    let ready = skills.ready.iter().map(|skill| (skill, [].as_slice()));
    let left_out = skills.left_out.iter().map(|(skill, reasons)| (skill, reasons.as_slice()));
    let mut all: Vec<_> = ready.chain(left_out).collect();
    all.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
    all
}

fn document(skill: &Skill, reasons: &[LeftOut]) -> Value {
    let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    json!({
        "name": skill.name,
        "description": skill.description,
        "source": skill.source.to_string(),
        "location": skill.file(),
        "ready": reasons.is_empty(),
        "reasons": reasons,
    })
}

fn list(skills: &ScopeSkills, json: bool) {
    if json {
        let all: Vec<Value> = all(skills).into_iter().map(|(skill, reasons)| document(skill, reasons)).collect();
        line(&Value::from(all).to_string());
        return;
    }
    for skill in &skills.ready {
        let description: String = skill.description.chars().take(MOST_SHOWN).collect();
        line(&format!("{:<24} {:<18} {}", skill.name, skill.source.to_string(), harmless(&description)));
    }
    if skills.ready.is_empty() {
        line(
            "there are no skills: put a folder with a SKILL.md into `skills` of the workspace or of the state directory",
        );
    }
    let others = skills.left_out.len() + skills.problems.len();
    if others > 0 {
        note(&format!("{others} more that models are not told of: pincer skills check says why"));
    }
}

/// Returns whether a person has left a skill out, and knows it.
fn is_meant(reason: &LeftOut) -> bool {
    matches!(reason, LeftOut::TurnedOff(_) | LeftOut::NotOfAgent(_) | LeftOut::ForPeople)
}

fn check(skills: &ScopeSkills, json: bool) -> u8 {
    let is_wrong = |reasons: &[LeftOut]| !reasons.iter().any(is_meant);
    let unmet = skills.left_out.iter().filter(|(_, reasons)| is_wrong(reasons)).count();
    let is_fine = unmet == 0 && skills.problems.is_empty() && skills.unknown.is_empty() && skills.withheld.is_empty();
    if json {
        let shadowed = skills.shadowed.iter().map(
            |shadowed| json!({ "name": shadowed.skill.name, "location": shadowed.skill.file(), "by": shadowed.by }),
        );
        let problems = skills.problems.iter();
        let problems = problems.map(|problem| json!({ "path": problem.path, "message": problem.message }));
        let unknown = skills.unknown.iter().map(|(key, name)| json!({ "key": key, "name": name }));
        let withheld = skills.withheld.iter();
        let withheld = withheld.map(|skill| json!({ "name": skill.name, "location": skill.file() }));
        let withheld: Vec<Value> = withheld.collect();
        let skills: Vec<Value> = all(skills).into_iter().map(|(skill, reasons)| document(skill, reasons)).collect();
        let document = json!({
            "ok": is_fine,
            "skills": skills,
            "shadowed": shadowed.collect::<Vec<_>>(),
            "problems": problems.collect::<Vec<_>>(),
            "unknown": unknown.collect::<Vec<_>>(),
            "withheld": withheld,
        });
        line(&document.to_string());
        return if is_fine { DONE } else { FAILED };
    }
    for (skill, reasons) in all(skills) {
        match reasons {
            [] => line(&format!("{:<24} ready", skill.name)),
            reasons => reasons
                .iter()
                .for_each(|reason| line(&format!("{:<24} left out: {}", skill.name, harmless(&reason.to_string())))),
        }
    }
    for shadowed in &skills.shadowed {
        let (own, by) = (shadowed.skill.file(), &shadowed.by);
        line(&format!("{:<24} {} does not count: {} has the name", shadowed.skill.name, own.display(), by.display()));
    }
    for problem in &skills.problems {
        line(&harmless(&format!("{} is no skill: {}", problem.path.display(), problem.message)));
    }
    for skill in &skills.withheld {
        line(&harmless(&format!(
            "{:<24} has no variables: {} lies in a workspace, where agents write. Install it with pincer skills install, or set \
             skills.entries.{}.fromWorkspace",
            skill.name,
            skill.file().display(),
            skill.name
        )));
    }
    for (key, name) in &skills.unknown {
        line(&harmless(&format!("{key}: there is no skill `{name}`")));
    }
    if all(skills).is_empty() && skills.problems.is_empty() {
        line("there are no skills");
    }
    if is_fine { DONE } else { FAILED }
}

fn show(runtime: &Runtime, scope: &Scope, skills: &ScopeSkills, name: &str, json: bool) -> Result<u8, u8> {
    let all = all(skills);
    let Some((skill, reasons)) = all.iter().find(|(skill, _)| skill.name == name) else {
        let names = all.iter().map(|(skill, _)| (skill.name.clone(), skill.name.clone()));
        let near = nearest(name, names, 1).pop().map(|near| format!(": did you mean {near}?")).unwrap_or_default();
        note(&format!("error: there is no skill {}{near}; `pincer skills list` shows them", harmless(name)));
        return Err(FAILED);
    };
    let place = runtime.skill_place(scope, &skill.source);
    let text = place.map(|place| place.text(&skill.folder)).transpose().map_err(|error| {
        note(&format!("error: {}: {error}", skill.file().display()));
        FAILED
    })?;
    let text = text.flatten().unwrap_or_default();
    if json {
        let mut document = document(skill, reasons);
        document["license"] = json!(skill.front_matter.license);
        document["allowedTools"] = json!(skill.front_matter.allowed_tools);
        document["text"] = json!(text);
        line(&document.to_string());
        return Ok(DONE);
    }
    let from = if skill.source == Source::Workspace { "the workspace".to_owned() } else { skill.source.to_string() };
    note(&format!("{} ({from})", skill.file().display()));
    for reason in *reasons {
        note(&format!("models are not told of it: {}", harmless(&reason.to_string())));
    }
    line(&text.lines().map(harmless).collect::<Vec<_>>().join("\n"));
    Ok(DONE)
}
