//! The list of skills in the instructions. A session keeps the list that it began with, so that a skill that changes does not change the
//! beginning of its prompt.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use pincer_codemode::{SkillEntry, SkillError, SkillTexts};
use pincer_runtime::{Runtime, Scope};
use pincer_skills::{Place, SKILL_FILE, Skill, Source};
use pincer_store::{Instructions, Session, StoreError};
use pincer_tools::ReadableFolder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Part, PartKind, Reads};
use crate::event::shortened;
use crate::inner::Inner;

/// The tool that reads files.
pub(super) const READ: &str = "openclaw:core:read";
/// The most characters of a description in the list, and the most bytes of the list.
const MOST_DESCRIPTION: usize = 400;
const MOST_BYTES: usize = 48_000;
/// The most bytes of a name in an error.
const MOST_NAME: usize = 80;

/// A skill as a session lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listed {
    pub name: String,
    pub description: String,
    source: String,
    folder: String,
    pub location: String,
}

/// The list of a session as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// A digest of what the config says of skills. When that changes, the list is made anew: the rights of an agent hold at once.
    of: String,
    skills: Vec<Listed>,
}

/// The skills of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunSkills {
    pub listed: Vec<Listed>,
    /// The list, if it is to be stored with the session.
    pub new: Option<Arc<str>>,
}

impl RunSkills {
    /// Returns the skills of a run: as its session lists them, or as they are if it has no list yet.
    pub(crate) async fn of(agent: &Inner, scope: &Scope, session: Option<&Session>) -> Result<Self, StoreError> {
        let settings = agent.runtime.skill_settings(scope);
        let of: String = Sha256::digest(settings.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let known = match session {
            Some(session) => agent.store.listed_skills(&session.id).await?,
            None => None,
        };
        let known = known.and_then(|known| serde_json::from_str::<Stored>(&known).ok()).filter(|known| known.of == of);
        if let Some(known) = known {
            return Ok(Self { listed: known.skills, new: None });
        }
        let (runtime, own) = (Arc::clone(&agent.runtime), scope.clone());
        let found = tokio::task::spawn_blocking(move || runtime.skills(&own)).await;
        let found = found.unwrap_or_else(|error| {
            tracing::error!("the skills could not be looked for: {error}");
            Default::default()
        });
        for problem in &found.problems {
            tracing::info!("{} is no skill: {}", problem.path.display(), problem.message);
        }
        let listed: Vec<Listed> = found.ready.iter().map(listed).collect();
        // A session without any keeps no list: it has the first skill as soon as that is there.
        let new = (!listed.is_empty()).then(|| serde_json::to_string(&Stored { of, skills: listed.clone() }));
        Ok(Self { listed, new: new.and_then(Result::ok).map(Into::into) })
    }

    /// Gives a scope what its skills need: their folders, their variables, their texts.
    pub(crate) fn given_to(&self, runtime: &Arc<Runtime>, scope: Scope) -> Scope {
        let places = self.listed.iter().filter_map(|skill| Some((skill.name.as_str(), Source::parse(&skill.source)?)));
        let environment: BTreeMap<String, String> = runtime.skill_environment(places);
        let elsewhere = self.listed.iter().filter(|skill| skill.source != Source::Workspace.to_string());
        let readable = elsewhere.filter_map(|skill| {
            let place = skill.place(runtime, &scope)?;
            Some(ReadableFolder { root: place.base().to_owned(), folder: Place::folder(&skill.folder) })
        });
        let readable = readable.collect();
        let texts = Texts { runtime: Arc::downgrade(runtime), scope: scope.clone(), listed: self.listed.clone() };
        scope.with_skills(readable, environment, Arc::new(texts))
    }
}

fn listed(skill: &Skill) -> Listed {
    let location = match skill.source {
        // As the tools name files of the workspace.
        Source::Workspace => Place::folder(&skill.folder).join(SKILL_FILE),
        _ => skill.file(),
    };
    Listed {
        name: skill.name.clone(),
        description: shortened(&skill.description, MOST_DESCRIPTION),
        source: skill.source.to_string(),
        folder: skill.folder.clone(),
        location: shown(&location),
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

impl Listed {
    /// Returns the place that the skill is in, as the config says now. A stored list gives no right to any other.
    fn place(&self, runtime: &Runtime, scope: &Scope) -> Option<Place> {
        runtime.skill_place(scope, &Source::parse(&self.source)?)
    }
}

/// Returns the list as a part of the instructions, if there is something to list and a way to read it.
pub(super) fn part(listed: &[Listed], reads: Reads) -> Option<Part> {
    let how = match reads {
        Reads::Nothing => return None,
        Reads::WithTool => "with the tool `read`",
        Reads::InPrograms => "in a program, with `await skills.read(name)`",
    };
    if listed.is_empty() {
        return None;
    }
    let mut text = format!(
        "# Skills\n\nA skill is a folder with instructions for one kind of task. If the description of one fits what you are asked, read \
         its file first ({how}) and follow it. Paths in it are seen from its folder.\n\n<available_skills>\n"
    );
    let mut left_out = 0;
    for skill in listed {
        let (name, description, location) =
            (escaped(&skill.name), escaped(&skill.description), escaped(&skill.location));
        let entry = format!(
            "<skill><name>{name}</name><description>{description}</description><location>{location}</location></skill>\n"
        );
        match text.len() + entry.len() <= MOST_BYTES {
            true => text.push_str(&entry),
            false => left_out += 1,
        }
    }
    text.push_str("</available_skills>");
    if left_out > 0 {
        text.push_str(&format!("\n{left_out} more skills do not fit in this list."));
    }
    Some(Part::new(PartKind::Skills, text))
}

/// Returns a text that no reader of XML takes for a tag.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

/// The skills of a run for its programs.
struct Texts {
    /// A program that goes on must not keep the runtime that it runs in.
    runtime: Weak<Runtime>,
    scope: Scope,
    listed: Vec<Listed>,
}

impl SkillTexts for Texts {
    fn list(&self) -> Vec<SkillEntry> {
        let entry = |skill: &Listed| SkillEntry {
            name: skill.name.clone(),
            description: skill.description.clone(),
            location: skill.location.clone(),
        };
        self.listed.iter().map(entry).collect()
    }

    fn read(&self, name: &str) -> Result<String, SkillError> {
        let owned = || shortened(name, MOST_NAME);
        let skill = self.listed.iter().find(|skill| skill.name == name);
        let skill = skill.ok_or_else(|| SkillError::Unknown { name: owned() })?;
        let place = self.runtime.upgrade().and_then(|runtime| skill.place(&runtime, &self.scope));
        let text = place.map(|place| place.text(&skill.folder)).transpose();
        match text {
            Ok(text) => text.flatten().ok_or_else(|| SkillError::Gone { name: owned() }),
            Err(error) => Err(SkillError::Unreadable { name: owned(), source: error.into() }),
        }
    }
}
