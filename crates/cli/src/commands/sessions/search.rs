//! Entries that contain all words.

use std::collections::HashMap;

use pincer_store::{Entry, Session, SessionId, Sessions};
use pincer_tools::one_line;
use serde_json::{Value, json};

use crate::print::note;
use crate::refused::Refused;

use super::House;
use super::find::key;
use super::page::clock;
use super::said::Said;

/// The entries that are read at first, and at most.
const FIRST: u32 = 200;
const MOST: u32 = 20_000;
/// The most characters of an excerpt.
const MOST_EXCERPT: usize = 400;
/// The most characters of a speaker.
const MOST_WHO: usize = 60;

pub(super) async fn search(house: &House, words: &[String], limit: u32) -> Result<(Value, String), Refused> {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    // The store looks at JSON, where letters may be escaped and names of members are no text: what it finds is read again.
    let parts: Vec<String> = words.iter().filter_map(|word| plain(word)).collect();
    let mut asked = FIRST.max(limit.saturating_mul(4)).min(MOST);
    let found = loop {
        let entries = house.store.search_entries(Some(&house.user), parts.clone(), asked).await?;
        let is_all = (entries.len() as u32) < asked;
        let read = entries.into_iter().map(|(session, entry)| (session, Said::of(&entry), entry));
        let mut found: Vec<(SessionId, Said, Entry)> = read.filter(|(_, said, _)| said.has_all(&words)).collect();
        if is_all || asked == MOST || found.len() >= limit as usize {
            if !is_all && found.len() < limit as usize {
                note(&format!("note: of the entries that may fit, only the latest {MOST} were read"));
            }
            found.truncate(limit as usize);
            break found;
        }
        asked = asked.saturating_mul(8).min(MOST);
    };
    let mut sessions: HashMap<SessionId, Session> = HashMap::new();
    for (id, _, _) in &found {
        if !sessions.contains_key(id) {
            sessions.insert(id.clone(), house.store.session(id).await?);
        }
    }
    let first = words.first().map_or("", String::as_str);
    let (mut documents, mut blocks) = (Vec::new(), Vec::new());
    for (id, said, entry) in &found {
        let Some(session) = sessions.get(id) else { continue };
        let excerpt = said.around(first);
        documents.push(json!({
            "session": id,
            "key": session.key,
            "isCurrent": session.is_current,
            "entry": entry.id,
            "kind": entry.kind.as_str(),
            "at": entry.at,
            "who": said.who,
            "excerpt": excerpt,
        }));
        let name = match session.is_current {
            true => key(session.key.as_str()),
            false => format!("{} ({id})", key(session.key.as_str())),
        };
        let (who, excerpt) = (one_line(&said.who, MOST_WHO), one_line(&excerpt.replace('\n', " "), MOST_EXCERPT));
        let entry_id = one_line(entry.id.as_str(), MOST_WHO);
        blocks.push(format!("{name}  {}  {who}  #{entry_id}\n  {excerpt}", clock(entry.at)));
    }
    let text = match blocks.is_empty() {
        true => "no entry contains all these words".to_owned(),
        false => blocks.join("\n"),
    };
    Ok((json!(documents), text))
}

/// Returns the longest part of a word that is the same in every JSON text.
fn plain(word: &str) -> Option<String> {
    let parts = word.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.max_by_key(|part| part.len()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_asked_for_what_no_escape_changes() {
        let check = |word: &str, expected: Option<&str>| assert_eq!(plain(word).as_deref(), expected, "{word}");
        check("invoice", Some("invoice"));
        check("c:\\temp\\invoices", Some("invoices"));
        check("äpfel", Some("pfel"));
        check("中文", None);
    }
}
