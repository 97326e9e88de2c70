//! A look at the programs that something would run and the places that it would reach, as far as its text tells.
//!
//! This is a help for the person who decides, not a defence: code can do what no pattern sees. It says what it did not look at.

mod files;
mod findings;
mod lines;
mod manifest;
mod package;
mod reach;
mod rules;
pub(crate) mod skill;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;

use serde::Serialize;

pub use findings::{Finding, Severity};

use crate::InstallError;
use crate::contents::{About, Contents};
use crate::scan::findings::Findings;
use crate::target::Kind;

/// The most of a file that is looked at line by line.
const MOST_TEXT_BYTES: u64 = 4 << 20;

/// The result of a look at a source. Texts are escaped, and each is one line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scan {
    /// The commands that it starts: a plugin's command, and commands in the text of a skill.
    pub runs: Vec<String>,
    /// The things that it brings: tools, hooks, namespaces, channels, skills.
    pub brings: Vec<String>,
    /// Programs that it names as required.
    pub programs: BTreeSet<String>,
    /// Variables of the environment that it reads or wants.
    pub environment: BTreeSet<String>,
    /// Machines that its text names.
    pub hosts: BTreeSet<String>,
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
    /// Findings that were left out because there are too many. None of these is critical unless all that are listed are.
    pub findings_left_out: usize,
}

/// Looks at everything.
pub(crate) fn scan(contents: &Contents) -> Result<Scan, InstallError> {
    let mut scan = Scan::default();
    let mut findings = Findings::default();
    match &contents.about {
        About::Plugin(plugin) => manifest::look_at(plugin, &contents.tree, &mut scan, &mut findings),
        About::Skill(skill) => skill::look_at(skill, Kind::Skill.manifest(), &mut scan, &mut findings),
    }
    for (path, file) in &contents.tree {
        let on_disk = contents.folder.join(path);
        let mut bytes = Vec::new();
        let opened = File::open(&on_disk).map_err(InstallError::read(&on_disk))?;
        opened.take(MOST_TEXT_BYTES).read_to_end(&mut bytes).map_err(InstallError::read(&on_disk))?;
        let brought = match &contents.about {
            About::Plugin(_) => skill::folder_in_plugin(path),
            About::Skill(_) => None,
        };
        if let Some(folder) = brought {
            skill::look_at_brought(folder, path, &bytes, &mut scan, &mut findings);
        }
        let Some(text) = files::look_at(path, file, &bytes, &mut findings) else { continue };
        lines::look_at(path, text, &mut scan, &mut findings);
        if path.rsplit('/').next() == Some("package.json") {
            package::look_at(path, text, &mut findings);
        }
        let is_of_skill = match &contents.about {
            About::Skill(_) => true,
            About::Plugin(_) => path.starts_with("skills/"),
        };
        if is_of_skill && path.ends_with(".md") {
            skill::look_at_blocks(text, &mut scan);
        }
    }
    (scan.findings, scan.findings_left_out) = findings.sorted();
    Ok(scan)
}
