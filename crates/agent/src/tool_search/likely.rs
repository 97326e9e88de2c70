//! The tools whose schemas a model is shown beside the list of the others. Within a session they only become more, since another set of
//! tools has the provider read the whole conversation again.

use std::sync::Arc;

use pincer_catalog::{Entry, Index, Source};
use pincer_codemode::RunTools;
use pincer_store::{Instructions, Session, StoreError};
use pincer_tool_search::strong_matches;

use crate::inner::Inner;

/// The most tools that are shown because of one message, and in all.
const MOST_OF_MESSAGE: usize = 4;
const MOST: usize = 12;
/// The most ids that a session keeps, those of tools that are gone included.
const MOST_KNOWN: usize = 64;

/// The tools that are shown besides.
#[derive(Default)]
pub(crate) struct Likely {
    pub shown: Vec<Arc<Entry>>,
    /// All of them as the session is to keep them, if there are more than before.
    pub new: Option<Arc<str>>,
}

impl Likely {
    /// Returns the tools for a message: those that the session has shown before, the required ones, and those that the message clearly
    /// asks for.
    pub(crate) async fn of(
        agent: &Inner,
        session: Option<&Session>,
        tools: &RunTools,
        required: &[&str],
        message: &str,
    ) -> Result<Self, StoreError> {
        let known = match session {
            Some(session) => agent.store.shown_tools(&session.id).await?,
            None => None,
        };
        let known: Vec<String> = known.and_then(|known| serde_json::from_str(&known).ok()).unwrap_or_default();
        let (catalog, index) = tools.searched();
        let is_there = |id: &str| catalog.get(id).is_some();
        let ids = with_likely(known.clone(), index, required, message, is_there);
        // One that is gone or denied is not shown, and has its place again should it come back.
        let shown = ids.iter().filter_map(|id| catalog.get(id).filter(|entry| may_stand(entry)).cloned()).collect();
        let new = (ids != known).then(|| serde_json::to_string(&ids).unwrap_or_default().into());
        Ok(Self { shown, new })
    }
}

/// Returns the ids of `known`, and behind them those that are required or likely. Of the likely ones there are as many as may be shown.
fn with_likely(
    known: Vec<String>,
    index: &Index,
    required: &[&str],
    message: &str,
    is_there: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut ids = known;
    if ids.len() > MOST_KNOWN {
        ids.retain(|id| is_there(id));
    }
    for id in required {
        if is_there(id) && !ids.iter().any(|known| known == id) {
            ids.push((*id).to_owned());
        }
    }
    let mut shown = ids.iter().filter(|id| is_there(id)).count();
    let likely = strong_matches(index, message, MOST_OF_MESSAGE);
    for id in likely.iter().filter(|entry| may_stand(entry)).map(|entry| entry.id.to_string()) {
        if shown < MOST && !ids.contains(&id) {
            ids.push(id);
            shown += 1;
        }
    }
    ids
}

/// Returns whether the words of a tool may stand in a request from the beginning.
fn may_stand(entry: &Entry) -> bool {
    entry.flags.trusted && entry.id.source() != Source::Mcp
}

#[cfg(test)]
mod tests {
    use pincer_catalog::{Catalog, Flags, ToolId};

    use super::*;

    fn index(count: usize) -> Index {
        let entry = |number: usize| Entry {
            flags: Flags { trusted: number != 1, ..Flags::default() },
            ..Entry::new(
                ToolId::new(Source::Openclaw, "core", format!("send_message_{number}")).expect("an id"),
                "Send a message",
            )
        };
        Index::new(&Catalog::new((0..count).map(entry)).expect("a catalog"))
    }

    fn likely(known: &[&str], message: &str) -> Vec<String> {
        let known = known.iter().map(|id| (*id).to_owned()).collect();
        with_likely(known, &index(3), &["openclaw:core:read"], message, |id| !id.contains("gone"))
    }

    #[test]
    fn tools_are_added_and_never_swapped() {
        let first = likely(&[], "send message 0");
        assert_eq!(first, ["openclaw:core:read", "openclaw:core:send_message_0"]);
        let known: Vec<&str> = first.iter().map(String::as_str).collect();
        assert_eq!(likely(&known, "hello"), first, "nothing goes");
        assert_eq!(likely(&known, "send message 2")[..2], first[..], "what was there keeps its place");
        assert_eq!(likely(&known, "send message 2")[2], "openclaw:core:send_message_2");
        assert_eq!(likely(&known, "send message 1"), first, "no words of others");
    }

    #[test]
    fn their_number_is_bounded() {
        let many: Vec<String> = (0..MOST).map(|number| format!("openclaw:core:t{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(likely(&many, "send message 0").len(), MOST + 1, "a required tool comes in any case");
        let all = with_likely(Vec::new(), &index(40), &[], "send message 2 3 4 5 6 7 8 9", |_| true);
        assert!(all.len() <= MOST_OF_MESSAGE, "{all:?}");
    }

    #[test]
    fn tools_that_are_gone_take_no_place_of_others() {
        let gone: Vec<String> = (0..MOST).map(|number| format!("openclaw:core:gone{number}")).collect();
        let gone: Vec<&str> = gone.iter().map(String::as_str).collect();
        let ids = likely(&gone, "send message 0");
        assert_eq!(ids[MOST..], ["openclaw:core:read", "openclaw:core:send_message_0"]);
        let many: Vec<String> = (0..=MOST_KNOWN).map(|number| format!("openclaw:core:gone{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(likely(&many, "hello"), ["openclaw:core:read"], "they are not kept for ever");
    }
}
