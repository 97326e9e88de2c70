//! Ranked search: BM25 over several fields, with what helps when a person or a model asks for a tool they have never seen.
//!
//! What each part is there for:
//!
//! - **Fields** (`build.rs`). A word of the name says more than one of the description, and one of a short text more than one of a long
//!   one. A tool has some part in what the other tools of its owner talk about.
//! - **Close words** (`question.rs`). Words that begin alike, and words that mean the same to a program, count a little.
//! - **Words of requests** (`vocabulary.rs`). "Tell", "looking" and "interested" are rare in a small catalog, so BM25 would take them for
//!   telling. Numbers are mostly values for the tool.
//! - **Sentences.** A request for several things often has one in each sentence, so the sentence that a tool fits best counts besides the
//!   whole.
//! - **Phrases.** Words that stand side by side in the question and in the entry count more: "stock price", "air quality".
//! - **Names.** A name that the question covers counts more, and of tools with the same name all but the first come later, so that one
//!   popular name does not fill the page.
//! - **Other languages** (`languages`).
//!
//! How much each brings, and what was tried and left out, is in BENCHMARKS.md.

mod build;
mod languages;
mod question;
mod stems;
mod vocabulary;
mod words;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use crate::Entry;
use question::{Question, Wanted};
pub use stems::stems;

/// A part of an entry that has a weight of its own.
#[derive(Clone, Copy)]
enum Field {
    Name,
    Owner,
    Description,
    Parameters,
}

/// The weight of a word of a field.
struct Worth {
    weight: f32,
    /// How much less in a long text, from 0 (no less) to 1.
    norm: f32,
}

impl Worth {
    /// For a text with so many times the average length. In an empty one there is nothing to be worth anything.
    fn scale(&self, length: f32) -> f32 {
        if length == 0.0 {
            return 0.0;
        }
        self.weight / (1.0 - self.norm + self.norm * length)
    }
}

/// In the order of [`Field`].
const FIELDS: [Worth; 4] = [
    Worth { weight: 4.0, norm: 0.6 },
    // The shorter an owner's name, the more surely it is meant.
    Worth { weight: 4.0, norm: 1.0 },
    Worth { weight: 1.0, norm: 0.75 },
    Worth { weight: 0.8, norm: 0.5 },
];
/// What several tools of the same owner talk about.
const FAMILY: Worth = Worth { weight: 0.8, norm: 0.8 };

const SATURATION: f32 = 1.2;
/// The best sentence, besides the whole question.
const SENTENCE: f32 = 0.4;
/// A name that the question covers.
const COVERED: f32 = 0.3;
/// Each further tool of a name that is already on the page.
const REPEATED: f32 = 0.8;
/// How many of the best by words alone are looked at closely: phrases, names, repetitions.
const LOOKED_AT: usize = 100;

type Term = u32;
/// Per term: who has it, and how much.
type Postings = Vec<Vec<(u32, f32)>>;

/// A catalog made searchable. Built once per catalog; a query takes well under a millisecond.
pub struct Index {
    entries: Vec<Indexed>,
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
    same_meaning: HashMap<String, Vec<String>>,
    /// Whether any entry has words of other scripts.
    has_sounds: bool,
    /// Terms in Latin letters by their consonants, made when a question in another script needs them.
    sounds: OnceLock<HashMap<String, Vec<Term>>>,
}

/// An entry, and what is needed to look at it closely.
struct Indexed {
    entry: Arc<Entry>,
    /// The distinct terms of its name.
    name: Vec<Term>,
    /// A number that entries share if their names have the same terms.
    named: u32,
    /// The terms of each field in their order.
    orders: [Vec<Term>; FIELDS.len()],
    /// The weight of one word of each field.
    scales: [f32; FIELDS.len()],
}

/// The entries of one owner, and what they have in common.
struct Family {
    members: Vec<u32>,
    shares: BTreeMap<Term, f32>,
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

impl Index {
    /// The best `limit` tools for a query, best first. A tool whose id or name is exactly the query comes first; a query
    /// without a usable word finds nothing else.
    pub fn search(&self, query: &str, limit: usize) -> Vec<Arc<Entry>> {
        let question = Question::read(query, self);
        let mut best = self.best(&question, limit.max(LOOKED_AT));
        let looked_at = best.len().min(LOOKED_AT);
        self.look_closely(&question, &mut best[..looked_at]);
        let exact = self.exact(query);
        let rest = best.into_iter().map(|hit| hit.index).filter(|index| !exact.contains(index));
        let found = exact.iter().copied().chain(rest).take(limit);
        found.map(|index| Arc::clone(&self.entries[index as usize].entry)).collect()
    }

    /// Entries whose id or name is what was asked for, in the order of their ids.
    fn exact(&self, asked: &str) -> Vec<u32> {
        self.exact.get(&asked.trim().to_lowercase()).cloned().unwrap_or_default()
    }

    /// The best `most` entries by their terms alone, best first.
    fn best(&self, question: &Question, most: usize) -> Vec<Hit> {
        let scores = self.scores(question);
        let hits = scores.into_iter().enumerate().map(|(index, score)| Hit { index: index as u32, score });
        let mut hits: Vec<Hit> = hits.filter(|hit| hit.score > 0.0).collect();
        if hits.len() > most {
            hits.select_nth_unstable_by(most, Hit::better_first);
            hits.truncate(most);
        }
        hits.sort_by(Hit::better_first);
        hits
    }

    /// The weight of the terms of a question, for each entry: all together, and those of the best sentence once more.
    fn scores(&self, question: &Question) -> Vec<f32> {
        let mut whole = vec![0.0; self.entries.len()];
        let mut sentences = vec![vec![0.0; self.entries.len()]; question.sentences.len()];
        let mut amounts = vec![0.0; self.entries.len()];
        for (term, weight) in &question.whole {
            let worth = self.worth(*term, &mut amounts);
            worth.iter().for_each(|(index, worth)| whole[*index as usize] += weight * worth);
            for (wanted, scores) in question.sentences.iter().zip(&mut sentences) {
                if let Some(weight) = wanted.get(term) {
                    worth.iter().for_each(|(index, worth)| scores[*index as usize] += weight * worth);
                }
            }
        }
        for (index, score) in whole.iter_mut().enumerate() {
            let best = sentences.iter().map(|scores| scores[index]).fold(0.0, f32::max);
            *score += SENTENCE * best;
        }
        whole
    }

    /// The entries that have a term, with what it is worth there. `amounts` is zero before and after.
    fn worth(&self, term: Term, amounts: &mut [f32]) -> Vec<(u32, f32)> {
        let mut having: Vec<(u32, f32)> = Vec::with_capacity(self.postings[term as usize].len());
        let mut put = |index: u32, amount: f32| {
            if amounts[index as usize] == 0.0 {
                having.push((index, 0.0));
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
        let rarity = self.rarity[term as usize];
        for (index, worth) in &mut having {
            *worth = rarity * saturated(std::mem::take(&mut amounts[*index as usize]));
        }
        having
    }

    /// Orders the best hits anew: by phrases and covered names, and with tools of the same name apart.
    fn look_closely(&self, question: &Question, hits: &mut [Hit]) {
        for hit in hits.iter_mut() {
            let entry = &self.entries[hit.index as usize];
            hit.score += entry.phrases(question);
            hit.score *= 1.0 + COVERED * self.coverage(entry, &question.whole);
        }
        hits.sort_by(Hit::better_first);
        let mut seen: HashMap<u32, i32> = HashMap::new();
        for hit in hits.iter_mut() {
            let times = seen.entry(self.entries[hit.index as usize].named).or_insert(0);
            hit.score *= REPEATED.powi(*times);
            *times += 1;
        }
        hits.sort_by(Hit::better_first);
    }

    /// How much of an entry's name is wanted, from 0 to 1, rare words more.
    fn coverage(&self, entry: &Indexed, wanted: &Wanted) -> f32 {
        let (mut covered, mut whole) = (0.0, f32::MIN_POSITIVE);
        for term in &entry.name {
            let rarity = self.rarity[*term as usize];
            whole += rarity;
            covered += rarity * wanted.get(term).copied().unwrap_or_default();
        }
        covered / whole
    }
}

impl Indexed {
    /// The weight of the phrases of a question here.
    fn phrases(&self, question: &Question) -> f32 {
        if question.phrases.is_empty() {
            return 0.0;
        }
        let mut found: BTreeMap<(Term, Term), (f32, f32)> = BTreeMap::new();
        for (order, scale) in self.orders.iter().zip(self.scales) {
            for pair in order.windows(2) {
                if let Some(worth) = question.phrases.worth(pair[0], pair[1]) {
                    let (_, amount) = found.entry((pair[0], pair[1])).or_insert((worth, 0.0));
                    *amount += scale;
                }
            }
        }
        found.values().map(|(worth, amount)| worth * saturated(*amount)).sum()
    }
}

/// The second word of a kind tells less than the first.
fn saturated(amount: f32) -> f32 {
    amount * (SATURATION + 1.0) / (amount + SATURATION)
}
