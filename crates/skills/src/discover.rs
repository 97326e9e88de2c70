//! Finds skills in their places.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::front_matter::FrontMatter;
use crate::place::{Place, SKILL_FILE, Source};

/// The most folders of a place that are looked at.
const MOST_FOLDERS: usize = 1000;
/// The beginning of a file that is looked at: front matter is no longer.
const HEAD_BYTES: u64 = 64 << 10;
/// The most characters of a name, and of a description.
const MOST_NAME: usize = 64;
const MOST_DESCRIPTION: usize = 1024;

/// A skill.
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    /// Its name: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Its purpose, on one line.
    pub description: String,
    /// The kind of place that it is from.
    pub source: Source,
    /// The directory of the place.
    pub base: PathBuf,
    /// The name of its folder there.
    pub folder: String,
    /// The front matter of its file.
    pub front_matter: FrontMatter,
}

impl Skill {
    /// Returns the path of its file.
    pub fn file(&self) -> PathBuf {
        self.base.join(Place::folder(&self.folder)).join(SKILL_FILE)
    }
}

/// A folder that is no skill, although it is where skills are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The folder, or its file.
    pub path: PathBuf,
    /// The error, and its remedy.
    pub message: String,
}

/// A skill of which another place has one of the same name, which counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Shadowed {
    /// The skill that does not count.
    pub skill: Skill,
    /// The file of the one that does.
    pub by: PathBuf,
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The skills, by name.
    pub skills: Vec<Skill>,
    /// The ones that another one of the same name outweighs.
    pub shadowed: Vec<Shadowed>,
    /// The folders that are no skills, with their errors.
    pub problems: Vec<Problem>,
}

/// Looks through places, those that count more first.
pub fn discover(places: &[Place]) -> Found {
    let mut found = Found::default();
    // Names that differ in case only would be one folder on some systems, and one word to a person.
    let mut names: HashMap<String, PathBuf> = HashMap::new();
    for place in places {
        let at = || place.base().join(Place::folder(""));
        let folders = match place.folders(MOST_FOLDERS) {
            Ok((folders, false)) => folders,
            Ok((folders, true)) => {
                let message = format!("only {MOST_FOLDERS} of its folders are looked at: remove some");
                found.problems.push(Problem { path: at(), message });
                folders
            }
            Err(error) => {
                found.problems.push(Problem { path: at(), message: format!("it cannot be read: {error}") });
                continue;
            }
        };
        for folder in folders {
            match skill(place, &folder) {
                Ok(Some(skill)) => match names.get(&skill.name.to_lowercase()) {
                    Some(by) => found.shadowed.push(Shadowed { by: by.clone(), skill }),
                    None => {
                        names.insert(skill.name.to_lowercase(), skill.file());
                        found.skills.push(skill);
                    }
                },
                Ok(None) => {}
                Err(message) => {
                    let path = place.base().join(Place::folder(&folder));
                    found.problems.push(Problem { path, message });
                }
            }
        }
    }
    found.skills.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// Reads the skill in a folder. `None` if the folder has no file of that kind.
fn skill(place: &Place, folder: &str) -> Result<Option<Skill>, String> {
    let Some((bytes, _)) = place.read(folder, HEAD_BYTES).map_err(|error| error.to_string())? else { return Ok(None) };
    let front_matter = FrontMatter::parse(&bytes).map_err(|error| format!("{SKILL_FILE}: {error}"))?;
    let name = front_matter.name.clone().unwrap_or_else(|| folder.to_owned());
    if !is_name(&name) {
        let shown: String = name.chars().take(MOST_NAME).flat_map(char::escape_default).collect();
        return Err(format!(
            "{SKILL_FILE}: `{shown}` cannot be a name: it has letters, digits, `-`, `_` and `.`, begins with a letter or digit, and has at \
             most {MOST_NAME} characters"
        ));
    }
    let description = one_line(front_matter.description.as_deref().unwrap_or_default());
    if description.is_empty() {
        return Err(format!("{SKILL_FILE}: there is no `description`, so no model could know when to read it"));
    }
    let (source, base) = (place.source().clone(), place.base().to_owned());
    Ok(Some(Skill { name, description, source, base, folder: folder.to_owned(), front_matter }))
}

fn is_name(name: &str) -> bool {
    let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    letters && name.len() <= MOST_NAME && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

/// Returns a text on one line, without characters that no reader sees, and not too long.
fn one_line(text: &str) -> String {
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut plain: String = plain.chars().filter(|c| !c.is_control()).collect();
    if let Some((at, _)) = plain.char_indices().nth(MOST_DESCRIPTION) {
        plain.truncate(at);
        plain.push('…');
    }
    plain
}
