//! From the text of a question to the terms it wants.

use std::collections::{BTreeMap, HashMap};

use super::words::{Kind, Piece, Reader};
use super::{Index, Term, build, languages};
use crate::text::start;

/// How much of a question is read: more than a message has, and so little that no question takes long.
const MOST_QUESTION: usize = 8 * 1024;
/// How many sentences are looked at one by one. Further ones count as part of the last.
const MOST_SENTENCES: usize = 16;

/// A word that begins like one of the question: `analyze` and `analysis`, `convert` and `conversion`.
const ALIKE: f32 = 0.4;
const ALIKE_LETTERS: usize = 4;
const ALIKE_SHARE: f32 = 0.7;
const ALIKE_MOST: usize = 24;
/// How many words with the same beginning are compared. A catalog of one language has some dozens, a hostile one as many as it likes.
const ALIKE_COMPARED: usize = 1_000;
/// Another word for the same thing. One word may mean several things, so this is little.
const SAME_MEANING: f32 = 0.2;
/// The word in English, from the table of other languages.
const TRANSLATED: f32 = 0.8;
/// A word of another script with the same consonants.
const SOUNDS_ALIKE: f32 = 0.6;
const SOUNDS_ALIKE_MOST: usize = 8;
/// Words that every request has, and numbers: mostly values for the tool.
const ROUTINE: f32 = 0.7;
const NUMBER: f32 = 0.7;
/// Two words of the question that the catalog has as one: `web page` and `webpage`.
const JOINED: f32 = 0.5;
/// Two words that stand side by side in the question and in the entry.
const PHRASE: f32 = 0.35;

/// Terms, and how much each is wanted.
pub(super) type Wanted = BTreeMap<Term, f32>;

/// The words and phrases of a question.
#[derive(Default)]
pub(super) struct Question {
    pub whole: Wanted,
    /// The same for each sentence, if there are several. A request for several things often has one in each.
    pub sentences: Vec<Wanted>,
    pub phrases: Phrases,
}

/// Words that stand side by side in a question, and what it is worth to find them so.
#[derive(Default)]
pub(super) struct Phrases {
    /// Whether a phrase begins with a term: most words of an entry begin none, and need no look at the phrases.
    begins: Vec<bool>,
    worth: BTreeMap<(Term, Term), f32>,
}

impl Phrases {
    fn add(&mut self, pair: (Term, Term), worth: f32) {
        let first = pair.0 as usize;
        if self.begins.len() <= first {
            self.begins.resize(first + 1, false);
        }
        self.begins[first] = true;
        self.worth.insert(pair, worth);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.worth.is_empty()
    }

    /// The weight of these two side by side, if they are a phrase.
    pub(super) fn worth(&self, first: Term, second: Term) -> Option<f32> {
        let begins = self.begins.get(first as usize).copied().unwrap_or_default();
        if begins { self.worth.get(&(first, second)).copied() } else { None }
    }
}

impl Question {
    pub(super) fn read(text: &str, index: &Index) -> Self {
        let text = start(text, MOST_QUESTION);
        let mut reading = Reading::new(index);
        Reader::new().read(text, |piece| match piece {
            Piece::Word { stem, kind } => reading.word(stem, weight(kind)),
            Piece::Meaning(meaning) => reading.wants(meaning, TRANSLATED),
            Piece::Sound(sound) => reading.wants_sound(sound),
            Piece::End => reading.end_sentence(),
        });
        let mut question = reading.finish();
        for thing in text.split_whitespace().filter_map(addressed) {
            index.terms.get(thing).into_iter().for_each(|term| raise(&mut question.whole, *term, 1.0));
        }
        question
    }
}

/// A question while it is read.
struct Reading<'a> {
    index: &'a Index,
    question: Question,
    /// The words of the sentence that is being read.
    sentence: Wanted,
    /// The terms of words that were read already.
    close: HashMap<String, Vec<(Term, f32)>>,
    /// The word before, as it is spelled, and as a term if the catalog has it.
    before: String,
    before_term: Option<(Term, f32)>,
}

impl<'a> Reading<'a> {
    fn new(index: &'a Index) -> Self {
        let (question, sentence, close) = (Question::default(), Wanted::new(), HashMap::new());
        Self { index, question, sentence, close, before: String::new(), before_term: None }
    }

    fn word(&mut self, stem: &str, weight: f32) {
        self.wants(stem, weight);
        self.before.push_str(stem);
        if let Some(joined) = self.index.terms.get(&self.before) {
            raise(&mut self.sentence, *joined, JOINED);
        }
        let this = self.index.terms.get(stem).map(|term| (*term, weight));
        if let (Some((before, one)), Some((term, other))) = (self.before_term, this) {
            let rarity = self.index.rarity[before as usize] + self.index.rarity[term as usize];
            self.question.phrases.add((before, term), PHRASE * rarity * one.min(other));
        }
        stem.clone_into(&mut self.before);
        self.before_term = this;
    }

    /// Wants a word and all that are close to it.
    fn wants(&mut self, stem: &str, weight: f32) {
        if !self.close.contains_key(stem) {
            self.close.insert(stem.to_owned(), self.index.close(stem));
        }
        for (term, share) in self.close.get(stem).into_iter().flatten() {
            raise(&mut self.sentence, *term, weight * share);
        }
    }

    fn wants_sound(&mut self, sound: &str) {
        for term in self.index.sounding(sound) {
            raise(&mut self.sentence, term, SOUNDS_ALIKE);
        }
    }

    fn end_sentence(&mut self) {
        self.before.clear();
        self.before_term = None;
        if !self.sentence.is_empty() && self.question.sentences.len() + 1 < MOST_SENTENCES {
            self.question.sentences.push(std::mem::take(&mut self.sentence));
        }
    }

    fn finish(self) -> Question {
        let Self { mut question, sentence, .. } = self;
        if !sentence.is_empty() {
            question.sentences.push(sentence);
        }
        for sentence in &question.sentences {
            sentence.iter().for_each(|(term, weight)| raise(&mut question.whole, *term, *weight));
        }
        // The only sentence is the whole question.
        if question.sentences.len() < 2 {
            question.sentences.clear();
        }
        question
    }
}

fn weight(kind: Kind) -> f32 {
    match kind {
        Kind::Telling => 1.0,
        Kind::Routine => ROUTINE,
        Kind::Number => NUMBER,
    }
}

fn raise(wanted: &mut Wanted, term: Term, weight: f32) {
    let present = wanted.entry(term).or_insert(0.0);
    *present = present.max(weight);
}

/// The stem of what an address leads to. A question that has a path is about a file, also if it does not say so.
fn addressed(part: &str) -> Option<&'static str> {
    let address = part.trim_matches(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '~' | '\\')));
    let (folder, last) = address.rsplit_once('/').unwrap_or(("", address));
    if address.contains("://") || address.starts_with("www.") {
        Some("url")
    } else if address.contains('@') && address.contains('.') {
        Some("email")
    } else if address.starts_with("~/") || address.starts_with('/') && !folder.is_empty() {
        Some(if last.contains('.') { "file" } else { "directori" })
    } else {
        None
    }
}

impl Index {
    /// The terms for a word: its own, and those that are close to it, each with its share.
    fn close(&self, stem: &str) -> Vec<(Term, f32)> {
        let mut out = Wanted::new();
        for term in self.alike(stem) {
            raise(&mut out, term, ALIKE);
        }
        for other in self.same_meaning.get(stem).into_iter().flatten() {
            if let Some(term) = self.terms.get(other) {
                raise(&mut out, *term, SAME_MEANING);
            }
        }
        if self.has_sounds && stem.is_ascii() {
            let sound = languages::consonants(stem).and_then(|sound| self.terms.get(&build::by_sound(&sound)));
            sound.into_iter().for_each(|term| raise(&mut out, *term, SOUNDS_ALIKE));
        }
        if let Some(term) = self.terms.get(stem) {
            raise(&mut out, *term, 1.0);
        }
        out.into_iter().collect()
    }

    /// Other terms that begin like `word`: one is the beginning of the other, or most of both is the same.
    fn alike(&self, word: &str) -> Vec<Term> {
        let length = word.chars().count();
        if length < ALIKE_LETTERS {
            return Vec::new();
        }
        let beginning = word.char_indices().nth(ALIKE_LETTERS).map_or(word, |(at, _)| &word[..at]);
        let from = self.spelling.partition_point(|(other, _)| other.as_str() < beginning);
        let candidates = self.spelling[from..].iter().take_while(|(other, _)| other.starts_with(beginning));
        candidates
            .take(ALIKE_COMPARED)
            .filter(|(other, _)| {
                let shared = word.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
                let others = other.chars().count();
                let contained = shared == length || shared == others;
                other != word && (contained || shared as f32 >= ALIKE_SHARE * length.max(others) as f32)
            })
            .take(ALIKE_MOST)
            .map(|(_, term)| *term)
            .collect()
    }

    /// The terms that sound like a word of another script.
    fn sounding(&self, sound: &str) -> impl Iterator<Item = Term> {
        let latin = self.sounds.get_or_init(|| {
            let mut sounds: HashMap<String, Vec<Term>> = HashMap::new();
            for (word, term) in &self.spelling {
                if let Some(sound) =
                    Some(word).filter(|word| word.is_ascii()).and_then(|word| languages::consonants(word))
                {
                    sounds.entry(sound).or_default().push(*term);
                }
            }
            sounds
        });
        let same_script = self.terms.get(&build::by_sound(sound));
        latin.get(sound).into_iter().flatten().take(SOUNDS_ALIKE_MOST).chain(same_script).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_tell_what_they_lead_to() {
        for (part, thing) in [
            ("https://example.com/a?b=c", Some("url")),
            ("(www.example.com).", Some("url")),
            ("ann@example.com,", Some("email")),
            ("/root/notes/today.md.", Some("file")),
            ("'~/music'", Some("directori")),
            ("/root/music", Some("directori")),
            ("and/or", None),
            ("/", None),
            ("3/4", None),
            ("notes.md", None),
        ] {
            assert_eq!(addressed(part), thing, "{part}");
        }
    }
}
