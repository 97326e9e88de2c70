//! The meaning of a staged tree: where its manifest stands, and its name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pincer_plugins::{LoadError, Manifest, load};
use pincer_tools::one_line;

use crate::InstallError;
use crate::digest::Tree;
use crate::refusal::{Refusal, shown};
use crate::scan::skill::SkillManifest;
use crate::source::Source;
use crate::target::{Kind, is_target_name};

/// The most problems of a manifest that an error names.
const MOST_PROBLEMS: usize = 10;

/// The manifest of a tree.
#[derive(Clone, Debug)]
pub enum About {
    /// A plugin.
    Plugin(Box<Manifest>),
    /// A skill.
    Skill(SkillManifest),
}

/// A tree with its manifest at the top.
#[derive(Debug)]
pub(crate) struct Contents {
    pub id: String,
    pub about: About,
    /// The folder in the stage.
    pub folder: PathBuf,
    /// Its files, without the single folder that held everything.
    pub tree: Tree,
}

impl Contents {
    pub(crate) fn new(kind: Kind, source: &Source, stage: &Path, tree: Tree) -> Result<Self, InstallError> {
        let refused = |refusal| InstallError::Refused { path: source.path.clone(), refusal };
        let top = top(kind, &tree).map_err(refused)?;
        let (folder, tree) = match &top {
            None => (stage.to_owned(), tree),
            Some(top) => (stage.join(top), below(top, tree)),
        };
        let (id, about) = match kind {
            Kind::Plugin => {
                let manifest = load(&folder).map_err(|error| unloaded(error, &folder))?.manifest;
                (manifest.id.clone(), About::Plugin(Box::new(manifest)))
            }
            Kind::Skill => {
                let file = folder.join(kind.manifest());
                let text = fs::read(&file).map_err(InstallError::read(&file))?;
                let skill = SkillManifest::read(&text);
                let name = skill.name.clone().unwrap_or_else(|| top.as_deref().unwrap_or(source.stem()).to_owned());
                (name, About::Skill(skill))
            }
        };
        match is_target_name(&id) {
            true => Ok(Self { id, about, folder, tree }),
            false => Err(refused(Refusal::SkillName(shown(&id)))),
        }
    }
}

fn unloaded(error: LoadError, folder: &Path) -> InstallError {
    match error {
        LoadError::Wrong { problems, .. } => InstallError::Manifest {
            file: Kind::Plugin.manifest(),
            problems: problems
                .0
                .iter()
                .take(MOST_PROBLEMS)
                .map(|problem| one_line(&problem.to_string(), 300))
                .collect(),
        },
        LoadError::Read { source, .. } => InstallError::read(folder)(source),
        other => InstallError::read(folder)(std::io::Error::other(other)),
    }
}

/// Returns the single folder that holds everything, or `None` if the manifest stands at the top.
fn top(kind: Kind, tree: &Tree) -> Result<Option<String>, Refusal> {
    let name = kind.manifest();
    let mut manifests = tree.keys().filter(|path| path.rsplit('/').next() == Some(name));
    let first = manifests.next().ok_or(Refusal::NoManifest(name))?;
    if let Some(second) = manifests.next() {
        return Err(Refusal::TwoManifests { first: shown(first), second: shown(second) });
    }
    let Some((top, rest)) = first.split_once('/') else { return Ok(None) };
    let holds_everything = tree.keys().all(|path| path.split_once('/').is_some_and(|(folder, _)| folder == top));
    match !rest.contains('/') && holds_everything {
        true => Ok(Some(top.to_owned())),
        false => Err(Refusal::ManifestTooDeep(shown(first))),
    }
}

fn below(top: &str, tree: Tree) -> Tree {
    let within = |path: String| path.strip_prefix(top)?.strip_prefix('/').map(str::to_owned);
    tree.into_iter().filter_map(|(path, file)| Some((within(path)?, file))).collect::<BTreeMap<_, _>>()
}
