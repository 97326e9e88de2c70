//! Tools that a text clearly asks for.

use std::sync::Arc;

use pincer_catalog::{Entry, Index, stems};

/// The most characters of a text and of a description that count.
const MOST_TEXT: usize = 2_000;
const MOST_DESCRIPTION: usize = 400;

/// The most results of a search that are looked at: all, since those of servers could be in front of every other.
const LOOKED_AT: usize = 100_000;

/// Returns at most so many trusted tools that a text clearly asks for, the best ones first: it has all words of the tool's name, and at
/// least two of its words in all. Tools of others never match: their words would get into the prompt.
pub fn strong_matches(index: &Index, text: &str, most: usize) -> Vec<Arc<Entry>> {
    let text: String = text.chars().take(MOST_TEXT).collect();
    let words = stems(&text);
    let matches = |entry: &Arc<Entry>| {
        let name = stems(entry.id.name());
        let description: String = entry.description.chars().take(MOST_DESCRIPTION).collect();
        let all: std::collections::BTreeSet<String> = name.union(&stems(&description)).cloned().collect();
        !name.is_empty() && name.is_subset(&words) && all.intersection(&words).count() >= 2
    };
    let found = index.search(&text, LOOKED_AT);
    found.into_iter().filter(|entry| entry.flags.trusted).filter(matches).take(most).collect()
}

#[cfg(test)]
mod tests {
    use pincer_catalog::{Catalog, Flags, Source, ToolId};

    use super::*;

    fn index(trusted: bool) -> Index {
        let entry = |name: &str, description: &str| Entry {
            flags: Flags { trusted, ..Flags::default() },
            ..Entry::new(ToolId::new(Source::Openclaw, "core", name).expect("an id"), description)
        };
        let tools = [
            entry("send_message", "Send a text to a channel"),
            entry("read", "Read a file of the workspace"),
            entry("web_fetch", "Fetch a page from the web"),
        ];
        Index::new(&Catalog::new(tools).expect("a catalog"))
    }

    fn names(text: &str) -> Vec<String> {
        strong_matches(&index(true), text, 4).iter().map(|entry| entry.id.name().to_owned()).collect()
    }

    #[test]
    fn a_tool_matches_if_its_whole_name_is_asked_for() {
        assert_eq!(names("Please send Bob a message about lunch"), ["send_message"]);
        assert_eq!(names("Could you read the file notes.md?"), ["read"]);
        // Part of a name, or a short name alone, is not enough.
        assert_eq!(names("What is a message?"), Vec::<String>::new());
        assert_eq!(names("I like to read"), Vec::<String>::new());
        assert_eq!(names(""), Vec::<String>::new());
        assert_eq!(names("What is the capital of France?"), Vec::<String>::new());
    }

    #[test]
    fn tools_of_others_never_match_and_the_number_is_bounded() {
        assert!(strong_matches(&index(false), "send a message", 4).is_empty());
        let entry = |number: usize| Entry {
            flags: Flags { trusted: number == 99, ..Flags::default() },
            ..Entry::new(
                ToolId::new(
                    if number == 99 { Source::Openclaw } else { Source::Mcp },
                    format!("s{number}"),
                    "read_file",
                )
                .expect("an id"),
                "Read a file, read file",
            )
        };
        let crowd = Index::new(&Catalog::new((0..100).map(entry)).expect("a catalog"));
        assert_eq!(strong_matches(&crowd, "read the file", 4).len(), 1, "many of others hide none of ours");
        assert!(strong_matches(&index(true), "send a message, read the file, fetch the web page", 2).len() == 2);
        assert!(strong_matches(&index(true), &"send message ".repeat(100_000), 4).len() == 1);
    }
}
