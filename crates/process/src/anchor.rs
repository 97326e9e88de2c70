//! Commands of a config that start in another directory than the one they were written for.

use std::path::{Path, PathBuf};

/// Returns the words of a command with the paths among them made absolute, as seen from the first of these directories that has them.
/// A word is a path if it begins with `./` or `../`, or if it has a slash or a dot and is there.
pub fn anchored(words: &[String], directories: &[PathBuf]) -> Vec<String> {
    let at = |(index, word): (usize, &String)| {
        // Without a slash, a program is looked for elsewhere.
        let found = if index > 0 || word.contains('/') { path(word, directories) } else { None };
        found.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or_else(|| word.clone())
    };
    words.iter().enumerate().map(at).collect()
}

/// Like [`anchored`], for a command line: words without quotes are looked at.
pub fn anchored_line(line: &str, directories: &[PathBuf]) -> String {
    let at = |word: &str| match path(word, directories).and_then(|path| path.into_os_string().into_string().ok()) {
        Some(path) => format!("'{}'", path.replace('\'', "'\\''")),
        None => word.to_owned(),
    };
    line.split_inclusive(char::is_whitespace)
        .map(|piece| {
            let word = piece.trim_end();
            at(word) + &piece[word.len()..]
        })
        .collect()
}

/// Returns whether a directory is, or has in it, another path. Links are followed as far as there is something.
pub fn holds(directory: &Path, other: &Path) -> bool {
    matches!((real(directory), real(other)), (Some(directory), Some(other)) if other.starts_with(&directory))
}

/// Returns a path without links, as far as it exists.
pub fn real(path: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(path).ok()?;
    let (ancestor, real) = absolute.ancestors().find_map(|path| Some((path, path.canonicalize().ok()?)))?;
    let rest = absolute.strip_prefix(ancestor).ok()?;
    // Joined with nothing, a path ends in a slash, and a file under such a name is not found.
    Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
}

fn path(word: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    let is_plain = matches!(word, "." | "..") || word.starts_with("./") || word.starts_with("../");
    if Path::new(word).is_absolute() || !(is_plain || word.contains(['/', '.'])) {
        return None;
    }
    let mut places = directories.iter().map(|directory| directory.join(word));
    let found = places.find(|path| path.exists()).or_else(|| {
        let first = directories.first().filter(|_| is_plain);
        first.map(|first| first.join(word))
    });
    std::path::absolute(found?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_are_there_are_made_absolute() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path().canonicalize().expect("a path");
        let other = at.join("other");
        for file in ["server.py", "sub/x", "other/only", "serve"] {
            let file = at.join(file);
            std::fs::create_dir_all(file.parent().expect("a directory")).expect("made");
            std::fs::write(file, "").expect("made");
        }
        let places = [at.clone(), other];
        let seen = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            anchored(&words, &places).join(" ").replace(at.to_str().expect("text"), "@")
        };
        assert_eq!(
            seen(&["python3", "server.py", "-m", "a.b", "./new", ".", "serve"]),
            "python3 @/server.py -m a.b @/new @ serve"
        );
        assert_eq!(
            seen(&["./sub/x", "sub/x", "no/such", "./only", "/etc"]),
            "@/sub/x @/sub/x no/such @/other/only /etc"
        );
        assert_eq!(seen(&["server.py"]), "server.py", "it is looked for in PATH");
        let line = anchored_line("./sub/x  --flag 'server.py' server.py | cat", &places);
        assert_eq!(line.replace(at.to_str().expect("text"), "@"), "'@/sub/x'  --flag 'server.py' '@/server.py' | cat");
    }
}
