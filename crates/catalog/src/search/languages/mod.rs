//! Other languages than English, as far as a search gets without a model of language.
//!
//! Words are compared without accents, scripts without spaces in pairs of letters, and names across scripts by their consonants.
//! A table translates the few words that requests to tools have most often. All else in another language than the catalog's stays
//! unknown.

mod table;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use any_ascii::any_ascii_char;

/// A script whose words are not told apart by spaces, or change their endings with every use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    Han,
    Hiragana,
    Katakana,
    Hangul,
    /// Thai, Lao, Burmese and Khmer.
    SouthEastAsian,
}

impl Script {
    pub(super) fn of(c: char) -> Option<Self> {
        match c {
            '\u{3400}'..='\u{4dbf}'
            | '\u{4e00}'..='\u{9fff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}'
            | '々' => Some(Self::Han),
            '\u{3041}'..='\u{3096}' => Some(Self::Hiragana),
            '\u{30a1}'..='\u{30fa}' | 'ー' | '\u{ff66}'..='\u{ff9d}' => Some(Self::Katakana),
            '\u{ac00}'..='\u{d7a3}' | '\u{1100}'..='\u{11ff}' | '\u{3131}'..='\u{318e}' => Some(Self::Hangul),
            '\u{e01}'..='\u{e4e}' | '\u{e80}'..='\u{edf}' | '\u{1000}'..='\u{103e}' | '\u{1780}'..='\u{17d3}' => {
                Some(Self::SouthEastAsian)
            }
            _ => None,
        }
    }
}

/// Accents on their own, and signs that change how a letter is read: words are compared without them.
pub(super) fn is_mark(c: char) -> bool {
    matches!(
        c,
        '\u{300}'..='\u{36f}' // accents
            | '\u{5b0}'..='\u{5c7}' // Hebrew points
            | '\u{640}' | '\u{64b}'..='\u{65f}' | '\u{670}' // Arabic lengthening and vowels
            | '\u{93c}' | '\u{94d}' // nukta and virama of Devanagari
            | '\u{200b}'..='\u{200f}' | '\u{ad}' | '\u{fe00}'..='\u{fe0f}' // invisible
    )
}

/// Adds a letter as it is compared: in lower case, Latin without accents, others in one of their spellings.
pub(super) fn fold(c: char, to: &mut String) {
    match c {
        _ if c.is_ascii() => to.push(c.to_ascii_lowercase()),
        _ if is_latin(c) || c.is_numeric() => {
            let plain = any_ascii_char(c).bytes().filter(u8::is_ascii_alphanumeric);
            to.extend(plain.map(|byte| char::from(byte.to_ascii_lowercase())));
        }
        _ => to.extend(c.to_lowercase().filter(|c| !is_mark(*c)).map(spelled_once)),
    }
}

fn is_latin(c: char) -> bool {
    matches!(c, '\u{aa}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' | '\u{2c60}'..='\u{2c7f}' | '\u{a720}'..='\u{a7ff}' | '\u{fb00}'..='\u{fb06}' | '\u{ff21}'..='\u{ff5a}')
}

/// Letters that people write in more than one way.
fn spelled_once(c: char) -> char {
    match c {
        'ά' => 'α',
        'έ' => 'ε',
        'ή' => 'η',
        'ί' | 'ϊ' | 'ΐ' => 'ι',
        'ό' => 'ο',
        'ύ' | 'ϋ' | 'ΰ' => 'υ',
        'ώ' => 'ω',
        'ς' => 'σ',
        'ё' => 'е',
        'أ' | 'إ' | 'آ' => 'ا',
        'ى' => 'ي',
        'ة' => 'ه',
        '\u{958}' => 'क',
        '\u{959}' => 'ख',
        '\u{95a}' => 'ग',
        '\u{95b}' => 'ज',
        '\u{95c}' => 'ड',
        '\u{95d}' => 'ढ',
        '\u{95e}' => 'फ',
        '\u{95f}' => 'य',
        _ => c,
    }
}

/// Calls `each` with every two neighbours of a run, or with its only letter.
pub(super) fn pairs(run: &str, mut each: impl FnMut(&str)) {
    let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    if starts.len() == 2 {
        each(run);
    }
    for pair in starts.windows(3) {
        each(&run[pair[0]..pair[2]]);
    }
}

/// Calls `each` with a run in Latin letters, where it may be a name. Chinese names have two or three syllables mostly, but nothing says
/// where they begin.
pub(super) fn readings(script: Script, run: &str, mut each: impl FnMut(&str)) {
    if script != Script::Han {
        return;
    }
    let syllables: Vec<String> = run.chars().map(|c| any_ascii_char(c).trim().to_ascii_lowercase()).collect();
    for length in [2, 3] {
        syllables.windows(length).for_each(|name| each(&name.concat()));
    }
}

/// The table as it is searched: entries that are a whole word, and entries that words begin with.
struct Table {
    whole: HashMap<String, Vec<&'static str>>,
    beginnings: HashMap<String, Vec<&'static str>>,
    stop_words: HashSet<String>,
    /// The most letters of an entry.
    longest: usize,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table { whole: HashMap::new(), beginnings: HashMap::new(), stop_words: HashSet::new(), longest: 0 };
    for line in table::WORDS.lines() {
        let Some((english, others)) = line.split_once(':') else { continue };
        for other in others.split_whitespace() {
            let (letters, to) = match other.strip_suffix('~') {
                Some(beginning) => (beginning, &mut table.beginnings),
                None => (other, &mut table.whole),
            };
            let entry = folded(letters);
            table.longest = table.longest.max(entry.chars().count());
            to.entry(entry).or_default().extend(english.split_whitespace());
        }
    }
    table.stop_words = table::STOP_WORDS.split_whitespace().map(folded).collect();
    table
});

fn folded(text: &str) -> String {
    let mut out = String::new();
    text.chars().filter(|c| !is_mark(*c)).for_each(|c| fold(c, &mut out));
    out
}

/// How many letters an ending may have.
const LONGEST_ENDING: usize = 5;

/// English for a word of another language, if the table has it.
pub(super) fn meanings(word: &str) -> impl Iterator<Item = &'static str> {
    let article = ["وال", "بال", "لل", "ال"].iter().find_map(|article| word.strip_prefix(article));
    let found = meanings_of(word).or_else(|| article.and_then(meanings_of));
    found.into_iter().flatten().copied()
}

fn meanings_of(word: &str) -> Option<&'static Vec<&'static str>> {
    let table = &*TABLE;
    if let Some(found) = table.whole.get(word) {
        return Some(found);
    }
    let ends = word.char_indices().map(|(at, _)| at).chain([word.len()]);
    let likely = ends.collect::<Vec<_>>();
    let fitting = likely.iter().rev().take(LONGEST_ENDING + 1).filter(|end| **end > 0);
    fitting.into_iter().find_map(|end| table.beginnings.get(&word[..*end]))
}

/// English for what stands in a run of letters without spaces: at each place the longest entry that the table has.
pub(super) fn meanings_in(run: &str) -> Vec<&'static str> {
    let table = &*TABLE;
    let mut out = Vec::new();
    let starts: Vec<usize> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
    let mut at = 0;
    while at + 1 < starts.len() {
        let most = table.longest.min(starts.len() - 1 - at);
        let found = (1..=most).rev().find_map(|length| {
            let entry = &run[starts[at]..starts[at + length]];
            table.whole.get(entry).map(|english| (length, english))
        });
        match found {
            Some((length, english)) => {
                out.extend(english);
                at += length;
            }
            None => at += 1,
        }
    }
    out
}

/// Whether a word is one that another language cannot do without, and English does not have.
pub(super) fn is_stop_word(word: &str) -> bool {
    TABLE.stop_words.contains(word)
}

/// The fewest consonants by which words are the same.
const FEWEST_CONSONANTS: usize = 3;

/// A word by its consonants as they sound, so that a name is the same in two scripts: `github` and `гитхаб`, `slack` and `슬랙`. Words
/// with few consonants have none: too many would be the same.
///
/// [`sound`] is for words of other scripts only.
pub(super) fn consonants(word: &str) -> Option<String> {
    let latin: String = word.chars().map(any_ascii_char).collect::<String>().to_ascii_lowercase();
    let letters: Vec<u8> = latin.bytes().filter(u8::is_ascii_alphabetic).collect();
    let mut out = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let next = letters.get(at + 1).copied();
        let sound = match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' | b'y' | b'j' => {
                if at == 0 {
                    out.push('a');
                }
                continue;
            }
            b'c' if matches!(next, Some(b'e' | b'i' | b'y')) => "s",
            b'k' if next == Some(b'h') => continue,
            b'c' | b'g' | b'k' | b'q' => "k",
            b't' if next == Some(b's') => continue,
            b'p' if next == Some(b'h') => continue,
            b'h' if at > 0 && letters[at - 1] == b'p' => "f",
            b'x' => "ks",
            b'z' => "s",
            b'w' => "v",
            b'l' => "r",
            _ => {
                push(&mut out, char::from(*letter));
                continue;
            }
        };
        sound.chars().for_each(|sound| push(&mut out, sound));
    }
    (out.len() >= FEWEST_CONSONANTS).then_some(out)
}

/// The consonants of a word that is not in Latin letters. Chinese characters have too many readings, and Thai vowels stand in front of what
/// they follow.
pub(super) fn sound(word: &str) -> Option<String> {
    let by_sound = |c: char| !matches!(Script::of(c), Some(Script::Han | Script::Hiragana | Script::SouthEastAsian));
    if word.is_ascii() || !word.chars().all(by_sound) {
        return None;
    }
    consonants(word)
}

/// Adds a sound that is not the one before.
fn push(out: &mut String, sound: char) {
    if !out.ends_with(sound) {
        out.push(sound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::vocabulary;

    #[test]
    fn english_words_are_left_alone() {
        for word in vocabulary::english() {
            assert_eq!(meanings(word).collect::<Vec<_>>(), Vec::<&str>::new(), "{word}");
            assert!(!is_stop_word(word), "{word}");
        }
    }

    #[test]
    fn every_line_of_the_table_is_read() {
        for line in table::WORDS.lines() {
            let (english, others) = line.split_once(": ").expect("English, a colon and other words");
            assert!(
                english.split_whitespace().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())),
                "{line}"
            );
            for other in others.split_whitespace() {
                let letters = other.strip_suffix('~').unwrap_or(other);
                assert!(letters.chars().all(char::is_alphanumeric) || !letters.is_ascii(), "{other}");
            }
        }
    }

    #[test]
    fn endings_are_short_and_articles_are_no_part_of_a_word() {
        let meaning = |word: &str| meanings(&folded(word)).next();
        assert_eq!(meaning("Dateien"), Some("file"));
        assert_eq!(meaning("Dateiverwaltungsprogramm"), None);
        assert_eq!(meaning("الملف"), Some("file"));
        assert_eq!(meaning("الطقس"), Some("weather"));
    }

    #[test]
    fn names_have_the_same_consonants_in_every_script() {
        for (name, others) in [
            ("github", &["гитхаб", "ギットハブ"][..]),
            ("slack", &["слак", "슬랙"]),
            ("telegram", &["телеграм", "テレグラム", "텔레그램"]),
            ("repository", &["репозиторий", "репозитории"]),
            ("instagram", &["инстаграм", "インスタグラム"]),
        ] {
            for other in others {
                assert_eq!(sound(other), consonants(name), "{other}");
            }
        }
        assert_eq!(consonants("file"), None, "two consonants say nothing");
        assert_eq!(sound("github"), None, "Latin letters are compared as they are");
    }
}
