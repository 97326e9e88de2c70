//! Which tools a hook or a rule speaks of.

use pincer_catalog::{Entry, PolicyError, Selector};

/// Names, globs, groups. Without any, all tools are meant.
#[derive(Clone, Debug, Default)]
pub struct Matcher {
    selectors: Vec<Selector>,
}

impl Matcher {
    /// Parses names as they stand in `allow` and `deny`. `at` is their place in the config, for messages.
    pub fn parse(at: &str, names: &[impl AsRef<str>]) -> Result<Self, PolicyError> {
        let parse =
            |(index, name): (usize, &_)| Selector::parse_matcher(&format!("{at}[{index}]"), AsRef::<str>::as_ref(name));
        Ok(Self { selectors: names.iter().enumerate().map(parse).collect::<Result<_, _>>()? })
    }

    /// Whether a gate must look at the tool: all that the names could mean.
    pub fn could_mean(&self, entry: &Entry) -> bool {
        self.selectors.is_empty() || self.selectors.iter().any(|selector| selector.denies(entry))
    }

    /// Whether something may be let pass: only what the names plainly mean.
    pub fn plainly_means(&self, entry: &Entry) -> bool {
        self.selectors.is_empty() || self.selectors.iter().any(|selector| selector.allows(entry))
    }
}
