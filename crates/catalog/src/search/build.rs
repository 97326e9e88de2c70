//! From the entries of a catalog to an index.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::words::{Piece, Reader};
use super::{FAMILY, FIELDS, Family, Field, Index, Indexed, Postings, Term};
use crate::text::start;
use crate::{Catalog, Entry};

/// How much of an entry is read. The words of a server about its tools have no end of their own.
const MOST_NAME: usize = 128;
const MOST_LABEL: usize = 512;
const MOST_DESCRIPTION: usize = 8 * 1024;
const MOST_PARAMETERS: usize = 16 * 1024;
/// How often one word of a field counts. A text that says it more often wants to be found.
const MOST_TIMES: usize = 4;
/// How deep into a schema its parameters are read.
const PARAMETER_DEPTH: usize = 4;

/// The mark before a word that is written as it sounds. No word has it, so that neither is taken for the other.
const BY_SOUND: char = '~';

/// The words of a catalog, numbered.
#[derive(Default)]
struct Vocabulary {
    terms: HashMap<String, Term>,
}

impl Vocabulary {
    fn number(&mut self, word: &str) -> Term {
        if let Some(term) = self.terms.get(word) {
            return *term;
        }
        let next = self.terms.len() as Term;
        *self.terms.entry(word.to_owned()).or_insert(next)
    }
}

/// One entry as it is read.
#[derive(Default)]
struct Read {
    /// Each word with its field, as often as it is there.
    words: Vec<(Term, usize)>,
    /// The terms of each field in their order.
    orders: [Vec<Term>; FIELDS.len()],
}

impl Read {
    fn add(&mut self, field: Field, text: &str, reader: &mut Reader, vocabulary: &mut Vocabulary) {
        let field = field as usize;
        reader.read(text, |piece| {
            let term = match piece {
                Piece::Word { stem, .. } => {
                    let term = vocabulary.number(stem);
                    self.orders[field].push(term);
                    term
                }
                // The same word once more: no second place, and no greater length.
                Piece::Meaning(meaning) => vocabulary.number(meaning),
                Piece::Sound(sound) => vocabulary.number(&by_sound(sound)),
                Piece::End => return,
            };
            self.words.push((term, field));
        });
    }

    /// Of each distinct term the words that are it.
    fn by_term(&self) -> impl Iterator<Item = &[(Term, usize)]> {
        self.words.chunk_by(|(one, _), (other, _)| one == other)
    }
}

/// The term for what sounds like this.
pub(super) fn by_sound(sound: &str) -> String {
    format!("{BY_SOUND}{sound}")
}

impl Index {
    /// Reads all entries. Parameters count for trusted tools only: otherwise a server could write itself into every search.
    pub fn new(catalog: &Catalog) -> Self {
        let entries: Vec<Arc<Entry>> = catalog.iter().cloned().collect();
        let mut reader = Reader::new();
        let mut vocabulary = Vocabulary::default();
        let read: Vec<Read> = entries.iter().map(|entry| read(entry, &mut reader, &mut vocabulary)).collect();
        let terms = vocabulary.terms;

        let scales = scales(&read);
        let postings = postings(&read, &scales, terms.len());
        let families = families(&entries, &read);
        let mut family_postings = vec![Vec::new(); terms.len()];
        for (number, family) in families.iter().enumerate() {
            for (term, amount) in &family.shares {
                family_postings[*term as usize].push((number as u32, *amount));
            }
        }
        let total = entries.len() as f32;
        let rarity = postings.iter().map(|list| rarity(total, list.len().max(1) as f32)).collect();
        let mut spelling: Vec<(String, Term)> = terms.iter().map(|(word, term)| (word.clone(), *term)).collect();
        spelling.sort_unstable();
        let mut exact: HashMap<String, Vec<u32>> = HashMap::new();
        for (index, entry) in entries.iter().enumerate() {
            for called in [entry.id.name().to_lowercase(), entry.id.to_string().to_lowercase()] {
                exact.entry(called).or_default().push(index as u32);
            }
        }
        Self {
            entries: indexed(entries, read, scales),
            has_sounds: spelling.iter().any(|(word, _)| word.starts_with(BY_SOUND)),
            terms,
            spelling,
            postings,
            family_postings,
            families: families.into_iter().map(|family| family.members).collect(),
            rarity,
            exact,
            same_meaning: reader.same_meaning(),
            sounds: OnceLock::new(),
        }
    }
}

fn read(entry: &Entry, reader: &mut Reader, vocabulary: &mut Vocabulary) -> Read {
    let mut read = Read::default();
    let mut add = |field: Field, text: &str| read.add(field, text, reader, vocabulary);
    add(Field::Name, start(entry.id.name(), MOST_NAME));
    add(Field::Owner, start(entry.id.owner(), MOST_NAME));
    add(Field::Description, start(entry.label.as_deref().unwrap_or_default(), MOST_LABEL));
    add(Field::Description, start(&entry.description, MOST_DESCRIPTION));
    if entry.flags.trusted {
        let mut left = MOST_PARAMETERS;
        parameters(&entry.input_schema, 0, &mut |text| {
            let text = start(text, left);
            left -= text.len();
            add(Field::Parameters, text);
        });
    }
    read.words.sort_unstable();
    read
}

/// Names and descriptions of a schema's properties.
fn parameters(schema: &Value, depth: usize, each: &mut impl FnMut(&str)) {
    if depth > PARAMETER_DEPTH {
        return;
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        each(name);
        if let Some(description) = property.get("description").and_then(Value::as_str) {
            each(description);
        }
        parameters(property, depth + 1, each);
        if let Some(items) = property.get("items") {
            parameters(items, depth + 1, each);
        }
    }
}

/// Of each entry, how much one word of each field is worth: less in a long text than in a short one.
fn scales(read: &[Read]) -> Vec<[f32; FIELDS.len()]> {
    let length = |read: &Read, field: usize| read.orders[field].len() as f32;
    let averages: [f32; FIELDS.len()] = std::array::from_fn(|field| {
        let sum: f32 = read.iter().map(|read| length(read, field)).sum();
        positive(sum / read.len().max(1) as f32)
    });
    let scale = |read: &Read, field: usize| FIELDS[field].scale(length(read, field) / averages[field]);
    read.iter().map(|read| std::array::from_fn(|field| scale(read, field))).collect()
}

/// Per term, the entries that have it, and how much of it.
fn postings(read: &[Read], scales: &[[f32; FIELDS.len()]], terms: usize) -> Postings {
    let mut postings = vec![Vec::new(); terms];
    for (index, (read, scale)) in read.iter().zip(scales).enumerate() {
        for words in read.by_term() {
            let of_field = |words: &[(Term, usize)]| words.len().min(MOST_TIMES) as f32 * scale[words[0].1];
            let amount = words.chunk_by(|one, other| one == other).map(of_field).sum();
            postings[words[0].0 as usize].push((index as u32, amount));
        }
    }
    postings
}

/// The entries of each owner that has several, and what at least two of them have in their name or description.
fn families(entries: &[Arc<Entry>], read: &[Read]) -> Vec<Family> {
    let mut members: BTreeMap<(&str, &str), Vec<u32>> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        members.entry((entry.id.source().as_str(), entry.id.owner())).or_default().push(index as u32);
    }
    let mut families: Vec<Family> = members
        .into_values()
        .filter(|members| members.len() > 1)
        .map(|members| {
            let mut shares: BTreeMap<Term, f32> = BTreeMap::new();
            for index in &members {
                let told = |field: usize| field == Field::Name as usize || field == Field::Description as usize;
                for words in read[*index as usize].by_term() {
                    if words.iter().any(|(_, field)| told(*field)) {
                        *shares.entry(words[0].0).or_default() += 1.0;
                    }
                }
            }
            shares.retain(|_, count| *count >= 2.0);
            shares.values_mut().for_each(|count| *count /= members.len() as f32);
            Family { members, shares }
        })
        .collect();
    let length = |family: &Family| family.shares.values().sum::<f32>();
    let weighted: f32 = families.iter().map(|family| family.members.len() as f32 * length(family)).sum();
    let average = positive(weighted / entries.len().max(1) as f32);
    for family in &mut families {
        let scale = FAMILY.scale(length(family) / average);
        family.shares.values_mut().for_each(|share| *share *= scale);
    }
    families
}

/// The part of each entry that is kept. Entries whose names have the same words get the same number.
fn indexed(entries: Vec<Arc<Entry>>, read: Vec<Read>, scales: Vec<[f32; FIELDS.len()]>) -> Vec<Indexed> {
    let mut same_names: HashMap<Vec<Term>, u32> = HashMap::new();
    let each = entries.into_iter().zip(read).zip(scales);
    each.map(|((entry, Read { orders, .. }), scales)| {
        let distinct: BTreeSet<Term> = orders[Field::Name as usize].iter().copied().collect();
        let name: Vec<Term> = distinct.into_iter().collect();
        let next = same_names.len() as u32;
        let named = *same_names.entry(name.clone()).or_insert(next);
        Indexed { entry, name, named, orders, scales }
    })
    .collect()
}

fn rarity(total: f32, having: f32) -> f32 {
    (1.0 + (total - having + 0.5) / (having + 0.5)).ln()
}

/// An average that can be divided by.
fn positive(average: f32) -> f32 {
    if average > 0.0 { average } else { 1.0 }
}
