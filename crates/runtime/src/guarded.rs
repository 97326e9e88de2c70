//! The paths of the workspace that programs must not change with file tools: they decide what Pincer does, now and at the next
//! start.

use std::path::{Path, PathBuf};

use pincer_config::Loaded;
use pincer_process::{holds, real};
use pincer_tools::WorkspaceChoice;

use crate::assembly::{placed_words, plugin_paths, started_words};
use crate::state::usual_state_directory;
use crate::user_directories::user_directory;

/// Returns all of it. `plugins` are the folders of plugins.
pub(crate) fn guarded(
    loaded: &Loaded,
    choice: &WorkspaceChoice,
    workspace: &Path,
    state: &Path,
    plugins: &[PathBuf],
) -> Vec<PathBuf> {
    let mut guarded: Vec<PathBuf> = loaded.file.iter().cloned().collect();
    // The next start may find these, also if they are not there yet.
    let home = user_directory("XDG_CONFIG_HOME", ".config").unwrap_or_default();
    let homes = [PathBuf::new(), workspace.to_owned(), home];
    guarded.extend(homes.map(|home| home.join(pincer_config::FILE_NAME)));
    let folders = plugin_paths(loaded).into_iter().chain(usual_state_directory());
    guarded.extend(folders.filter(|folder| !holds(folder, workspace)));
    // The directory of a sandboxed session was made for it, so nothing of the state is in there. It may itself be in the state.
    if !matches!(choice, WorkspaceChoice::Sandbox { .. }) {
        guarded.push(state.to_owned());
    }
    guarded.extend(plugins.iter().cloned());
    for words in started_words(loaded) {
        guarded.extend(scripts(&words, workspace).flat_map(|script| around(&script, workspace)));
    }
    for words in placed_words(loaded) {
        guarded.extend(scripts(&words, workspace));
    }
    guarded.extend(git_directory(workspace));
    guarded
}

/// Returns whether programs can put a file beside a script of this command, which it may take for one of its own.
pub(crate) fn is_in_the_open(words: &[String], workspace: &Path) -> bool {
    scripts(words, workspace).any(|script| script.parent().is_some_and(|directory| holds(directory, workspace)))
}

/// The files of the workspace that the words of a command name, alone or within a line for a shell, with what links lead to. A
/// directory counts if it is a program to Python or Node.
fn scripts(words: &[String], workspace: &Path) -> impl Iterator<Item = PathBuf> {
    const ENDS: [char; 12] = ['\'', '"', '`', ';', '|', '&', '(', ')', '<', '>', '=', ','];
    let pieces = words.iter().flat_map(|word| {
        word.split(|c: char| c.is_whitespace() || ENDS.contains(&c))
            .chain(word.split_whitespace())
            .chain([word.as_str()])
    });
    let here: Vec<PathBuf> = std::env::current_dir().ok().into_iter().chain([workspace.to_owned()]).collect();
    let named = pieces.filter(|piece| piece.contains(['/', '.'])).flat_map(move |piece| {
        let piece = piece.to_owned();
        here.clone().into_iter().map(move |directory| directory.join(&piece)).collect::<Vec<_>>()
    });
    let files = named.flat_map(programs);
    let linked = files.flat_map(|file| real(&file).into_iter().chain([file]).collect::<Vec<_>>());
    linked.filter(move |file| holds(workspace, file))
}

/// The files that a path may mean to an interpreter.
fn programs(path: PathBuf) -> Vec<PathBuf> {
    const BEGINNINGS: [&str; 6] = ["__main__.py", "index.js", "index.mjs", "index.cjs", "main.py", "package.json"];
    const ENDINGS: [&str; 5] = ["js", "mjs", "cjs", "py", "ts"];
    if path.is_dir() {
        return BEGINNINGS.iter().map(|name| path.join(name)).filter(|file| file.is_file()).collect();
    }
    let whole = |ending: &&str| {
        let mut name = path.clone().into_os_string();
        name.push(format!(".{ending}"));
        PathBuf::from(name)
    };
    let endings: Vec<PathBuf> = ENDINGS.iter().map(whole).collect();
    std::iter::once(path).chain(endings).filter(|file| file.is_file()).collect()
}

/// Returns the paths from which a script of the workspace runs code: itself, its directory, and the modules that Node finds above it.
fn around(script: &Path, workspace: &Path) -> Vec<PathBuf> {
    let above = script.ancestors().skip(1).take_while(|directory| holds(workspace, directory));
    let modules = above.map(|directory| directory.join("node_modules"));
    let beside = script.parent().filter(|directory| !holds(directory, workspace)).map(Path::to_owned);
    std::iter::once(script.to_owned()).chain(beside).chain(modules).collect()
}

/// The directory that git uses, if `.git` is a file that says so: its config and hooks have no name that tells them.
fn git_directory(workspace: &Path) -> Vec<PathBuf> {
    let Ok(text) = std::fs::read_to_string(workspace.join(".git")) else { return Vec::new() };
    let Some(named) = text.trim().strip_prefix("gitdir:").map(|path| workspace.join(path.trim())) else {
        return Vec::new();
    };
    let common = std::fs::read_to_string(named.join("commondir")).ok().map(|path| named.join(path.trim()));
    std::iter::once(named).chain(common).collect()
}
