//! Something is put in place: new, or instead of an older one.

use std::path::Path;

use pincer_config::Loaded;
use pincer_hooks::events::{BeforeInstall, Installing};
use pincer_install::{About, Consent, Done, Installs, Judged, Kind, Need, Policy, Request, Scanned, Staged};
use pincer_runtime::{ConfiguredHooks, trusted_plugins};
use serde_json::{Value, json};

use super::{AgreementArguments, Change, Failure, can_ask, person_agrees, ready, shown};
use crate::print::{line, note};
use crate::usage::LocationArguments;
use crate::{DONE, notices, tokio_runtime};

pub(super) fn run(locations: &LocationArguments, kind: Kind, change: &Change, json: bool) -> Result<u8, Failure> {
    let (loaded, state) = ready(locations)?;
    let policy = Policy::new(&loaded.parsed.config.security.install_policy)?;
    let installs = Installs::new(&state);
    let (staged, agreement) = match change {
        Change::Install(arguments) => {
            (prepared(&installs, arguments.agreement).stage(kind, &arguments.source)?, arguments.agreement)
        }
        Change::Update(arguments) => {
            let installs = prepared(&installs, arguments.agreement);
            (installs.stage_update(kind, &arguments.id, arguments.source.as_deref())?, arguments.agreement)
        }
        Change::Remove(_) => return Ok(DONE),
    };
    if let About::Plugin(_) = staged.about() {
        no_name_is_taken(&loaded, &state, &staged)?;
    }
    let unchanged = staged.is_same_as_installed();
    let scanned = staged.permit(&policy)?.scan()?;
    let answer = asked(&ConfiguredHooks::for_installs(&loaded, Some(&state), &notices::observer())?, &scanned)?;
    let judged = scanned.judged(&answer)?;
    if unchanged && !judged.plan().replaces_changed_files {
        tell(&judged, "unchanged", json);
        return Ok(DONE);
    }
    if agreement.dry_run {
        tell(&judged, "planned", json);
        return Ok(DONE);
    }
    let consent = consent(&judged, agreement, json);
    let (document, request) = (shown::document(&judged), judged.plan().request);
    let Done { record, kept } = judged.accept(consent)?.commit()?;
    let status = if request == Request::Install { "installed" } else { "updated" };
    if json {
        let mut document = with_status(document, status);
        document["kept"] = json!(kept);
        line(&document.to_string());
    } else {
        let version = record.version.as_deref().map(|version| format!(" {}", shown::text(version))).unwrap_or_default();
        line(&format!("{status} the {kind} {}{version} in {}", record.id, installs.place(kind, &record.id).display()));
        if let Some(kept) = kept {
            note(&format!("the changed files that were there are kept in {}", kept.display()));
        }
    }
    Ok(DONE)
}

/// Asks the hooks of the config and of plugins. Whatever keeps them from being asked keeps the installation from being made.
fn asked(hooks: &ConfiguredHooks, scanned: &Scanned) -> Result<Installing, Failure> {
    if !hooks.table().has::<BeforeInstall>() {
        return Ok(Installing::Go { findings: Vec::new() });
    }
    let answer = async {
        let answer = hooks.table().before_install(&scanned.event()).await;
        hooks.end().await;
        answer
    };
    Ok(tokio_runtime::small()?.block_on(answer))
}

/// A dry run makes nothing in the state directory, not even a folder.
fn prepared(installs: &Installs, agreement: AgreementArguments) -> Installs {
    if agreement.dry_run { installs.clone().elsewhere() } else { installs.clone() }
}

fn tell(judged: &Judged, status: &str, json: bool) {
    if json {
        line(&with_status(shown::document(judged), status).to_string());
    } else if status == "unchanged" {
        let plan = judged.plan();
        line(&format!(
            "the {} {} is as it is in {}",
            plan.kind,
            plan.id,
            shown::text(&plan.source.path.to_string_lossy())
        ));
    } else {
        line(&shown::plan(judged));
    }
}

fn with_status(mut document: Value, status: &str) -> Value {
    document["status"] = json!(status);
    document
}

/// Shows everything, and asks if that is needed and there is a person.
fn consent(judged: &Judged, agreement: AgreementArguments, json: bool) -> Consent {
    let in_advance = match agreement {
        AgreementArguments { yes: true, accept_findings: true, .. } => Consent::InAdvanceWithFindings,
        AgreementArguments { yes: true, .. } => Consent::InAdvance,
        _ => Consent::None,
    };
    let is_settled = match judged.need() {
        Need::Nothing => true,
        Need::Consent => in_advance != Consent::None,
        Need::ConsentToFindings => in_advance == Consent::InAdvanceWithFindings,
    };
    let asks = !is_settled && can_ask();
    if !json || asks {
        note(&shown::plan(judged));
    }
    match asks && person_agrees(shown::question(judged)) {
        true => Consent::Given,
        false if asks => Consent::None,
        false => in_advance,
    }
}

/// Two plugins of one name would keep Pincer from starting.
fn no_name_is_taken(loaded: &Loaded, state: &Path, staged: &Staged) -> Result<(), Failure> {
    let About::Plugin(manifest) = staged.about() else { return Ok(()) };
    let place = state.join(Kind::Plugin.folder()).join(staged.id());
    let place = place.canonicalize().unwrap_or(place);
    for other in
        trusted_plugins(loaded, Some(state), &notices::observer())?.into_iter().filter(|other| other.folder != place)
    {
        if other.manifest.id == manifest.id {
            return Err(Failure::IdIsTaken { id: manifest.id.clone(), folder: other.folder });
        }
        for namespace in &manifest.namespaces {
            let names = [&namespace.id, &namespace.global_name];
            let theirs = other.manifest.namespaces.iter().flat_map(|namespace| [&namespace.id, &namespace.global_name]);
            if let Some(name) = theirs.into_iter().find(|name| names.contains(name)) {
                return Err(Failure::NamespaceIsTaken { name: name.clone(), other: other.manifest.id.clone() });
            }
        }
    }
    Ok(())
}
