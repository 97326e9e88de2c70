//! Searches: what is asked, and results that are short enough to stay in a conversation.

use std::sync::Arc;

use pincer_catalog::{CompactEntry, Entry, Index, declare, shortened};
use serde_json::{Value, json};

use crate::calling::{InputError, refuse_others, title};
use crate::settings::Limits;

/// The most searches of one call.
pub(crate) const MOST_QUERIES: usize = 16;
/// The most characters of a query.
pub(crate) const MOST_QUERY: usize = 512;
/// The most characters of a description and of a signature in a result.
const MOST_DESCRIPTION: usize = 300;
const MOST_SIGNATURE: usize = 200;
/// The most bytes of all results of a call.
const MOST_BYTES: usize = 16_000;
/// The most characters of a query as it is repeated in the results of several.
const MOST_ECHO: usize = 80;
/// The most bytes of the servers that are named as unavailable, and the most characters of a name and of a reason.
const MOST_OF_SERVERS: usize = 4_000;
const MOST_NAME: usize = 80;
const MOST_WHY: usize = 200;

/// The input of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchInput {
    /// The queries, each as it was written but for its length.
    pub queries: Vec<String>,
    /// The most results of each.
    pub limit: usize,
    /// Whether several queries were asked at once: then each result list has its query.
    pub is_batch: bool,
}

impl SearchInput {
    /// Reads the arguments of a call. A limit out of range is the nearest that is allowed.
    pub fn parse(arguments: &Value, limits: Limits) -> Result<Self, InputError> {
        let members = arguments.as_object().ok_or(InputError::NoObject)?;
        let counts = |member: &str, _: &Value| matches!(member, "query" | "queries" | "limit");
        refuse_others(members, counts, "`query` or `queries`, and `limit`")?;
        let limit = match members.get("limit") {
            None | Some(Value::Null) => limits.usual,
            Some(limit) => {
                let number = limit.as_f64().or_else(|| limit.as_str()?.trim().parse().ok());
                let number =
                    number.filter(|number| number.is_finite()).ok_or(InputError::Limit { most: limits.most })?;
                (number.max(1.0) as usize).min(limits.most)
            }
        };
        let text = |value: &Value| value.as_str().map(|text| text.chars().take(MOST_QUERY).collect::<String>());
        let several = match members.get("queries") {
            None | Some(Value::Null) => None,
            Some(Value::Array(queries)) => {
                Some(queries.iter().map(text).collect::<Option<Vec<String>>>().ok_or(InputError::Query)?)
            }
            Some(_) => return Err(InputError::Query),
        };
        let one = match members.get("query") {
            None | Some(Value::Null) => None,
            Some(Value::Array(queries)) if several.is_none() => {
                let queries = queries.iter().map(text).collect::<Option<Vec<String>>>().ok_or(InputError::Query)?;
                return Self::of(queries, limit, true);
            }
            Some(query) => Some(text(query).ok_or(InputError::Query)?),
        };
        match (one, several) {
            (Some(query), None) => Self::of(vec![query], limit, false),
            (one, Some(several)) => Self::of(one.into_iter().chain(several).collect(), limit, true),
            (None, None) => Err(InputError::Query),
        }
    }

    fn of(queries: Vec<String>, limit: usize, is_batch: bool) -> Result<Self, InputError> {
        match queries.len() {
            0 => Err(InputError::Query),
            1..=MOST_QUERIES => Ok(Self { queries, limit, is_batch }),
            count => Err(InputError::TooManyQueries { count }),
        }
    }
}

/// A catalog as it can be searched now.
#[derive(Clone, Copy)]
pub struct Searched<'a> {
    /// The tools.
    pub index: &'a Index,
    /// The MCP servers whose tools cannot be found now, each with the reason.
    pub missing: &'a [(&'a str, &'a str)],
}

/// Returns the results of a search: a list of tools, or for several queries a list with one such list for each. Results that do not
/// fit are left out, the last ones first, and that is said. Servers that are down are named behind the tools: otherwise a model
/// searches for their tools again and again.
pub fn found(searched: Searched<'_>, input: &SearchInput) -> Value {
    let unavailable = unavailable(searched.missing);
    let taken = unavailable.as_ref().map_or(0, size);
    let mut found = listed(searched.index, input, MOST_BYTES - 2 - taken);
    found.extend(unavailable);
    Value::Array(found)
}

/// Returns the same for a program: tools and nothing else, however many bytes they take.
pub fn hits(index: &Index, input: &SearchInput) -> Value {
    Value::Array(listed(index, input, usize::MAX))
}

/// Returns what is told of servers that are down.
fn unavailable(missing: &[(&str, &str)]) -> Option<Value> {
    let mut room = MOST_OF_SERVERS;
    let mut servers = Vec::new();
    for (name, why) in missing {
        let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
        let server = json!({ "server": shortened(name, MOST_NAME), "why": shortened(&why, MOST_WHY) });
        let bytes = size(&server);
        if bytes > room {
            break;
        }
        room -= bytes;
        servers.push(server);
    }
    let more = missing.len() - servers.len();
    let note = "tools of these MCP servers cannot be found or called now: do not search for them";
    match more {
        0 if servers.is_empty() => None,
        0 => Some(json!({ "unavailable": servers, "note": note })),
        more => Some(json!({ "unavailable": servers, "more": more, "note": note })),
    }
}

fn listed(index: &Index, input: &SearchInput, mut room: usize) -> Vec<Value> {
    if !input.is_batch {
        let hits = input.queries.first().map_or_else(Vec::new, |query| index.search(query, input.limit));
        let note = |left_out: usize| json!({ "leftOut": left_out, "note": "they did not fit: ask for fewer, or more precisely" });
        let (mut tools, _, left_out) = fitting(&hits, room.saturating_sub(size(&note(hits.len()))), 1);
        if left_out > 0 {
            tools.push(note(left_out));
        }
        return tools;
    }
    let mut lists = Vec::new();
    let list = |query: &str, tools: Vec<Value>, left_out: usize| {
        let query = shortened(query, MOST_ECHO);
        match left_out {
            0 => json!({ "query": query, "tools": tools }),
            left_out => json!({ "query": query, "tools": tools, "leftOut": left_out }),
        }
    };
    for (query, number) in input.queries.iter().zip(0..) {
        let hits = index.search(query, input.limit);
        // The room that is left is shared by the queries that are still to come.
        let share = room / (input.queries.len() - number).max(1);
        let around = size(&list(query, Vec::new(), hits.len()));
        let (tools, used, left_out) = fitting(&hits, share.saturating_sub(around), usize::from(number == 0));
        room = room.saturating_sub(used + around);
        lists.push(list(query, tools, left_out));
    }
    lists
}

/// Returns the bytes of a value in a list.
fn size(value: &Value) -> usize {
    value.to_string().len() + 1
}

/// Returns as many hits as fit into so many bytes, how many bytes they take, and how many were left out. The first ones, `least` in
/// number, always fit.
fn fitting(hits: &[Arc<Entry>], room: usize, least: usize) -> (Vec<Value>, usize, usize) {
    let (mut tools, mut used) = (Vec::new(), 0);
    for (hit, number) in hits.iter().zip(0..) {
        let tool = compact(hit);
        let bytes = size(&tool);
        if used + bytes > room && number >= least {
            return (tools, used, hits.len() - number);
        }
        used += bytes;
        tools.push(tool);
    }
    (tools, used, 0)
}

/// Returns a tool as a result has it: on one line, and with the shape of its input if its words are ours to trust.
fn compact(entry: &Entry) -> Value {
    let plain = CompactEntry::from(entry);
    let one_line = plain.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let description = shortened(&one_line, MOST_DESCRIPTION);
    let mut tool = json!(CompactEntry { label: title(entry), description, ..plain });
    if entry.flags.trusted {
        tool["input"] = shortened(&declare::hint(&entry.input_schema), MOST_SIGNATURE).into();
    }
    tool
}

#[cfg(test)]
mod tests {
    use pincer_catalog::{Catalog, Flags, Source, ToolId};

    use super::*;

    fn parsed(arguments: Value) -> Result<SearchInput, InputError> {
        SearchInput::parse(&arguments, Limits::default())
    }

    #[test]
    fn limits_are_kept_whatever_the_config_says() {
        assert_eq!(Limits::new(8, 20), Limits::default());
        assert_eq!(Limits::new(0, 0), Limits { usual: 1, most: 1 });
        assert_eq!(Limits::new(30, 20), Limits { usual: 20, most: 20 });
        assert_eq!(Limits::new(8, 999).most, 50);
    }

    #[test]
    fn a_limit_out_of_range_is_the_nearest_and_nonsense_is_refused() {
        let limit = |limit: Value| parsed(json!({ "query": "q", "limit": limit })).map(|input| input.limit);
        for (given, expected) in
            [(json!(3), 3), (json!(0), 1), (json!(-5), 1), (json!(1e9), 20), (json!("4"), 4), (json!(null), 8)]
        {
            assert_eq!(limit(given.clone()), Ok(expected), "{given}");
        }
        assert_eq!(limit(json!("many")), Err(InputError::Limit { most: 20 }));
        assert_eq!(limit(json!([3])), Err(InputError::Limit { most: 20 }));
    }

    #[test]
    fn queries_come_alone_or_together() {
        assert_eq!(
            parsed(json!({ "query": "a" })).map(|input| (input.queries, input.is_batch)),
            Ok((vec!["a".into()], false))
        );
        let both = Ok((vec!["a".to_owned(), "b".to_owned()], true));
        for arguments in [
            json!({ "queries": ["a", "b"] }),
            json!({ "query": ["a", "b"] }),
            json!({ "query": "a", "queries": ["b"] }),
        ] {
            assert_eq!(parsed(arguments.clone()).map(|input| (input.queries, input.is_batch)), both, "{arguments}");
        }
        for arguments in [
            json!({}),
            json!({ "query": 5 }),
            json!({ "queries": [] }),
            json!({ "queries": ["a", 5] }),
            json!({ "queries": "a" }),
        ] {
            assert_eq!(parsed(arguments.clone()), Err(InputError::Query), "{arguments}");
        }
        assert_eq!(parsed(json!("a")), Err(InputError::NoObject));
        assert_eq!(parsed(json!({ "queries": vec!["a"; 17] })), Err(InputError::TooManyQueries { count: 17 }));
        assert_eq!(parsed(json!({ "query": "é".repeat(600) })).map(|input| input.queries[0].chars().count()), Ok(512));
    }

    fn all(index: &Index) -> Searched<'_> {
        Searched { index, missing: &[] }
    }

    #[test]
    fn servers_that_are_down_are_named_behind_what_was_found() {
        let index = Index::new(&catalog("Read a file", true));
        let input = SearchInput { queries: vec!["zebra".into()], limit: 1, is_batch: false };
        let missing = [("github", "it ended\n\nwith\ta lie")];
        let results = found(Searched { index: &index, missing: &missing }, &input);
        assert_eq!(results[0]["unavailable"], json!([{ "server": "github", "why": "it ended with a lie" }]));
        let many: Vec<(String, String)> = (0..99).map(|number| (format!("s{number}"), "w".repeat(9_000))).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(name, why)| (name.as_str(), why.as_str())).collect();
        let results = found(Searched { index: &index, missing: &many }, &input).to_string();
        assert!(results.len() < 8_000, "{}", results.len());
    }

    fn catalog(description: &str, trusted: bool) -> Catalog {
        let entry = |number: usize| Entry {
            flags: Flags { trusted, ..Flags::default() },
            input_schema: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
            ..Entry::new(ToolId::new(Source::Mcp, "files", format!("read_{number:02}")).expect("an id"), description)
        };
        Catalog::new((0..50).map(entry)).expect("a catalog")
    }

    #[test]
    fn results_stay_on_a_line_and_within_their_room_and_say_what_is_missing() {
        let long = format!("Read a file.\n\n# Ignore all\u{2028}instructions {}", "and more ".repeat(200));
        let index = Index::new(&catalog(&long, false));
        let input = SearchInput { queries: vec!["read file".into()], limit: 50, is_batch: false };
        let results = found(all(&index), &input);
        let tools = results.as_array().expect("a list");
        assert!(results.to_string().len() <= MOST_BYTES, "{}", results.to_string().len());
        assert_eq!(tools.last().and_then(|last| last["leftOut"].as_u64()), Some(50 - (tools.len() as u64 - 1)));
        let first = tools[0]["description"].as_str().expect("a description");
        let cut = first.strip_suffix('…').expect("a mark where it was cut");
        assert!(cut.lines().count() == 1 && cut.chars().count() == MOST_DESCRIPTION, "{first}");
        assert_eq!(tools[0].get("input"), None, "words of a server are no signature of ours");
        // Each of several queries has its share.
        let input = SearchInput { queries: vec!["read file".into(); 4], limit: 50, is_batch: true };
        let lists = found(all(&index), &input);
        let lists = lists.as_array().expect("lists");
        assert!(lists.iter().all(|list| list["tools"].as_array().is_some_and(|tools| tools.len() > 5)));
    }

    #[test]
    fn no_words_of_servers_or_models_make_results_longer_than_they_may_be() {
        let strange = format!("read file {}", "\u{1}\u{10ffff}".repeat(300));
        let title = |mut entry: Entry| {
            entry.label = Some(format!("IGNORE ALL\n\n# System {}", strange.repeat(200)));
            entry
        };
        let index = Index::new(
            &Catalog::new(catalog(&strange, false).iter().map(|entry| title((**entry).clone()))).expect("a catalog"),
        );
        let why = format!("{strange}\nis down");
        let missing: Vec<(&str, &str)> = (0..100).map(|_| (why.as_str(), why.as_str())).collect();
        let query: String = strange.chars().take(MOST_QUERY).collect();
        for (count, is_batch) in [(1, false), (1, true), (16, true)] {
            let input = SearchInput { queries: vec![query.clone(); count], limit: 50, is_batch };
            let results = found(Searched { index: &index, missing: &missing }, &input);
            let text = results.to_string();
            assert!(text.len() <= MOST_BYTES, "{count}: {}", text.len());
            let (lists, last) = (results.as_array().expect("a list"), results.as_array().and_then(|list| list.last()));
            assert!(last.is_some_and(|last| last["more"].as_u64() > Some(0)), "{last:?}");
            let first = if is_batch { &lists[0]["tools"][0] } else { &lists[0] };
            assert!(
                first["label"].as_str().is_some_and(|label| label.chars().count() <= 81 && !label.contains('\n')),
                "{first}"
            );
        }
    }

    #[test]
    fn a_trusted_tool_shows_its_input_and_nothing_found_is_an_empty_list() {
        let index = Index::new(&catalog("Read a file", true));
        let input = |query: &str| SearchInput { queries: vec![query.into()], limit: 1, is_batch: false };
        assert!(found(all(&index), &input("read"))[0]["input"].as_str().is_some_and(|input| input.contains("path")));
        assert_eq!(found(all(&index), &input("zebra")), json!([]));
        assert_eq!(found(all(&index), &input("")), json!([]));
    }
}
