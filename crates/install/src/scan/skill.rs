//! The front matter of a skill, and commands in its text.
//!
//! Only as much of the front matter is read as an installation needs. What a skill may do follows from none of it.

use pincer_tools::one_line;

use crate::scan::Scan;
use crate::scan::findings::{Finding, Findings, MOST_QUOTED, Severity};
use crate::target::Kind;

/// The most of a front matter that is read.
const MOST_LINES: usize = 500;
/// The most commands that are listed.
const MOST_COMMANDS: usize = 40;
const SHELLS: [&str; 7] = ["sh", "bash", "zsh", "shell", "console", "shellsession", "terminal"];

/// The lines between the first two `---` of a `SKILL.md`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontMatter {
    /// Its name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// All its lines.
    lines: Vec<String>,
}

impl FrontMatter {
    pub(crate) fn read(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines().map(str::trim_end);
        if lines.next() != Some("---") {
            return Self::default();
        }
        let lines: Vec<String> = lines.take_while(|line| *line != "---").take(MOST_LINES).map(str::to_owned).collect();
        Self { name: value(&lines, "name"), version: value(&lines, "version"), lines }
    }
}

/// The value of a key at the margin, on one line.
fn value(lines: &[String], key: &str) -> Option<String> {
    let value = lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(unquoted(value).to_owned()).filter(|value| !value.is_empty())
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let within = |quote| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    // Without quotes a comment may follow.
    within('"').or_else(|| within('\'')).unwrap_or_else(|| text.split(" #").next().unwrap_or(text).trim())
}

/// Names in a list under a key, wherever it stands and however the list is written.
fn names(lines: &[String], key: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut listed_at = None;
    for line in lines {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if let (Some(at), Some(item)) = (listed_at, text.strip_prefix("- "))
            && indent >= at
        {
            names.push(unquoted(item).to_owned());
            continue;
        }
        listed_at = None;
        for quoted in [format!("{key}:"), format!("\"{key}\":")] {
            for (at, _) in text.match_indices(&quoted) {
                if text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                    continue;
                }
                let rest = text[at + quoted.len()..].trim_start();
                match rest.strip_prefix('[').and_then(|list| list.split(']').next()) {
                    Some(list) => names.extend(list.split(',').map(|name| unquoted(name).to_owned())),
                    None if rest.is_empty() => listed_at = Some(indent),
                    None => {}
                }
            }
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

pub(super) fn look_at(front: &FrontMatter, scan: &mut Scan, findings: &mut Findings) {
    let shown = |name: String| one_line(&name, MOST_QUOTED);
    scan.programs.extend(["bins", "anyBins"].iter().flat_map(|key| names(&front.lines, key)).map(shown));
    let wanted: Vec<String> = names(&front.lines, "env").into_iter().map(shown).collect();
    let secrets =
        wanted.iter().filter(|name| pincer_secrecy::is_secret_variable(name, "x")).cloned().collect::<Vec<_>>();
    scan.environment.extend(wanted);
    let mut add = |rule, message: &str| {
        findings.add(Finding::new(Severity::Warning, rule, message).at(Kind::Skill.manifest(), None));
    };
    if front.lines.iter().any(|line| line.trim_start().starts_with("install:") || line.contains("\"install\"")) {
        add("installs", "it says how to install other software, which is not looked at here and never done by Pincer");
    }
    for name in secrets {
        add("wants-a-secret", &format!("it wants the variable {name}, which looks like a secret"));
    }
    for (key, rule) in [("allowed-tools", "wants-tools"), ("hooks", "wants-hooks")] {
        if let Some(value) = value(&front.lines, key) {
            add(rule, &format!("it asks for `{key}: {value}`, which gives it no right here"));
        }
    }
}

/// Lists commands in blocks of a shell's language.
pub(super) fn look_at_blocks(text: &str, scan: &mut Scan) {
    let mut open: Option<(usize, bool)> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        let fence =
            trimmed.chars().take_while(|c| *c == '`').count().max(trimmed.chars().take_while(|c| *c == '~').count());
        match open {
            None if fence >= 3 => {
                let language = trimmed[fence..].trim().split([' ', '{', ',']).next().unwrap_or_default();
                open = Some((fence, SHELLS.iter().any(|shell| language.eq_ignore_ascii_case(shell))));
            }
            Some((opened, _)) if fence >= opened && trimmed.len() == fence => open = None,
            Some((_, true)) => {
                let command = trimmed.strip_prefix("$ ").unwrap_or(trimmed);
                if !command.is_empty() && !command.starts_with('#') && scan.runs.len() <= MOST_COMMANDS {
                    let command = match scan.runs.len() == MOST_COMMANDS {
                        true => "… and more commands in its text".to_owned(),
                        false => format!("tells the agent to run: {}", one_line(command, MOST_QUOTED)),
                    };
                    if !scan.runs.contains(&command) {
                        scan.runs.push(command);
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_and_the_wants_of_a_skill_are_read_however_they_are_written() {
        for (text, name) in [
            ("---\nname: pdf\n---\n", Some("pdf")),
            ("\u{feff}---\r\nname: \"pdf\"  \r\n---\r\n", Some("pdf")),
            ("---\ndescription: x\nname: 'pdf' \n", Some("pdf")),
            ("---\nname: pdf # a comment\n---", Some("pdf")),
            ("---\n  name: nested\n---", None),
            ("---\nname:\n---", None),
            ("name: pdf", None),
            ("", None),
        ] {
            assert_eq!(FrontMatter::read(text).name.as_deref(), name, "{text}");
        }
        for text in [
            "---\nmetadata: {\"openclaw\": {\"requires\": {\"bins\": [\"rg\", \"fd\"], \"env\": [\"KEY\"]}}}\n---",
            "---\nmetadata:\n  requires:\n    bins: [rg, 'fd']\n    env:\n      - KEY\n---",
            "---\nrequires:\n  env: [KEY]\n  bins:\n  - rg\n  - \"fd\"\nother:\n  - no\n---",
        ] {
            let mut scan = Scan::default();
            look_at(&FrontMatter::read(text), &mut scan, &mut Findings::default());
            assert_eq!(scan.programs.iter().collect::<Vec<_>>(), ["fd", "rg"], "{text}");
            assert_eq!(scan.environment.iter().collect::<Vec<_>>(), ["KEY"], "{text}");
        }
    }

    #[test]
    fn commands_of_shell_blocks_are_listed_and_no_others() {
        let mut scan = Scan::default();
        look_at_blocks("no\n```bash\n# no\n$ one\ntwo\n```\n```js\nno\n```\n~~~~sh\nthree\n```\n~~~~\nno", &mut scan);
        let expected = ["one", "two", "three", "```"].map(|command| format!("tells the agent to run: {command}"));
        assert_eq!(scan.runs, expected);
    }
}
