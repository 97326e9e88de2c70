//! Entries that contain words.

use std::collections::BinaryHeap;

use pincer_store::{Entry, Millis, SessionId};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::rows::id;
use crate::sessions::{ENTRY, read_entry};

/// The most entries that one search looks at, so that a large store answers in time.
const MOST_SEARCHED: u32 = 200_000;

/// The sessions of a user, or of all, those that changed last first.
pub(crate) const OF_USER: &str = "SELECT number, updated_at FROM session
    WHERE user = ?1 AND (is_current = 1 OR ended IS NOT NULL) ORDER BY updated_at DESC";
pub(crate) const OF_ALL: &str = "SELECT number, updated_at FROM session
    WHERE ?1 IS NULL AND (is_current = 1 OR ended IS NOT NULL) ORDER BY updated_at DESC";
/// The last entry of a session before a position.
pub(crate) const LAST: &str = "SELECT at, rowid, session, position FROM entry WHERE session = ?1 AND position < ?2
    ORDER BY position DESC LIMIT 1";

/// The next entry of a session that is looked at: its time and row, and its session and position.
type Head = (Millis, i64, i64, u32);

/// Returns the latest entries that contain all these words, in any case.
///
/// Looks at one entry after the other and stops when there are enough. Nothing is stored in a session after it changed last, so a
/// session is looked at only when no entry at hand is later than that. Within a session entries are looked at in their order.
pub(crate) fn search(
    connection: &Connection,
    user: Option<&str>,
    words: &[String],
    limit: u32,
) -> rusqlite::Result<Vec<(SessionId, Entry)>> {
    let words: Vec<String> = words.iter().map(|word| lower(word.chars())).collect();
    // Entries stay as they are, but may be deleted between two reads.
    let transaction = connection.unchecked_transaction()?;
    let mut sessions = transaction.prepare_cached(if user.is_some() { OF_USER } else { OF_ALL })?;
    let mut sessions = sessions.query_map([user], |row| Ok((row.get(0)?, row.get(1)?)))?.peekable();
    let mut last = transaction.prepare_cached(LAST)?;
    let mut last = |session: i64, before: u32| {
        let head = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        last.query_row((session, before), head).optional()
    };
    let query = format!(
        "SELECT {ENTRY}, (SELECT id FROM session WHERE session.number = entry.session) FROM entry WHERE rowid = ?1"
    );
    let mut query = transaction.prepare_cached(&query)?;
    let mut heads: BinaryHeap<Head> = BinaryHeap::new();
    let mut found = Vec::new();
    for _ in 0..MOST_SEARCHED {
        if found.len() >= limit as usize {
            break;
        }
        let at_hand = |heads: &BinaryHeap<Head>| heads.peek().map_or(Millis::MIN, |head| head.0);
        let is_later =
            |next: &rusqlite::Result<(i64, Millis)>, at| next.as_ref().map_or(true, |(_, changed)| *changed >= at);
        while let Some(next) = sessions.next_if(|next| is_later(next, at_hand(&heads))) {
            heads.extend(last(next?.0, u32::MAX)?);
        }
        let Some((_, row, session, position)) = heads.pop() else { break };
        let read = |row: &Row<'_>| {
            let body = lower(Unescaped(row.get_ref(6)?.as_str()?.chars()));
            let has_all = words.iter().all(|word| body.contains(word.as_str()));
            Ok(if has_all { Some((id(row, 9)?, read_entry(row)?)) } else { None })
        };
        found.extend(query.query_row([row], read)?);
        heads.extend(last(session, position)?);
    }
    Ok(found)
}

/// Character by character: a text is then found in every text that it is a part of.
fn lower(text: impl Iterator<Item = char>) -> String {
    text.flat_map(char::to_lowercase).collect()
}

/// The characters of JSON, with those that are escaped as themselves.
struct Unescaped<'t>(std::str::Chars<'t>);

impl Unescaped<'_> {
    fn unit(&mut self) -> Option<u32> {
        let digits = self.0.as_str().get(..4)?;
        let unit = u32::from_str_radix(digits, 16).ok()?;
        self.0 = self.0.as_str()[4..].chars();
        Some(unit)
    }

    /// Reads what follows `\\u`: one unit, or two that are one character.
    fn coded(&mut self) -> Option<char> {
        let unit = self.unit()?;
        if !(0xd800..0xdc00).contains(&unit) || !self.0.as_str().starts_with("\\u") {
            return char::from_u32(unit);
        }
        self.0 = self.0.as_str()[2..].chars();
        let low = self.unit()?;
        char::from_u32(0x1_0000 + ((unit - 0xd800) << 10) + low.checked_sub(0xdc00)?)
    }
}

impl Iterator for Unescaped<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self.0.next()? {
            '\\' => match self.0.next()? {
                'n' => Some('\n'),
                'r' => Some('\r'),
                't' => Some('\t'),
                'u' => Some(self.coded().unwrap_or(char::REPLACEMENT_CHARACTER)),
                other => Some(other),
            },
            other => Some(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_their_characters() {
        let check = |json: &str, text: &str| assert_eq!(Unescaped(json.chars()).collect::<String>(), text, "{json}");
        check(r#"plain "é""#, "plain \"é\"");
        check(r#"a\"b\\c\/d\ne\tf\rg"#, "a\"b\\c/d\ne\tf\rg");
        check(r"\u00e9\u00C9x", "éÉx");
        check(r"\ud83e\udd80.", "🦀.");
        for broken in [r"\ud83e.", r"\ud83e\u0041.", r"\udd80.", r"\u00.", r"\uzzzz", r"\u00é", r"\u", r"\"] {
            let _ = Unescaped(broken.chars()).count();
        }
    }
}
