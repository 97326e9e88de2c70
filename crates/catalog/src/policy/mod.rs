//! Which tools a run may have.
//!
//! A policy is a list of layers. A tool must pass every one of them, so a layer can only take tools away. Within a layer,
//! `deny` wins over everything.
//!
//! Names match differently on the two sides, to the safe side each time: an allow of `read` means our own tool and plugins'
//! and clients' tools of that name, never that of an MCP server, which must be named with its server (`files__read`,
//! `files__*`, `mcp:files:*`, `bundle-mcp`); a deny of `read` means every tool of that name, wherever it comes from.

mod groups;
mod selector;

use std::fmt;

use serde::Serialize;

pub use groups::Profile;
pub use selector::{Selector, is_glob_match};

use crate::{Catalog, Entry, Source};

/// `allow`, `alsoAllow`, `deny` and `profile`, as they stand in one place of the config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// A named set to start from.
    pub profile: Option<Profile>,
    /// Only these. Empty is the same as absent.
    pub allow: Vec<String>,
    /// These beyond the profile.
    pub also_allow: Vec<String>,
    /// Never these.
    pub deny: Vec<String>,
}

/// Why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// `allow` replaces what `alsoAllow` would add to.
    #[error(
        "{at}: `allow` and `alsoAllow` exclude each other: keep `allow` for a fixed list, or `alsoAllow` to add to a profile"
    )]
    AllowAndAlsoAllow {
        /// Where in the config.
        at: String,
    },
    /// A group that does not exist.
    #[error("{at}: there is no group `{group}`: known are {}", known.join(", "))]
    UnknownGroup {
        /// Where in the config.
        at: String,
        /// What it was called.
        group: String,
        /// Those there are.
        known: Vec<&'static str>,
    },
    /// A regular expression where a name or a glob belongs.
    #[error(
        "{at}: {written:?} is neither the name of a tool nor a glob: `*` stands for any text, and several names are a list, as in \
         [\"exec\", \"write\"]"
    )]
    Expression {
        /// Where in the config.
        at: String,
        /// The text.
        written: String,
    },
    /// An empty name.
    #[error("{at}: an empty name selects nothing: remove it")]
    EmptyName {
        /// Where in the config.
        at: String,
    },
}

/// One place that takes tools away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    at: String,
    base: Base,
    allow: Vec<Selector>,
    also_allow: Vec<Selector>,
    deny: Vec<Selector>,
}

/// What a layer admits before its lists are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    All,
    Profile(Profile),
    /// A sandboxed session has no MCP tools unless it is told so.
    ExceptMcp,
    /// Only what `allow` names, even if that is nothing.
    None,
}

impl Layer {
    /// The rules at a place of the config. `at` is its path, for messages.
    pub fn new(at: impl Into<String>, rules: &Rules) -> Result<Self, PolicyError> {
        let base = rules.profile.filter(|profile| *profile != Profile::Full).map_or(Base::All, Base::Profile);
        Self::with_base(at.into(), base, rules)
    }

    /// The rules for sandboxed sessions: without `bundle-mcp` in `alsoAllow` (or an `allow`), no MCP tool passes.
    pub fn sandbox(at: impl Into<String>, rules: &Rules) -> Result<Self, PolicyError> {
        Self::with_base(at.into(), Base::ExceptMcp, rules)
    }

    /// The list of one run. An empty one leaves nothing.
    pub fn run(at: impl Into<String>, allow: &[String]) -> Result<Self, PolicyError> {
        let rules = Rules { allow: allow.to_vec(), ..Rules::default() };
        Self::with_base(at.into(), Base::None, &rules)
    }

    fn with_base(at: String, base: Base, rules: &Rules) -> Result<Self, PolicyError> {
        if !rules.allow.is_empty() && !rules.also_allow.is_empty() {
            return Err(PolicyError::AllowAndAlsoAllow { at });
        }
        let parse = |key: &str, names: &[String]| -> Result<Vec<Selector>, PolicyError> {
            names.iter().enumerate().map(|(i, name)| Selector::parse(&format!("{at}.{key}[{i}]"), name)).collect()
        };
        let allow = parse("allow", &rules.allow)?;
        let also_allow = parse("alsoAllow", &rules.also_allow)?;
        let deny = parse("deny", &rules.deny)?;
        Ok(Self { at, base, allow, also_allow, deny })
    }

    fn judge(&self, entry: &Entry) -> Verdict {
        if let Some(by) = self.deny.iter().find(|selector| selector.denies(entry)) {
            return Verdict::Out(Reason::Denied(by.to_string()));
        }
        if let Some(by) = self.allow.iter().chain(&self.also_allow).find(|selector| selector.allows(entry)) {
            return Verdict::In(Reason::Allowed(by.to_string()));
        }
        if !self.allow.is_empty() {
            return Verdict::Out(Reason::NotInAllow);
        }
        match self.base {
            Base::All => Verdict::In(Reason::NoRule),
            Base::Profile(profile) if profile.has(entry) => Verdict::In(Reason::InProfile(profile)),
            Base::Profile(profile) => Verdict::Out(Reason::NotInProfile(profile)),
            Base::ExceptMcp if entry.id.source() == Source::Mcp => Verdict::Out(Reason::McpInSandbox),
            Base::ExceptMcp => Verdict::In(Reason::NoRule),
            Base::None => Verdict::Out(Reason::NotInAllow),
        }
    }
}

/// What a layer says of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    In(Reason),
    Out(Reason),
}

/// Why a layer lets a tool pass, or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// The layer says nothing of it.
    NoRule,
    /// By this name in `allow` or `alsoAllow`.
    Allowed(String),
    /// It is part of the profile.
    InProfile(Profile),
    /// By this name in `deny`.
    Denied(String),
    /// There is an `allow`, and it is not in it.
    NotInAllow,
    /// It is not part of the profile.
    NotInProfile(Profile),
    /// It is an MCP tool, and the session is sandboxed.
    McpInSandbox,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRule => f.write_str("no rule speaks against it"),
            Self::Allowed(by) => write!(f, "allowed by `{by}`"),
            Self::InProfile(profile) => write!(f, "part of the profile `{profile}`"),
            Self::Denied(by) => write!(f, "denied by `{by}`"),
            Self::NotInAllow => f.write_str("not in `allow`"),
            Self::NotInProfile(profile) => write!(f, "not part of the profile `{profile}`; `alsoAllow` can add it"),
            Self::McpInSandbox => {
                f.write_str("MCP tools are off in sandboxed sessions; add `bundle-mcp` to `alsoAllow`")
            }
        }
    }
}

/// Why a tool is in or out: what each layer says, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// Whether the tool passes all of them.
    pub included: bool,
    /// Layer by layer.
    pub steps: Vec<Step>,
}

/// What one layer says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The layer's place in the config.
    pub at: String,
    /// Whether the tool passes it.
    pub passes: bool,
    /// Why.
    pub reason: Reason,
}

/// All layers that apply to a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    layers: Vec<Layer>,
}

impl Policy {
    /// A policy that lets everything pass.
    pub fn open() -> Self {
        Self::default()
    }

    /// The same policy and one layer more.
    pub fn with(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Whether a tool passes.
    pub fn admits(&self, entry: &Entry) -> bool {
        self.layers.iter().all(|layer| matches!(layer.judge(entry), Verdict::In(_)))
    }

    /// The tools that pass.
    pub fn apply(&self, catalog: &Catalog) -> Catalog {
        catalog.narrowed(|entry| self.admits(entry))
    }

    /// Why a tool passes or not.
    pub fn explain(&self, entry: &Entry) -> Explanation {
        let steps: Vec<Step> = self
            .layers
            .iter()
            .map(|layer| {
                let (passes, reason) = match layer.judge(entry) {
                    Verdict::In(reason) => (true, reason),
                    Verdict::Out(reason) => (false, reason),
                };
                Step { at: layer.at.clone(), passes, reason }
            })
            .collect();
        Explanation { included: steps.iter().all(|step| step.passes), steps }
    }
}
