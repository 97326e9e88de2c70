//! The skills of a caller: those that are there, that the config leaves, and whose requirements are met.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pincer_config::Config;
use pincer_config::keys::SkillEntry;
use pincer_install::read_installed;
use pincer_process::clean_environment;
use pincer_skills::{Found, Missing, Place, Problem, Shadowed, Skill, Source, Surroundings, discover};
use serde_json::Value;

use crate::runtime::Runtime;
use crate::scope::Scope;

/// The skills of a caller.
#[derive(Clone, Debug, Default)]
pub struct ScopeSkills {
    /// The ones that its models are told of, by name.
    pub ready: Vec<Skill>,
    /// The others, and why.
    pub left_out: Vec<(Skill, Vec<LeftOut>)>,
    /// Skills that another one of the same name outweighs.
    pub shadowed: Vec<Shadowed>,
    /// Folders that are no skills although they lie among them.
    pub problems: Vec<Problem>,
    /// Skills that lie in a workspace, and so do not have the variables that the config sets for their names.
    pub withheld: Vec<Skill>,
    /// Names in the config of which there is no skill, with the key that has them.
    pub unknown: Vec<(String, String)>,
}

/// The reason for leaving a skill out of a model's list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    /// The config turns it off, with this key.
    #[error("it is turned off: `skills.entries.{0}.enabled` is false")]
    TurnedOff(String),
    /// The agent has other skills.
    #[error("it is not among the skills of this agent: add it to `{0}`")]
    NotOfAgent(String),
    /// Its file says that only people choose it.
    #[error("it says `disable-model-invocation: true`")]
    ForPeople,
    /// Something that it needs is not there.
    #[error(transparent)]
    Missing(Missing),
}

impl Runtime {
    /// Looks for the skills of a scope. It reads files: not for a thread that must not block.
    pub fn skills(&self, scope: &Scope) -> ScopeSkills {
        // Between two steps of an update a skill is not in its place.
        let _reading = read_installed(self.state()).inspect_err(|error| {
            tracing::warn!("installed skills are read while they may be changing: {error}");
        });
        let Found { skills, shadowed, problems } = discover(&self.skill_places(scope));
        let config = self.config();
        let (limit, key) = skill_limit(config, scope);
        let (path, values) = (search_path(config), serde_json::to_value(config).unwrap_or_default());
        let variables = set_variables(config);
        let mut found = ScopeSkills { shadowed, problems, ..ScopeSkills::default() };
        let named = limit.iter().flat_map(|names| names.iter().map(|name| (key.clone(), name)));
        let with_entry = config.skills.entries.keys().map(|name| ("skills.entries".to_owned(), name));
        let unknown = named.chain(with_entry).filter(|(_, name)| !skills.iter().any(|skill| skill.name == **name));
        found.unknown = unknown.map(|(key, name)| (key, name.clone())).collect();
        for skill in skills {
            let entry = config.skills.entries.get(&skill.name);
            let mut reasons = Vec::new();
            if entry.is_some_and(|entry| !entry.enabled) {
                reasons.push(LeftOut::TurnedOff(skill.name.clone()));
            }
            if limit.as_ref().is_some_and(|names| !names.contains(&skill.name)) {
                reasons.push(LeftOut::NotOfAgent(key.clone()));
            }
            if skill.front_matter.is_for_people {
                reasons.push(LeftOut::ForPeople);
            }
            let has_variables = entry.is_some_and(|entry| has_variables(entry, &skill.source));
            if !has_variables && entry.is_some_and(|entry| !entry.env.is_empty()) {
                found.withheld.push(skill.clone());
            }
            let given = |name: &str| {
                has_variables && entry.is_some_and(|entry| entry.env.get(name).is_some_and(|value| !value.is_empty()))
            };
            let here = Surroundings {
                path: path.clone(),
                has_variable: &|name| given(name) || variables.contains(name),
                has_setting: &|key| is_on(&values, key),
            };
            reasons.extend(skill.front_matter.requirements.missing(&here).into_iter().map(LeftOut::Missing));
            match reasons.is_empty() {
                true => found.ready.push(skill),
                false => found.left_out.push((skill, reasons)),
            }
        }
        found
    }

    /// Returns the places in which a scope's skills are, those that count more first.
    fn skill_places(&self, scope: &Scope) -> Vec<Place> {
        let plugins = self.skill_folders().iter().map(|(id, _)| Source::Plugin(id.clone()));
        let sources = [Source::Workspace, Source::Agent, Source::State].into_iter().chain(plugins);
        sources.filter_map(|source| self.skill_place(scope, &source)).collect()
    }

    /// Returns a place of a scope's skills, if it is there.
    pub fn skill_place(&self, scope: &Scope, source: &Source) -> Option<Place> {
        let of_workspace = |choice| {
            // The directory of a sandboxed session is not made for this.
            let workspace = self.workspaces()?.existing(choice).ok()??;
            Some(Place::of(source.clone(), workspace.root(), workspace.handle().ok()?))
        };
        match source {
            Source::Workspace => of_workspace(&scope.site().workspace),
            Source::Agent => of_workspace(scope.agent_workspace()?),
            Source::State => open(source, self.state()),
            Source::Plugin(id) => {
                let (_, folder) = self.skill_folders().iter().find(|(plugin, _)| plugin == id)?;
                open(source, folder)
            }
        }
    }

    /// Returns the variables that commands get in a run with these skills, each with the place that it is in. Of two skills that set the
    /// same one, the first counts.
    pub fn skill_environment<'n>(
        &self,
        skills: impl IntoIterator<Item = (&'n str, Source)>,
    ) -> BTreeMap<String, String> {
        let mut environment = BTreeMap::new();
        let entries = skills.into_iter().filter_map(|(name, source)| {
            let entry = self.config().skills.entries.get(name)?;
            has_variables(entry, &source).then_some(entry)
        });
        for (name, value) in entries.filter(|entry| entry.enabled).flat_map(|entry| &entry.env) {
            environment.entry(name.clone()).or_insert_with(|| value.clone());
        }
        environment
    }

    /// Returns a text that changes when the config says something else about which skills a scope has.
    pub fn skill_settings(&self, scope: &Scope) -> String {
        let (limit, _) = skill_limit(self.config(), scope);
        let entries = self.config().skills.entries.iter();
        let entries: Vec<(&String, bool, bool, BTreeSet<&String>)> = entries
            .map(|(name, entry)| (name, entry.enabled, entry.from_workspace, entry.env.keys().collect()))
            .collect();
        let workspaces = (scope.site().workspace.path(), scope.agent_workspace().and_then(|choice| choice.path()));
        serde_json::json!([limit, entries, workspaces.0, workspaces.1]).to_string()
    }
}

/// Returns whether a skill in this place has the variables of its name. In a workspace every agent that can write there can make a skill of
/// any name.
fn has_variables(entry: &SkillEntry, source: &Source) -> bool {
    match source {
        Source::State | Source::Plugin(_) => true,
        Source::Workspace | Source::Agent => entry.from_workspace,
    }
}

/// Opens a place by its whole path, so that the paths of its skills mean the same from everywhere.
fn open(source: &Source, base: &Path) -> Option<Place> {
    Place::open(source.clone(), &base.canonicalize().ok()?).ok()
}

/// Returns the names of the skills that the agent of a scope has, if not all, and the key that says so.
fn skill_limit(config: &Config, scope: &Scope) -> (Option<Vec<String>>, String) {
    let agent = scope.request().agent.as_deref();
    let own = agent.filter(|id| config.agent(id).is_some_and(|agent| agent.skills.is_some()));
    let key = format!("agents.{}.skills", own.unwrap_or(Config::DEFAULTS));
    (config.agent_setting(agent, |agent| agent.skills.clone()), key)
}

/// Returns the directories in which commands of agents find programs.
fn search_path(config: &Config) -> Vec<PathBuf> {
    let path = config.tools.exec.env.get("PATH").cloned().or_else(|| std::env::var("PATH").ok()).unwrap_or_default();
    std::env::split_paths(&path).filter(|directory| directory.is_absolute()).collect()
}

/// Returns the names of the variables that commands of all agents have. Of Pincer's own, the ones that look like secrets are not passed on.
fn set_variables(config: &Config) -> BTreeSet<String> {
    let exec = &config.tools.exec;
    let own = clean_environment(&exec.pass_env).into_iter();
    let set = own.chain(exec.env.clone()).filter(|(_, value)| !value.is_empty());
    set.map(|(name, _)| name).collect()
}

/// Returns whether a key of the config, with dots between its parts, is set and not `false`.
fn is_on(config: &Value, key: &str) -> bool {
    let found = key.split('.').try_fold(config, |value, part| value.get(part));
    match found {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(Value::Object(members)) => !members.is_empty(),
        Some(Value::Bool(true) | Value::Number(_)) => true,
    }
}
