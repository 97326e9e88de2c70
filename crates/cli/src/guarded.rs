//! What programs must not change with file tools, although it lies in the workspace: what decides what Pincer does, now and at the next
//! start.

use std::path::{Path, PathBuf};

use pincer_config::Loaded;
use pincer_plugins::Found;
use pincer_process::holds;

use crate::assembly::{plugin_paths, started_words};
use crate::places::place;
use crate::state::directory;

/// Returns all of it.
pub(crate) fn guarded(loaded: &Loaded, workspace: &Path, state: Option<&Path>, plugins: &[Found]) -> Vec<PathBuf> {
    let mut guarded: Vec<PathBuf> = loaded.file.iter().cloned().collect();
    // The next start may find these, also if they are not there yet.
    let home = place("XDG_CONFIG_HOME", ".config").unwrap_or_default();
    let homes = [PathBuf::new(), workspace.to_owned(), home];
    guarded.extend(homes.map(|home| home.join(pincer_config::FILE_NAME)));
    let folders = plugin_paths(loaded).into_iter().chain(directory(None));
    guarded.extend(folders.filter(|folder| !holds(folder, workspace)));
    guarded.extend(state.map(Path::to_owned));
    guarded.extend(plugins.iter().map(|plugin| plugin.folder.clone()));
    for words in started_words(loaded) {
        guarded.extend(scripts(&words, workspace).flat_map(|script| around(&script, workspace)));
    }
    guarded
}

/// Returns whether programs can put a file beside a script of this command, which it may take for one of its own.
pub(crate) fn is_in_the_open(words: &[String], workspace: &Path) -> bool {
    scripts(words, workspace).any(|script| script.parent().is_some_and(|directory| holds(directory, workspace)))
}

/// The files of the workspace that are among the words of a command, or within them.
fn scripts(words: &[String], workspace: &Path) -> impl Iterator<Item = PathBuf> {
    let words = words.iter().flat_map(|word| word.split_whitespace().chain([word.as_str()]));
    let files = words.map(|word| PathBuf::from(word.trim_matches('\'')));
    files.filter(move |file| file.is_absolute() && file.is_file() && holds(workspace, file))
}

/// What a script of the workspace runs: itself, what lies beside it, and the modules that Node finds above it.
fn around(script: &Path, workspace: &Path) -> Vec<PathBuf> {
    let above = script.ancestors().skip(1).take_while(|directory| holds(workspace, directory));
    let modules = above.map(|directory| directory.join("node_modules"));
    let beside = script.parent().filter(|directory| !holds(directory, workspace)).map(Path::to_owned);
    std::iter::once(script.to_owned()).chain(beside).chain(modules).collect()
}
