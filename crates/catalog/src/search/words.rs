//! Text to terms: identifiers split, common words left out, the rest reduced to stems.

use std::collections::HashMap;

use rust_stemmers::{Algorithm, Stemmer};

/// Words that say nothing about what is looked for. English as such, and the politeness of a request.
const STOP_WORDS: &[&str] = &[
    "a",
    "about",
    "above",
    "after",
    "again",
    "against",
    "all",
    "also",
    "am",
    "an",
    "and",
    "any",
    "are",
    "aren",
    "as",
    "at",
    "be",
    "because",
    "been",
    "before",
    "being",
    "below",
    "between",
    "both",
    "but",
    "by",
    "can",
    "cannot",
    "could",
    "couldn",
    "d",
    "did",
    "didn",
    "do",
    "does",
    "doesn",
    "doing",
    "don",
    "down",
    "during",
    "each",
    "few",
    "for",
    "from",
    "further",
    "had",
    "hadn",
    "has",
    "hasn",
    "have",
    "haven",
    "having",
    "he",
    "help",
    "her",
    "here",
    "hers",
    "herself",
    "him",
    "himself",
    "his",
    "how",
    "i",
    "if",
    "in",
    "into",
    "is",
    "isn",
    "it",
    "its",
    "itself",
    "just",
    "let",
    "ll",
    "m",
    "me",
    "might",
    "more",
    "most",
    "must",
    "my",
    "myself",
    "need",
    "no",
    "nor",
    "not",
    "now",
    "of",
    "off",
    "on",
    "once",
    "only",
    "or",
    "other",
    "our",
    "ours",
    "ourselves",
    "out",
    "over",
    "own",
    "please",
    "re",
    "s",
    "same",
    "shall",
    "shan",
    "she",
    "should",
    "shouldn",
    "so",
    "some",
    "such",
    "t",
    "than",
    "that",
    "the",
    "their",
    "theirs",
    "them",
    "themselves",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "through",
    "to",
    "too",
    "under",
    "until",
    "up",
    "us",
    "ve",
    "very",
    "want",
    "was",
    "wasn",
    "we",
    "were",
    "weren",
    "what",
    "when",
    "where",
    "which",
    "while",
    "who",
    "whom",
    "why",
    "will",
    "with",
    "won",
    "would",
    "wouldn",
    "you",
    "your",
    "yours",
    "yourself",
    "yourselves",
];

/// What programs do, each in several words. Verbs of the trade, not of any catalog.
const SAME_ACTION: &[&[&str]] = &[
    &["get", "fetch", "retrieve", "obtain", "read", "load"],
    &["show", "display", "view", "list"],
    &["search", "find", "lookup", "query", "discover"],
    &["create", "add", "make", "new", "generate", "build", "insert"],
    &["delete", "remove", "erase", "clear", "drop"],
    &["update", "edit", "change", "modify", "set", "alter"],
    &["send", "post", "submit"],
    &["calculate", "compute", "estimate", "determine"],
    &["convert", "transform"],
    &["check", "verify", "validate", "test"],
    &["image", "picture", "photo"],
    &["start", "begin", "launch", "run", "execute"],
    &["stop", "end", "terminate"],
];

/// Reads text into stems. Keeps what it has worked out: a catalog uses few words often.
pub(super) struct Reader {
    stemmer: Stemmer,
    known: HashMap<String, Option<String>>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English), known: HashMap::new() }
    }

    /// Calls `each` with every stem of `text`, in order.
    pub(super) fn read(&mut self, text: &str, mut each: impl FnMut(&str)) {
        let Self { stemmer, known } = self;
        split(text, |word| {
            if !known.contains_key(word) {
                let stop = STOP_WORDS.binary_search(&word).is_ok();
                known.insert(word.to_owned(), (!stop).then(|| stemmer.stem(word).into_owned()));
            }
            if let Some(Some(stem)) = known.get(word) {
                each(stem);
            }
        });
    }

    /// For each stem of a verb, the stems of those that mean the same.
    pub(super) fn actions(&mut self) -> HashMap<String, Vec<String>> {
        let mut out: HashMap<String, Vec<String>> = HashMap::new();
        for group in SAME_ACTION {
            let mut stems = Vec::new();
            self.read(&group.join(" "), |stem| stems.push(stem.to_owned()));
            for stem in &stems {
                out.entry(stem.clone()).or_default().extend(stems.iter().filter(|other| *other != stem).cloned());
            }
        }
        out
    }
}

/// Words in lower case: letters and digits apart, `camelCase` and `HTTPServer` at their humps.
fn split(text: &str, mut each: impl FnMut(&str)) {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        Upper,
        Lower,
        Digit,
        Other,
    }
    let kind = |c: char| match c {
        _ if c.is_uppercase() => Kind::Upper,
        _ if c.is_alphabetic() => Kind::Lower,
        _ if c.is_numeric() => Kind::Digit,
        _ => Kind::Other,
    };
    let mut word = String::new();
    let mut letters = text.chars().peekable();
    let mut last = Kind::Other;
    while let Some(c) = letters.next() {
        let this = kind(c);
        let next = letters.peek().map_or(Kind::Other, |c| kind(*c));
        let hump = this == Kind::Upper && (last == Kind::Lower || last == Kind::Upper && next == Kind::Lower);
        let apart = (this == Kind::Digit) != (last == Kind::Digit);
        if (this == Kind::Other || hump || apart) && !word.is_empty() {
            each(&word);
            word.clear();
        }
        if this != Kind::Other {
            word.extend(c.to_lowercase());
        }
        last = this;
    }
    if !word.is_empty() {
        each(&word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stems(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        Reader::new().read(text, |stem| out.push(stem.to_owned()));
        out
    }

    #[test]
    fn identifiers_are_split_and_words_reduced() {
        assert_eq!(stems("getHTTPServer2Status"), ["get", "http", "server", "2", "status"]);
        assert_eq!(stems("acr_registry-list.v2"), ["acr", "registri", "list", "v", "2"]);
        assert_eq!(stems("Please help me with calculating the calculations"), ["calcul", "calcul"]);
        assert_eq!(stems("Größe 東京"), ["größe", "東京"]);
        assert_eq!(stems("the of and"), Vec::<String>::new());
    }

    #[test]
    fn stop_words_can_be_searched() {
        assert!(STOP_WORDS.is_sorted());
    }
}
