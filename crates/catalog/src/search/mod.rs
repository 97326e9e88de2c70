//! Ranked search: BM25 over several fields, with what helps when a person asks for a tool they have never seen.
//!
//! On top of the usual: words that begin alike count a little (`analyze`, `analysis`; `convert`, `conversion`), and so do
//! verbs that mean the same to a program; a tool has some part in what the other tools of its owner talk about; a name that
//! the query covers counts more; and of tools with the same name, all but the first come later, so that one popular name does
//! not fill the page. What was tried and left out is in BENCHMARKS.md.

mod stems;
mod words;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::{Catalog, Entry};
pub use stems::stems;
use words::Reader;

/// Weight and length normalisation of a field.
struct Field {
    weight: f32,
    norm: f32,
}

const NAME: Field = Field { weight: 4.0, norm: 0.6 };
const OWNER: Field = Field { weight: 3.0, norm: 0.8 };
const DESCRIPTION: Field = Field { weight: 1.0, norm: 0.6 };
const PARAMETERS: Field = Field { weight: 0.8, norm: 0.75 };
/// What several tools of the same owner talk about.
const FAMILY: Field = Field { weight: 0.85, norm: 0.8 };
const FIELDS: [Field; 4] = [NAME, OWNER, DESCRIPTION, PARAMETERS];

const SATURATION: f32 = 1.15;
/// Rare words count a little more than BM25 has it.
const RARITY: f32 = 1.17;
/// A word that begins like one of the query, and how much more if the query's own word is unknown.
const ALIKE: f32 = 0.37;
const ALIKE_UNKNOWN: f32 = 1.58;
const ALIKE_LETTERS: usize = 4;
const ALIKE_SHARE: f32 = 0.7;
const ALIKE_MOST: usize = 24;
/// A verb that means the same.
const SAME_ACTION: f32 = 0.13;
/// A name that the query covers.
const COVERED: f32 = 0.15;
const COVERED_AMONG: usize = 60;
/// Each further tool of a name that is already on the page.
const REPEATED: f32 = 0.8;
const REPEATED_AMONG: usize = 40;
/// How deep into a schema its parameters are read.
const PARAMETER_DEPTH: usize = 4;

type Term = u32;
/// Per term: who has it, and how much.
type Postings = Vec<Vec<(u32, f32)>>;

/// A catalog made searchable. Built once per catalog; a query takes well under a millisecond.
pub struct Index {
    entries: Vec<Arc<Entry>>,
    /// Distinct stems of each name, and a number that equal sets share.
    names: Vec<(Vec<Term>, u32)>,
    terms: HashMap<String, Term>,
    /// Terms in the order of their spelling.
    spelling: Vec<(String, Term)>,
    postings: Postings,
    /// Per term, the families that talk about it.
    family_postings: Postings,
    families: Vec<Vec<u32>>,
    rarity: Vec<f32>,
    /// Ids and names in lower case.
    exact: HashMap<String, Vec<u32>>,
    actions: HashMap<String, Vec<String>>,
}

/// An entry and how well it fits.
#[derive(Clone, Copy)]
struct Hit {
    index: u32,
    score: f32,
}

impl Hit {
    /// Entries are numbered in the order of their ids, so that equal scores come by id.
    fn better_first(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(self.index.cmp(&other.index))
    }
}

/// Of one entry: how often each term stands in each field.
type Counts = BTreeMap<Term, [f32; FIELDS.len()]>;

impl Index {
    /// Reads all entries. Parameters count for trusted tools only: otherwise a server could write itself into every search.
    pub fn new(catalog: &Catalog) -> Self {
        let entries: Vec<Arc<Entry>> = catalog.iter().cloned().collect();
        let mut reader = Reader::new();
        let actions = reader.actions();
        let mut terms: HashMap<String, Term> = HashMap::new();
        let counted: Vec<Counts> = entries.iter().map(|entry| count(entry, &mut reader, &mut terms)).collect();

        let mut same_names: HashMap<Vec<Term>, u32> = HashMap::new();
        let names = counted
            .iter()
            .map(|counts| {
                let name: Vec<Term> =
                    counts.iter().filter(|(_, fields)| fields[0] > 0.0).map(|(term, _)| *term).collect();
                let next = same_names.len() as u32;
                let group = *same_names.entry(name.clone()).or_insert(next);
                (name, group)
            })
            .collect();
        let (families, family_postings) = families(&entries, &counted, terms.len());
        let postings = postings(&counted, terms.len());
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
        Self { entries, names, terms, spelling, postings, family_postings, families, rarity, exact, actions }
    }

    /// The best `limit` tools for a query, best first. A tool whose id or name is exactly the query comes first; a query
    /// without a usable word finds nothing else.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Arc<Entry>> {
        let wanted = self.wanted(query);
        let mut best = self.best(&wanted, limit.max(COVERED_AMONG) + REPEATED_AMONG);
        for hit in best.iter_mut().take(COVERED_AMONG) {
            hit.score *= 1.0 + COVERED * self.coverage(hit.index, &wanted);
        }
        best.sort_by(Hit::better_first);
        let mut seen: HashMap<u32, i32> = HashMap::new();
        for hit in best.iter_mut().take(REPEATED_AMONG) {
            let times = seen.entry(self.names[hit.index as usize].1).or_insert(0);
            hit.score *= REPEATED.powi(*times);
            *times += 1;
        }
        best.sort_by(Hit::better_first);
        let exact = self.exact(query.trim());
        let rest = best.into_iter().map(|hit| hit.index).filter(|index| !exact.contains(index));
        let found = exact.iter().copied().chain(rest).take(limit);
        found.map(|index| Arc::clone(&self.entries[index as usize])).collect()
    }

    /// Entries whose id or name is what was asked for, in the order of their ids.
    fn exact(&self, asked: &str) -> Vec<u32> {
        let asked = asked.to_lowercase();
        self.exact.get(&asked).cloned().unwrap_or_default()
    }

    /// The best `most` entries by their terms alone, best first.
    fn best(&self, wanted: &BTreeMap<Term, f32>, most: usize) -> Vec<Hit> {
        let mut scores = vec![0.0; self.entries.len()];
        let mut amounts = vec![0.0; self.entries.len()];
        for (term, weight) in wanted {
            self.add(*term, *weight, &mut amounts, &mut scores);
        }
        let hits = scores.into_iter().enumerate().map(|(index, score)| Hit { index: index as u32, score });
        let mut hits: Vec<Hit> = hits.filter(|hit| hit.score > 0.0).collect();
        if hits.len() > most {
            hits.select_nth_unstable_by(most, Hit::better_first);
            hits.truncate(most);
        }
        hits.sort_by(Hit::better_first);
        hits
    }

    /// How much of an entry's name is wanted, from 0 to 1, rare words more.
    fn coverage(&self, index: u32, wanted: &BTreeMap<Term, f32>) -> f32 {
        let (mut covered, mut whole) = (0.0, f32::MIN_POSITIVE);
        for term in &self.names[index as usize].0 {
            let rarity = self.rarity[*term as usize];
            whole += rarity;
            covered += rarity * wanted.get(term).copied().unwrap_or_default();
        }
        covered / whole
    }

    /// Adds what one term is worth to the scores of all entries that have it. `amounts` is zero before and after.
    fn add(&self, term: Term, weight: f32, amounts: &mut [f32], scores: &mut [f32]) {
        let mut touched: Vec<u32> = Vec::new();
        let mut put = |index: u32, amount: f32| {
            if amounts[index as usize] == 0.0 {
                touched.push(index);
            }
            amounts[index as usize] += amount;
        };
        for (index, amount) in &self.postings[term as usize] {
            put(*index, *amount);
        }
        for (family, amount) in &self.family_postings[term as usize] {
            for index in &self.families[*family as usize] {
                put(*index, *amount);
            }
        }
        let worth = weight * self.rarity[term as usize] * (SATURATION + 1.0);
        for index in touched {
            let amount = std::mem::take(&mut amounts[index as usize]);
            scores[index as usize] += worth * amount / (amount + SATURATION);
        }
    }

    /// The terms to look for: those of the query in full, and those that are close to them in part.
    fn wanted(&self, query: &str) -> BTreeMap<Term, f32> {
        let mut words: BTreeSet<String> = BTreeSet::new();
        Reader::new().read(query, |stem| {
            words.insert(stem.to_owned());
        });
        let mut wanted: BTreeMap<Term, f32> = BTreeMap::new();
        for word in &words {
            let known = self.terms.get(word).copied().filter(|term| !self.postings[*term as usize].is_empty());
            let alike = if known.is_some() { ALIKE } else { ALIKE * ALIKE_UNKNOWN };
            for term in self.alike(word) {
                raise(&mut wanted, term, alike);
            }
            for action in self.actions.get(word).into_iter().flatten() {
                if let Some(term) = self.terms.get(action) {
                    raise(&mut wanted, *term, SAME_ACTION);
                }
            }
        }
        for term in words.iter().filter_map(|word| self.terms.get(word)) {
            wanted.insert(*term, 1.0);
        }
        wanted
    }

    /// Other terms that begin like `word`: one is the beginning of the other, or most of both is the same.
    fn alike(&self, word: &str) -> Vec<Term> {
        if word.chars().count() < ALIKE_LETTERS {
            return Vec::new();
        }
        let start = word.char_indices().nth(ALIKE_LETTERS).map_or(word, |(at, _)| &word[..at]);
        let from = self.spelling.partition_point(|(other, _)| other.as_str() < start);
        let candidates = self.spelling[from..].iter().take_while(|(other, _)| other.starts_with(start));
        candidates
            .filter(|(other, _)| {
                let shared = word.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
                let longer = word.len().max(other.len());
                let contained = shared == word.len() || shared == other.len();
                other != word && (contained || shared as f32 >= ALIKE_SHARE * longer as f32)
            })
            .take(ALIKE_MOST)
            .map(|(_, term)| *term)
            .collect()
    }
}

fn raise(wanted: &mut BTreeMap<Term, f32>, term: Term, weight: f32) {
    let present = wanted.entry(term).or_insert(0.0);
    *present = present.max(weight);
}

fn rarity(total: f32, having: f32) -> f32 {
    (1.0 + (total - having + 0.5) / (having + 0.5)).ln().powf(RARITY)
}

fn count(entry: &Entry, reader: &mut Reader, terms: &mut HashMap<String, Term>) -> Counts {
    let mut counts = Counts::new();
    let mut read = |field: usize, text: &str| {
        reader.read(text, |stem| {
            let next = terms.len() as Term;
            let term = match terms.get(stem) {
                Some(term) => *term,
                None => *terms.entry(stem.to_owned()).or_insert(next),
            };
            counts.entry(term).or_default()[field] += 1.0;
        });
    };
    read(0, entry.id.name());
    read(1, entry.id.owner());
    read(2, entry.label.as_deref().unwrap_or_default());
    read(2, &entry.description);
    if entry.flags.trusted {
        parameters(&entry.input_schema, 0, &mut |text| read(3, text));
    }
    counts
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

/// Per term, the entries that have it, and how much of it by field weight and length.
fn postings(counted: &[Counts], terms: usize) -> Postings {
    let lengths: Vec<[f32; FIELDS.len()]> = counted
        .iter()
        .map(|counts| {
            counts.values().fold([0.0; FIELDS.len()], |mut sum, fields| {
                sum.iter_mut().zip(fields).for_each(|(sum, field)| *sum += field);
                sum
            })
        })
        .collect();
    let average = |field: usize| {
        let sum: f32 = lengths.iter().map(|lengths| lengths[field]).sum();
        Some(sum / lengths.len().max(1) as f32).filter(|average| *average > 0.0).unwrap_or(1.0)
    };
    let averages: [f32; FIELDS.len()] = std::array::from_fn(average);
    let mut postings = vec![Vec::new(); terms];
    for (index, counts) in counted.iter().enumerate() {
        let scale: [f32; FIELDS.len()] = std::array::from_fn(|field| {
            let Field { weight, norm } = FIELDS[field];
            weight / (1.0 - norm + norm * lengths[index][field] / averages[field])
        });
        for (term, fields) in counts {
            let amount = fields.iter().zip(scale).map(|(count, scale)| count * scale).sum();
            postings[*term as usize].push((index as u32, amount));
        }
    }
    postings
}

/// The entries of each owner that has several, and what at least two of them have in their name or description.
fn families(entries: &[Arc<Entry>], counted: &[Counts], terms: usize) -> (Vec<Vec<u32>>, Postings) {
    let mut members: BTreeMap<(&str, &str), Vec<u32>> = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        members.entry((entry.id.source().as_str(), entry.id.owner())).or_default().push(index as u32);
    }
    let families: Vec<Vec<u32>> = members.into_values().filter(|members| members.len() > 1).collect();
    let shares: Vec<BTreeMap<Term, f32>> = families
        .iter()
        .map(|members| {
            let mut having: BTreeMap<Term, f32> = BTreeMap::new();
            for index in members {
                for (term, fields) in &counted[*index as usize] {
                    if fields[0] + fields[2] > 0.0 {
                        *having.entry(*term).or_default() += 1.0;
                    }
                }
            }
            having.retain(|_, count| *count >= 2.0);
            having.values_mut().for_each(|count| *count /= members.len() as f32);
            having
        })
        .collect();
    let lengths: Vec<f32> = shares.iter().map(|shares| shares.values().sum()).collect();
    let weighted: f32 = families.iter().zip(&lengths).map(|(members, length)| members.len() as f32 * length).sum();
    let average = Some(weighted / entries.len().max(1) as f32).filter(|average| *average > 0.0).unwrap_or(1.0);
    let mut postings = vec![Vec::new(); terms];
    for (family, shares) in shares.into_iter().enumerate() {
        let scale = FAMILY.weight / (1.0 - FAMILY.norm + FAMILY.norm * lengths[family] / average);
        for (term, share) in shares {
            postings[term as usize].push((family as u32, share * scale));
        }
    }
    (families, postings)
}
