//! The consent that an installation needs.

use crate::policy::Ruling;
use crate::target::{Kind, Request};

/// The consent that an installation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: the policy allows it.
    Nothing,
    /// That it is installed.
    Consent,
    /// That it is installed although there are critical findings.
    ConsentToFindings,
}

/// The consent of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Not at all.
    None,
    /// In advance, to whatever has no critical finding.
    InAdvance,
    /// In advance, to critical findings too.
    InAdvanceWithFindings,
    /// After everything was shown.
    Given,
}

/// No person has agreed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unagreed {
    /// No consent was given.
    #[error("the {kind} {id} {}: it was not agreed to (without a terminal, `--yes` agrees)", request.not_done())]
    Consent {
        /// The kind of the thing.
        kind: Kind,
        /// Its name.
        id: String,
        /// Whether it was to be installed or updated.
        request: Request,
    },
    /// The findings were not agreed to.
    #[error(
        "the {kind} {id} {}: it has critical findings, and `--yes` does not cover those; read them, and add `--accept-findings` if you want it all the same",
        request.not_done()
    )]
    Findings {
        /// The kind of the thing.
        kind: Kind,
        /// Its name.
        id: String,
        /// Whether it was to be installed or updated.
        request: Request,
    },
}

pub(crate) fn need(ruling: Ruling, has_critical_findings: bool) -> Need {
    match (ruling, has_critical_findings) {
        (Ruling::Vouched, _) | (Ruling::Allowed, false) => Need::Nothing,
        (Ruling::Ask, false) => Need::Consent,
        (Ruling::Allowed | Ruling::Ask, true) => Need::ConsentToFindings,
    }
}

pub(crate) fn covers(consent: Consent, need: Need) -> bool {
    match need {
        Need::Nothing => true,
        Need::Consent => consent != Consent::None,
        Need::ConsentToFindings => matches!(consent, Consent::InAdvanceWithFindings | Consent::Given),
    }
}
