//! The front matter of a skill, as an installation shows it, and commands in its text.
//!
//! `pincer-skills` reads it. Keys that mean nothing to Pincer are shown too: another program may act on them.

use pincer_skills::FrontMatter;
use pincer_tools::one_line;
use serde_json::{Map, Value};

use crate::scan::Scan;
use crate::scan::findings::{Finding, Findings, MOST_QUOTED, Severity};
use crate::target::Kind;

/// The most commands that are listed.
const MOST_COMMANDS: usize = 40;
/// The most characters of a line about a skill that a plugin brings.
const MOST_BROUGHT: usize = 400;
const SHELLS: [&str; 7] = ["sh", "bash", "zsh", "shell", "console", "shellsession", "terminal"];

/// The front matter of a `SKILL.md`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SkillManifest {
    /// Its name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// All its keys.
    keys: Map<String, Value>,
    /// The reason for which there are no keys.
    problem: Option<String>,
}

impl SkillManifest {
    pub(crate) fn read(file: &[u8]) -> Self {
        match FrontMatter::parse_with_keys(file) {
            Ok((front, keys)) => Self { name: front.name, version: front.version, keys, problem: None },
            Err(error) => Self { problem: Some(error.to_string()), ..Self::default() },
        }
    }
}

/// Returns the values of a key, wherever it stands.
fn values<'k>(keys: &'k Map<String, Value>, key: &str) -> Vec<&'k Value> {
    let mut found = Vec::new();
    let mut open: Vec<(Option<&str>, &Value)> = keys.iter().map(|(name, value)| (Some(&**name), value)).collect();
    while let Some((name, value)) = open.pop() {
        if name == Some(key) {
            found.push(value);
        }
        match value {
            Value::Object(keys) => open.extend(keys.iter().map(|(name, value)| (Some(&**name), value))),
            Value::Array(items) => open.extend(items.iter().map(|value| (None, value))),
            _ => {}
        }
    }
    found
}

/// Returns the names in lists under a key.
fn names(keys: &Map<String, Value>, key: &str) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for value in values(keys, key) {
        match value {
            Value::Array(items) => names.extend(items.iter().filter_map(Value::as_str)),
            Value::String(list) => names.extend(list.split(',')),
            _ => {}
        }
    }
    let names = names.into_iter().map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| one_line(name, MOST_QUOTED)).collect()
}

/// Looks at the front matter of the skill in `file`.
pub(super) fn look_at(skill: &SkillManifest, file: &str, scan: &mut Scan, findings: &mut Findings) {
    let (programs, variables) = wants(skill);
    let secrets =
        variables.iter().filter(|name| pincer_secrecy::is_secret_variable(name, "x")).cloned().collect::<Vec<_>>();
    scan.programs.extend(programs);
    scan.environment.extend(variables);
    let mut add = |rule, message: &str| {
        findings.add(Finding::new(Severity::Warning, rule, message).at(file, None));
    };
    if let Some(problem) = &skill.problem {
        add("unreadable", &format!("no agent will see this skill, since its front matter cannot be read: {problem}"));
    }
    if !values(&skill.keys, "install").is_empty() {
        add("installs", "it says how to install other software, which is not looked at here and never done by Pincer");
    }
    for name in secrets {
        add("wants-a-secret", &format!("it wants the variable {name}, which looks like a secret"));
    }
    for (key, rule) in [("allowed-tools", "wants-tools"), ("hooks", "wants-hooks")] {
        let value = match skill.keys.get(key) {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        if !value.is_empty() {
            add(rule, &format!("it asks for `{key}: {value}`, which gives it no right here"));
        }
    }
}

/// Returns the programs and the variables that a skill wants.
fn wants(skill: &SkillManifest) -> (Vec<String>, Vec<String>) {
    (["bins", "anyBins"].iter().flat_map(|key| names(&skill.keys, key)).collect(), names(&skill.keys, "env"))
}

/// Returns the folder of a skill that a plugin brings, if this is the file of one.
pub(super) fn folder_in_plugin(path: &str) -> Option<&str> {
    let mut parts = path.split('/');
    // Some systems open a name that is written in another case.
    let is = |part: Option<&str>, name: &str| part.is_some_and(|part| part.eq_ignore_ascii_case(name));
    let found = is(parts.next(), "skills").then(|| parts.next()).flatten()?;
    (is(parts.next(), Kind::Skill.manifest()) && parts.next().is_none()).then_some(found)
}

/// Looks at a skill that a plugin brings.
pub(super) fn look_at_brought(folder: &str, path: &str, file: &[u8], scan: &mut Scan, findings: &mut Findings) {
    let skill = SkillManifest::read(file);
    let (programs, variables) = wants(&skill);
    let listed = |what: &str, names: &[String]| match names {
        [] => None,
        names => Some(format!("the {what} {}", names.join(", "))),
    };
    let wants: Vec<String> =
        [listed("programs", &programs), listed("variables", &variables)].into_iter().flatten().collect();
    let wants = if wants.is_empty() { String::new() } else { format!(" (wants {})", wants.join("; ")) };
    let name = one_line(skill.name.as_deref().unwrap_or(folder), MOST_QUOTED);
    scan.brings.push(one_line(&format!("skill {name}{wants}"), MOST_BROUGHT));
    look_at(&skill, path, scan, findings);
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

    fn looked_at(text: &str) -> (SkillManifest, Scan, Vec<Finding>) {
        let (skill, mut scan, mut findings) =
            (SkillManifest::read(text.as_bytes()), Scan::default(), Findings::default());
        look_at(&skill, Kind::Skill.manifest(), &mut scan, &mut findings);
        (skill, scan, findings.sorted().0)
    }

    #[test]
    fn the_wants_of_a_skill_are_listed_wherever_they_stand() {
        for text in [
            "---\nmetadata: {\"openclaw\": {\"requires\": {\"bins\": [\"rg\", \"fd\"], \"env\": [\"PAPER\"]}}}\n---",
            "---\nmetadata: '{\"other\": {\"requires\": {\"bins\": [\"rg\", \"fd\"], \"env\": \"PAPER\"}}}'\n---",
            "---\nmetadata:\n  requires:\n    bins: [rg, 'fd']\n    env:\n      - PAPER\n---",
            "---\nrequires:\n  env: [PAPER]\n  bins:\n  - rg\n  - \"fd\"\nother:\n  - no\n---",
            "---\nall:\n- bins: [rg]\n- anyBins: [fd]\n  env: [PAPER, ' ']\n---",
        ] {
            let (_, scan, findings) = looked_at(text);
            assert_eq!(scan.programs.iter().collect::<Vec<_>>(), ["fd", "rg"], "{text}");
            assert_eq!(scan.environment.iter().collect::<Vec<_>>(), ["PAPER"], "{text}");
            assert_eq!(findings, [], "{text}");
        }
    }

    #[test]
    fn rights_and_software_that_a_skill_asks_for_are_findings() {
        for (line, rule, part) in [
            ("metadata: { openclaw: { install: [{ id: brew }] } }", "installs", "other software"),
            ("allowed-tools: Bash(git:*), Read", "wants-tools", "`allowed-tools: Bash(git:*), Read`"),
            ("allowed-tools:\n  - Read", "wants-tools", "`allowed-tools: [\"Read\"]`"),
            ("hooks:\n  after: run.sh", "wants-hooks", "`hooks: {\"after\":\"run.sh\"}`"),
        ] {
            let (_, _, findings) = looked_at(&format!("---\nname: x\n{line}\n---\n"));
            assert_eq!(findings.len(), 1, "{line}");
            assert!(findings[0].rule == rule && findings[0].message.contains(part), "{line}: {findings:?}");
        }
    }

    #[test]
    fn a_skill_that_no_agent_can_be_shown_is_a_finding() {
        for (text, why) in
            [("Do it.", "does not begin"), ("---\nname: pdf\n", "is missing"), ("---\nname: [\n---\n", "YAML")]
        {
            let (skill, _, findings) = looked_at(text);
            assert_eq!((skill.name, findings.len()), (None, 1), "{text}");
            assert!(findings[0].rule == "unreadable" && findings[0].message.contains(why), "{text}: {findings:?}");
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
