//! Secrets of a client's config, and where they are kept instead.

use std::collections::BTreeMap;
use std::fmt;

/// What becomes of secrets that stand in a client's config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrets {
    /// They stand in our config too.
    Keep,
    /// Our config names variables of the environment; [`crate::Reading::variables`] has what must be in them.
    Variables,
}

/// A text that is not shown by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself: whoever calls this means to show it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}

/// Variables that we have invented, and what must be in them.
#[derive(Debug, Default)]
pub(crate) struct Vault {
    values: BTreeMap<String, Hidden>,
}

impl Vault {
    /// The variable for a value: by the name it has, or with the server's in front if that stands for something else already.
    /// `fits` says whether a variable of the environment may stand for a value.
    pub(crate) fn variable(
        &mut self,
        server: &str,
        name: &str,
        value: &str,
        fits: &dyn Fn(&str, &str) -> bool,
    ) -> String {
        let (name, server) = (variable_name(name), variable_name(server));
        let others = (2..).map(|number| format!("{server}_{name}_{number}"));
        let mut names = [name.clone(), format!("{server}_{name}")].into_iter().chain(others);
        let free = names.find(|name| match self.values.get(name) {
            Some(known) => known.reveal() == value,
            None => fits(name, value),
        });
        // There are more numbers than variables.
        let chosen = free.unwrap_or(name);
        self.values.insert(chosen.clone(), Hidden::new(value));
        chosen
    }

    pub(crate) fn value(&self, variable: &str) -> Option<&Hidden> {
        self.values.get(variable)
    }
}

/// A name that a variable can have, out of any text.
pub(crate) fn variable_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        if !(c == '_' && name.ends_with('_')) {
            name.push(c);
        }
    }
    let name = name.trim_matches('_');
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name.to_owned() } else { format!("MCP_{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_stands_for_one_value_only() {
        let mut vault = Vault::default();
        let fits = |name: &str, value: &str| name != "SET" || value == "elsewhere";
        for (server, name, value, expected) in [
            ("a", "TOKEN", "1", "TOKEN"),
            ("b", "TOKEN", "1", "TOKEN"),
            ("b", "TOKEN", "hunter", "B_TOKEN"),
            ("b", "TOKEN", "3", "B_TOKEN_2"),
            ("c", "SET", "1", "C_SET"),
            ("c", "SET", "elsewhere", "SET"),
            ("my-server.1", "x-api key", "4", "X_API_KEY"),
            ("d", "1st", "5", "MCP_1ST"),
        ] {
            assert_eq!(vault.variable(server, name, value, &fits), expected);
        }
        assert_eq!(vault.value("B_TOKEN").unwrap().reveal(), "hunter");
        assert!(!format!("{vault:?}").contains("hunter"));
    }
}
