//! The way from a source to its place. Each step takes the one before it, so none can be left out.
//!
//! [`Installs::stage`] → [`Staged`] → policy → [`Permitted`] → scan → [`Scanned`] → hooks → [`Judged`] → a person → [`Accepted`] → moved.

use std::path::{Path, PathBuf};

use pincer_hooks::events::{BeforeInstall, Installing};

use crate::InstallError;
use crate::commit::{Change, commit};
use crate::consent::{Consent, Need, Unagreed, covers, need};
use crate::contents::{About, Contents};
use crate::digest::{Digest, digest};
use crate::hook;
use crate::installs::{Files, Installs, Present};
use crate::places::Exclusive;
use crate::policy::{Policy, Ruling, Subject};
use crate::records::Record;
use crate::scan::{Finding, Scan, Severity, scan};
use crate::source::Source;
use crate::stage::{Stage, sync};
use crate::target::{Kind, Request};

/// The most characters of the reason of a hook.
const MOST_REASON: usize = 500;
/// The most findings of hooks that are shown.
const MOST_HOOK_FINDINGS: usize = 200;

/// Everything that is known of an installation on its way.
#[derive(Debug)]
pub(crate) struct Case {
    pub installs: Installs,
    pub stage: Stage,
    pub kind: Kind,
    pub contents: Contents,
    pub digest: Digest,
    pub source: Source,
    pub request: Request,
    /// The present content of its place. The commit fails if that has changed.
    pub present: Present,
    pub left_out: usize,
}

impl Case {
    fn version(&self) -> Option<String> {
        match &self.contents.about {
            About::Plugin(manifest) => Some(manifest.version.clone()),
            About::Skill(skill) => skill.version.clone(),
        }
    }
}

/// A source that was copied, with names, sizes and kinds checked, and its manifest read. Nothing of it was run.
#[derive(Debug)]
pub struct Staged(pub(crate) Box<Case>);

impl Staged {
    /// Asks the operator's policy.
    pub fn permit(self, policy: &Policy) -> Result<Permitted, InstallError> {
        let case = &self.0;
        let subject =
            Subject { kind: case.kind, id: &case.contents.id, source: &case.source.path, digest: &case.digest };
        let ruling = policy.rule_on(subject)?;
        Ok(Permitted { case: self.0, ruling })
    }

    /// Returns its manifest.
    pub fn about(&self) -> &About {
        &self.0.contents.about
    }

    /// Returns its name.
    pub fn id(&self) -> &str {
        &self.0.contents.id
    }

    /// Returns whether what is installed has the same files, so that an update would change nothing.
    pub fn is_same_as_installed(&self) -> bool {
        matches!(&self.0.present, Present::Installed { files: Files::There(there), .. } if *there == self.0.digest)
    }

    /// Returns the digest of its files.
    pub fn digest(&self) -> &Digest {
        &self.0.digest
    }
}

/// Something that the policy does not block.
#[derive(Debug)]
pub struct Permitted {
    case: Box<Case>,
    ruling: Ruling,
}

impl Permitted {
    /// Looks for programs that it would run and places that it would reach.
    pub fn scan(self) -> Result<Scanned, InstallError> {
        let scan = scan(&self.case.contents)?;
        Ok(Scanned { case: self.case, ruling: self.ruling, scan })
    }
}

/// Something that was looked at.
#[derive(Debug)]
pub struct Scanned {
    case: Box<Case>,
    ruling: Ruling,
    scan: Scan,
}

impl Scanned {
    /// Returns the event for `before_install` hooks.
    pub fn event(&self) -> BeforeInstall {
        hook::event(&self.case, &self.scan)
    }

    /// Takes the answer of the hooks. A block is final.
    pub fn judged(self, answer: &Installing) -> Result<Judged, InstallError> {
        match answer {
            Installing::Block(reason) => {
                let (kind, id, request) = (self.case.kind, self.case.contents.id.clone(), self.case.request);
                Err(InstallError::Hook { kind, id, request, reason: pincer_tools::one_line(reason, MOST_REASON) })
            }
            Installing::Go { findings } => {
                let hook_findings = findings.iter().take(MOST_HOOK_FINDINGS).map(hook::finding).collect();
                Ok(Judged { case: self.case, ruling: self.ruling, scan: self.scan, hook_findings })
            }
        }
    }
}

/// Something that neither the policy nor a hook is against.
#[derive(Debug)]
pub struct Judged {
    case: Box<Case>,
    ruling: Ruling,
    scan: Scan,
    hook_findings: Vec<Finding>,
}

/// Everything that a person is shown. All texts of the source in it are escaped.
#[derive(Debug)]
pub struct Plan<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub id: &'a str,
    /// Its version, escaped.
    pub version: Option<String>,
    /// Whether it is new.
    pub request: Request,
    /// Where it comes from.
    pub source: &'a Source,
    /// Where it goes.
    pub place: PathBuf,
    /// The digest of its files.
    pub digest: &'a Digest,
    /// The number of its files.
    pub files: usize,
    /// Their size in all.
    pub bytes: u64,
    /// The number of files in `.git` and the like that are not taken along.
    pub left_out: usize,
    /// The one whose place it takes.
    pub replaces: Option<&'a Record>,
    /// Whether the files of that were changed since they were installed.
    pub replaces_changed_files: bool,
    /// The ruling of the policy.
    pub ruling: Ruling,
    /// The result of the scan.
    pub scan: &'a Scan,
    /// The findings of hooks.
    pub hook_findings: &'a [Finding],
}

impl Judged {
    /// Returns everything that a person is shown.
    pub fn plan(&self) -> Plan<'_> {
        let case = &self.case;
        let replaces = match &case.present {
            Present::Nothing => None,
            Present::Installed { record, .. } => Some(record),
        };
        Plan {
            kind: case.kind,
            id: &case.contents.id,
            version: case.version().map(|version| pincer_tools::one_line(&version, 60)),
            request: case.request,
            source: &case.source,
            place: case.installs.places().target(case.kind, &case.contents.id),
            digest: &case.digest,
            files: case.contents.tree.len(),
            bytes: case.contents.tree.values().map(|file| file.bytes).sum(),
            left_out: case.left_out,
            replaces,
            replaces_changed_files: case.present.has_changed_files(),
            ruling: self.ruling,
            scan: &self.scan,
            hook_findings: &self.hook_findings,
        }
    }

    /// Returns the consent that it needs.
    pub fn need(&self) -> Need {
        let all = self.scan.findings.iter().chain(&self.hook_findings);
        need(self.ruling, all.clone().any(|finding| finding.severity == Severity::Critical))
    }

    /// Takes the person's answer.
    pub fn accept(self, consent: Consent) -> Result<Accepted, InstallError> {
        let need = self.need();
        if covers(consent, need) {
            return Ok(Accepted(self.case));
        }
        let (kind, id, request) = (self.case.kind, self.case.contents.id.clone(), self.case.request);
        Err(match (need, consent) {
            (Need::ConsentToFindings, Consent::InAdvance) => Unagreed::Findings { kind, id, request },
            _ => Unagreed::Consent { kind, id, request },
        }
        .into())
    }
}

/// Something that may be put in its place.
#[derive(Debug)]
pub struct Accepted(Box<Case>);

impl Accepted {
    /// Puts it in its place. If this process dies in the middle, the next command brings back the old version or finishes the new one.
    pub fn commit(self) -> Result<Done, InstallError> {
        let Case { installs, mut stage, kind, contents, digest: promised, source, present, .. } = *self.0;
        sync(stage.folder()).map_err(InstallError::write(stage.folder()))?;
        let lock = Exclusive::new(installs.places())?;
        // A hook, or another process of this user, may have changed what was looked at.
        if digest(&installs.tree(&contents.folder)?) != promised {
            return Err(InstallError::Changed { kind, id: contents.id });
        }
        if installs.present(kind, &contents.id)? != present {
            return Err(InstallError::Changed { kind, id: contents.id });
        }
        let version = match &contents.about {
            About::Plugin(manifest) => Some(manifest.version.clone()),
            About::Skill(skill) => skill.version.clone(),
        };
        let record = Record {
            kind,
            id: contents.id,
            version,
            source: source.path,
            source_kind: source.kind,
            digest: promised,
            at: chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
        };
        let kept = present.has_changed_files().then(|| kept(&lock, &stage, &record));
        let old = kept.clone().unwrap_or_else(|| stage.old());
        let within = |path: &Path| path.strip_prefix(installs.places().work()).unwrap_or(path).to_owned();
        let change = Change::Put { record: record.clone(), new: within(&contents.folder), old: within(&old) };
        commit(&lock, &mut stage, &change)?;
        Ok(Done { record, kept })
    }
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The record of what was installed, updated or removed.
    pub record: Record,
    /// Where the files are that were there before, if they were changed since they were installed: a plugin may keep its data there.
    pub kept: Option<PathBuf>,
}

/// Returns a place that nothing else has. The name of the stage makes it one.
fn kept(lock: &Exclusive, stage: &Stage, record: &Record) -> PathBuf {
    let stage = stage.folder().file_name().unwrap_or_default().to_string_lossy();
    let unique = stage.rsplit('-').next().unwrap_or_default();
    let at = chrono::Utc::now().format("%Y%m%dT%H%M%SZ");
    lock.places().kept().join(format!("{}-{}-{at}-{unique}", record.kind, record.id))
}

/// Something that was installed and is about to be removed.
#[derive(Debug)]
pub struct Removal {
    pub(crate) installs: Installs,
    pub(crate) record: Record,
    pub(crate) present: Present,
}

impl Removal {
    /// Returns what is removed.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns where it is.
    pub fn place(&self) -> PathBuf {
        self.installs.places().target(self.record.kind, &self.record.id)
    }

    /// Returns whether its files were changed since they were installed.
    pub fn has_changed_files(&self) -> bool {
        self.present.has_changed_files()
    }

    /// Removes it. A person has agreed.
    pub fn commit(self) -> Result<Done, InstallError> {
        let Self { installs, record, present } = self;
        let lock = Exclusive::new(installs.places())?;
        if installs.present(record.kind, &record.id)? != present {
            return Err(InstallError::Changed { kind: record.kind, id: record.id });
        }
        let mut stage = Stage::new(&installs.places().work())?;
        let kept = present.has_changed_files().then(|| kept(&lock, &stage, &record));
        let old = kept.clone().unwrap_or_else(|| stage.old());
        let old = old.strip_prefix(installs.places().work()).unwrap_or(&old).to_owned();
        let change = Change::Remove { kind: record.kind, id: record.id.clone(), old };
        commit(&lock, &mut stage, &change)?;
        Ok(Done { record, kept })
    }
}

/// Returns a path that holds when the current directory changes.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
