//! A transcript as a tree: entries under the entries that they belong to.

use std::collections::HashMap;

use pincer_store::Entry;

/// An entry with the entries that belong to it.
#[derive(Debug)]
pub struct Node<'e> {
    /// The entry.
    pub entry: &'e Entry,
    /// Whether it is part of the branch in use, or of a program on it.
    pub is_in_use: bool,
    /// The calls that programs made within it, by the id of the call that ran the program.
    pub nested: Vec<&'e Entry>,
}

/// Returns the entries that are no nested calls, each with those that are made within it. `leaf` is the end of the branch in use.
pub fn outline(entries: &[Entry], leaf: Option<u32>) -> Vec<Node<'_>> {
    let by_position: HashMap<u32, &Entry> = entries.iter().map(|entry| (entry.position, entry)).collect();
    let mut in_use = std::collections::HashSet::new();
    let mut next = leaf;
    while let Some(position) = next {
        if !in_use.insert(position) {
            break;
        }
        next = by_position.get(&position).and_then(|entry| entry.parent);
    }
    let mut nested: HashMap<u32, Vec<&Entry>> = HashMap::new();
    let mut nodes = Vec::new();
    for entry in entries {
        match (entry.kind, entry.parent) {
            (pincer_store::EntryKind::NestedCall, Some(parent)) => nested.entry(parent).or_default().push(entry),
            _ => nodes.push(entry),
        }
    }
    let node = |entry: &'_ Entry| (in_use.contains(&entry.position), entry.position);
    nodes
        .into_iter()
        .map(|entry| {
            let (is_in_use, position) = node(entry);
            Node { entry, is_in_use, nested: nested.remove(&position).unwrap_or_default() }
        })
        .collect()
}
