//! Text to words: identifiers split, scripts apart, common words left out, the rest reduced to stems.

use std::collections::HashMap;

use rust_stemmers::{Algorithm, Stemmer};

use super::languages::{self, Script};
use super::vocabulary::{SAME_MEANING, is_routine, is_stop_word};

/// A part of a text, as a search compares it.
pub(super) enum Piece<'a> {
    /// A word by its stem.
    Word { stem: &'a str, kind: Kind },
    /// The word before in English, or in Latin letters. It stands at no place of its own.
    Meaning(&'a str),
    /// The word before by its consonants, if it is of another script.
    Sound(&'a str),
    /// The end of a sentence.
    End,
}

/// How much a word of a question tells about the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It may be what the tool is about.
    Telling,
    /// Requests are full of it.
    Routine,
    /// Mostly a value for the tool, seldom a part of its name.
    Number,
}

/// The stem of a word, and the words that mean the same. A stop word has no stem.
struct Known {
    stem: Option<String>,
    kind: Kind,
    meanings: Vec<String>,
    sound: Option<String>,
}

impl Known {
    fn tell(&self, each: &mut impl FnMut(Piece<'_>)) {
        if let Some(stem) = &self.stem {
            each(Piece::Word { stem, kind: self.kind });
            self.meanings.iter().for_each(|meaning| each(Piece::Meaning(meaning)));
            self.sound.iter().for_each(|sound| each(Piece::Sound(sound)));
        }
    }
}

/// Reads text into words. Keeps what it has worked out: a catalog uses few words often.
pub(super) struct Reader {
    stemmer: Stemmer,
    known: HashMap<String, Known>,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English), known: HashMap::new() }
    }

    /// Calls `each` with every piece of `text`, in order.
    pub(super) fn read(&mut self, text: &str, mut each: impl FnMut(Piece<'_>)) {
        let Self { stemmer, known } = self;
        split(text, |unit| match unit {
            Unit::Word(word) => {
                if let Some(known) = known.get(word) {
                    known.tell(&mut each);
                } else {
                    let new = work_out(word, stemmer);
                    new.tell(&mut each);
                    known.insert(word.to_owned(), new);
                }
            }
            Unit::Run(script, run) => {
                languages::pairs(run, |pair| each(Piece::Word { stem: pair, kind: Kind::Telling }));
                languages::readings(script, run, |reading| each(Piece::Meaning(reading)));
                if let Some(sound) = languages::sound(run) {
                    each(Piece::Sound(&sound));
                }
            }
            Unit::Stretch(stretch) => {
                for meaning in languages::meanings_in(stretch) {
                    each(Piece::Meaning(&stemmer.stem(meaning)));
                }
            }
            Unit::End => each(Piece::End),
        });
    }

    /// Calls `each` with the stem of every word of `text`, in order.
    pub(super) fn read_words(&mut self, text: &str, mut each: impl FnMut(&str)) {
        self.read(text, |piece| {
            if let Piece::Word { stem, .. } = piece {
                each(stem);
            }
        });
    }

    /// For each stem, the stems of those that mean the same.
    pub(super) fn same_meaning(&mut self) -> HashMap<String, Vec<String>> {
        let mut out: HashMap<String, Vec<String>> = HashMap::new();
        for group in SAME_MEANING.lines() {
            let mut stems = Vec::new();
            self.read_words(group, |stem| stems.push(stem.to_owned()));
            for stem in &stems {
                out.entry(stem.clone()).or_default().extend(stems.iter().filter(|other| *other != stem).cloned());
            }
        }
        out
    }
}

fn work_out(word: &str, stemmer: &Stemmer) -> Known {
    if is_stop_word(word) || languages::is_stop_word(word) {
        return Known { stem: None, kind: Kind::Telling, meanings: Vec::new(), sound: None };
    }
    let kind = match word {
        _ if word.chars().all(char::is_numeric) => Kind::Number,
        _ if is_routine(word) => Kind::Routine,
        _ => Kind::Telling,
    };
    let meanings = languages::meanings(word).map(|meaning| stemmer.stem(meaning).into_owned()).collect();
    // Words in other letters have no English endings.
    let stem = if word.is_ascii() { stemmer.stem(word).into_owned() } else { word.to_owned() };
    Known { stem: Some(stem), kind, meanings, sound: languages::sound(word) }
}

/// The pieces of a text.
enum Unit<'a> {
    /// A word in lower case, Latin letters without accents.
    Word(&'a str),
    /// Letters of a script that puts no spaces between words, or glues endings to them.
    Run(Script, &'a str),
    /// Such letters as far as they go, of whichever script.
    Stretch(&'a str),
    End,
}

#[derive(Clone, Copy, PartialEq)]
enum Class {
    Upper,
    Lower,
    Digit,
    Run(Script),
    /// An accent on its own, or a vowel sign: it belongs to the letter before.
    Mark,
    Other,
}

impl Class {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Digit,
            _ if c.is_ascii() => Self::Other,
            _ => match Script::of(c) {
                Some(script) => Self::Run(script),
                None if languages::is_mark(c) => Self::Mark,
                None if c.is_uppercase() => Self::Upper,
                None if c.is_alphabetic() => Self::Lower,
                None if c.is_numeric() => Self::Digit,
                None => Self::Other,
            },
        }
    }
}

/// Words and runs: letters, digits and scripts apart, `camelCase` and `HTTPServer` at their humps.
fn split(text: &str, mut each: impl FnMut(Unit<'_>)) {
    let (mut word, mut stretch) = (String::new(), String::new());
    let mut letters = text.chars().peekable();
    let mut last = Class::Other;
    // A full stop ends a sentence only if a space comes next: not in `v1.2` or `notes.md`.
    let mut stopped = false;
    let mut coming = letters.peek().map_or(Class::Other, |c| Class::of(*c));
    while let Some(c) = letters.next() {
        let this = coming;
        let next = letters.peek().map_or(Class::Other, |c| Class::of(*c));
        coming = next;
        if this == Class::Mark {
            continue;
        }
        let hump = this == Class::Upper && (last == Class::Lower || last == Class::Upper && next == Class::Lower);
        let digits = (this == Class::Digit) != (last == Class::Digit);
        let scripts = this != last && matches!((this, last), (Class::Run(_), _) | (_, Class::Run(_)));
        if this == Class::Other || hump || digits || scripts {
            flush(&mut word, last, &mut each);
        }
        if !matches!(this, Class::Run(_)) && !stretch.is_empty() {
            each(Unit::Stretch(&stretch));
            stretch.clear();
        }
        match this {
            Class::Run(_) => {
                word.push(c);
                stretch.push(c);
            }
            Class::Other => {
                if matches!(c, '?' | '!' | ';' | '\n' | '。' | '！' | '？' | '；') || stopped && c.is_whitespace() {
                    each(Unit::End);
                }
            }
            _ => languages::fold(c, &mut word),
        }
        stopped = c == '.';
        last = this;
    }
    flush(&mut word, last, &mut each);
    if !stretch.is_empty() {
        each(Unit::Stretch(&stretch));
    }
}

fn flush(word: &mut String, class: Class, each: &mut impl FnMut(Unit<'_>)) {
    if !word.is_empty() {
        each(match class {
            Class::Run(script) => Unit::Run(script, word),
            _ => Unit::Word(word),
        });
        word.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stems(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        Reader::new().read_words(text, |stem| out.push(stem.to_owned()));
        out
    }

    #[test]
    fn identifiers_are_split_and_words_reduced() {
        assert_eq!(stems("getHTTPServer2Status"), ["get", "http", "server", "2", "status"]);
        assert_eq!(stems("acr_registry-list.v2"), ["acr", "registri", "list", "v", "2"]);
        assert_eq!(stems("Please help me with calculating the calculations"), ["calcul", "calcul"]);
        assert_eq!(stems("the of and"), Vec::<String>::new());
    }

    #[test]
    fn accents_and_forms_of_letters_make_no_difference() {
        for (one, other) in [
            ("Größe", "GROSSE"),
            ("café", "cafe\u{301}"),
            ("Łódź smørrebrød", "lodz smorrebrod"),
            ("ＧｉｔＨｕｂ　４２", "GitHub 42"),
            ("ЁЛКА", "елка"),
            ("μουσική", "ΜΟΥΣΙΚΗ"),
            ("फ़ाइल", "फाइल"),
        ] {
            assert_eq!(stems(one), stems(other), "{one}");
        }
    }

    #[test]
    fn scripts_without_spaces_are_read_in_pairs_and_names_within_them_found() {
        assert_eq!(stems("東京"), ["東京"]);
        assert_eq!(stems("查询余票"), ["查询", "询余", "余票"]);
        assert_eq!(stems("githubのissueを作成"), ["github", "の", "issu", "を", "作成"]);
        assert_eq!(stems("파일을"), ["파일", "일을"]);
    }

    #[test]
    fn sentences_end_where_a_reader_would_say_so() {
        let ends = |text: &str| {
            let mut ends = 0;
            Reader::new().read(text, |piece| ends += usize::from(matches!(piece, Piece::End)));
            ends
        };
        assert_eq!(ends("Open notes.md in v1.2 please"), 0);
        assert_eq!(ends("Open it. Then close it! Why?"), 3);
        assert_eq!(ends("打开文件。然后关闭"), 1);
    }
}
