//! The names under which clients see tools and prompts of many sources at once.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{Entry, Operation, Source};

/// What separates a server from its tool where the tool's own name is not enough.
const SEPARATOR: &str = "__";

/// The name of each of these things: its own if no other has it, otherwise with its owner in front. Things of ours keep their own,
/// and nothing can pass for a thing of another owner by its name.
pub fn unique<'a>(things: impl IntoIterator<Item = (&'a str, &'a str, Keeps)>) -> Vec<String> {
    let things: Vec<(&str, &str, Keeps)> = things.into_iter().collect();
    let mut count: HashMap<&str, usize> = HashMap::new();
    things.iter().for_each(|(_, name, _)| *count.entry(name).or_default() += 1);
    let owners: HashSet<&str> = things.iter().map(|(owner, ..)| *owner).collect();
    let mut taken: BTreeMap<String, ()> = BTreeMap::new();
    let mut names = vec![String::new(); things.len()];
    let free = |name: String, taken: &mut BTreeMap<String, ()>| {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let found =
            std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains_key(name)).unwrap_or(name);
        taken.insert(found.clone(), ());
        found
    };
    // Those that keep their names come first, whatever the order.
    for keeps in [true, false] {
        for (index, (owner, name, own)) in things.iter().enumerate() {
            let passes = name.split_once(SEPARATOR).is_some_and(|(other, _)| other != *owner && owners.contains(other));
            let alone = (count.get(name) == Some(&1) && !passes) || *own == Keeps::Own;
            if alone == keeps {
                let name = if alone { (*name).to_owned() } else { format!("{owner}{SEPARATOR}{name}") };
                names[index] = free(name, &mut taken);
            }
        }
    }
    names
}

/// Whether a thing keeps its name when others have it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// It does.
    Own,
    /// Its owner is put in front.
    OwnersFirst,
}

/// What an entry does when others have its name.
pub fn keeps(entry: &Entry) -> Keeps {
    if entry.id.source() == Source::Openclaw { Keeps::Own } else { Keeps::OwnersFirst }
}

/// Whether an entry is a tool, and not something else that a server does.
pub fn is_tool(entry: &Entry) -> bool {
    entry.id.source() != Source::Mcp || Operation::named(entry.id.name()).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_several_have_gets_its_owner() {
        use Keeps::{Own, OwnersFirst};
        let things = [
            ("a", "read", OwnersFirst),
            ("core", "read", Own),
            ("b", "read", OwnersFirst),
            ("b", "list", OwnersFirst),
            ("c", "a__read", OwnersFirst),
        ];
        assert_eq!(unique(things), ["a__read", "read", "b__read", "list", "c__a__read"]);
    }
}
