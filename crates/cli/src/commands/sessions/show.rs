//! A session as a tree: what was said, what was called, and what came of it.

use std::collections::{HashMap, HashSet};

use console::style;
use pincer_sessions::{Block, Message, Node, Role, outline};
use pincer_store::{AgentRunId, Clock, Entry, EntryKind, EntryPage, Session, SessionId, Sessions};
use pincer_tools::one_line;
use serde_json::{Value, json};

use crate::print::prepared;
use crate::refused::Refused;
use crate::usage_sessions::SessionName;

use super::calls::{ShownCall, ShownResult, is_of, nested, pictures};
use super::find::{MOST_KEY, find, key};
use super::list::{Standing, document, entries as counted, lasted, tokens};
use super::notes::{self, Pauses};
use super::page::{Page, clock};
use super::telemetry::SessionFigures;
use super::{House, Told};

/// The entries that are read at once.
const PAGE: u32 = 1000;
/// The mark of entries that are not on the branch in use.
const ELSEWHERE: &str = "(not on the branch in use)";

/// How much is shown.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub all_branches: bool,
    pub full: bool,
}

pub(super) async fn show(house: &House, name: &SessionName, wanted: Wanted, json: bool) -> Result<Told, Refused> {
    let session = find(house, name).await?;
    let standing = Standing::of(&house.store, &session).await?;
    let entries = all(house, &session.id).await?;
    let figures = SessionFigures::of(house, &session.id).await?;
    let nodes: Vec<Node<'_>> =
        outline(&entries, session.leaf).into_iter().filter(|node| wanted.all_branches || node.is_in_use).collect();
    if json {
        let by_position: HashMap<u32, &Entry> = entries.iter().map(|entry| (entry.position, entry)).collect();
        let parent = |entry: &Entry| Some(by_position.get(&entry.parent?)?.id.clone());
        let one = |entry: &Entry| {
            json!({
                "id": entry.id,
                "parentId": parent(entry),
                "kind": entry.kind.as_str(),
                "at": entry.at,
                "run": entry.run,
                "call": entry.call,
                "body": serde_json::from_str::<Value>(&entry.body).unwrap_or_default(),
            })
        };
        let shown = nodes.iter().map(|node| {
            let mut shown = one(node.entry);
            shown["isInUse"] = json!(node.is_in_use);
            shown["nested"] = node.nested.iter().map(|entry| one(entry)).collect();
            shown
        });
        let mut told = document(&session, &standing);
        told["telemetry"] = figures.document();
        told["transcript"] = shown.collect();
        return Ok(Some((told, String::new())));
    }
    let mut page = Page::new(wanted.full);
    head(&mut page, &session, &standing, house.store.now());
    figures.show(&mut page);
    Transcript::new(&entries, nodes, figures.of_runs()).show(&mut page);
    prepared(page.text());
    Ok(None)
}

async fn all(house: &House, id: &SessionId) -> Result<Vec<Entry>, Refused> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let after = all.last().map_or(0, |last| last.position);
        let page = house.store.entries(id, EntryPage { after, limit: PAGE }).await?;
        let is_last = page.len() < PAGE as usize;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

fn head(page: &mut Page, session: &Session, standing: &Standing, now: i64) {
    let label = session.label.as_deref().map_or_else(String::new, |label| format!("\"{}\"", page.value(label)));
    let amount = format!("{}, {} tokens", counted(session.entries), tokens(session));
    let ended = session.ended.as_deref().map_or_else(String::new, |why| format!("({})", page.value(why)));
    let word = style(key(session.key.as_str())).bold();
    page.line(0, &word, &[&label, &standing.text(), &ended, &amount]);
    let changed = format!("changed {} ago", lasted(now - session.updated_at));
    let id = format!("id {}", one_line(session.id.as_str(), MOST_KEY));
    page.line(0, &style("began").dim(), &[&clock(session.created_at), &changed, &id]);
}

/// The entries that are shown, and which of them belong together.
struct Transcript<'e> {
    nodes: Vec<Node<'e>>,
    messages: HashMap<u32, Message>,
    /// Results by the position of the reply and the id of the call, as places in `nodes`.
    results: HashMap<(u32, String), Vec<usize>>,
    /// The positions of results that are shown below their calls.
    placed: HashSet<u32>,
    ids: HashMap<u32, String>,
    pauses: Pauses,
    /// The figures of the requests of a run, by the place of its last entry in `nodes`.
    figures: HashMap<usize, String>,
}

impl<'e> Transcript<'e> {
    fn new(entries: &'e [Entry], nodes: Vec<Node<'e>>, mut figures: HashMap<AgentRunId, String>) -> Self {
        let messages = entries.iter().filter(|entry| entry.kind == EntryKind::Message);
        let messages: HashMap<u32, Message> =
            messages.filter_map(|entry| Some((entry.position, Message::parse(&entry.body).ok()?))).collect();
        let parents: HashMap<u32, Option<u32>> = entries.iter().map(|entry| (entry.position, entry.parent)).collect();
        let mut results: HashMap<(u32, String), Vec<usize>> = HashMap::new();
        let mut placed = HashSet::new();
        for (at, node) in nodes.iter().enumerate() {
            let position = node.entry.position;
            let Some(message) = messages.get(&position).filter(|message| message.role == Role::ToolResult) else {
                continue;
            };
            // The reply that made the call is the next one on the way to the root.
            let mut above = node.entry.parent;
            while let Some(position) = above
                && messages.get(&position).is_none_or(|message| message.role != Role::Assistant)
            {
                // A parent comes before its child, so this ends.
                above = parents.get(&position).copied().flatten().filter(|parent| *parent < position);
            }
            let (Some(reply), Some(id)) = (above, &message.tool_call_id) else { continue };
            let is_its = |block: &Block| block.kind == "toolCall" && block.id.as_ref() == Some(id);
            if messages.get(&reply).is_some_and(|message| message.content.iter().any(is_its)) {
                results.entry((reply, id.clone())).or_default().push(at);
                placed.insert(position);
            }
        }
        let is_shown = |node: &Node<'_>| !placed.contains(&node.entry.position);
        let last = nodes
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, node)| is_shown(node))
            .filter_map(|(at, node)| Some((at, figures.remove(node.entry.run.as_ref()?)?)));
        let figures = last.collect();
        Self { nodes, messages, results, placed, ids: short_ids(entries), pauses: Pauses::of(entries), figures }
    }

    fn show(&self, page: &mut Page) {
        for (at, node) in self.nodes.iter().enumerate() {
            let entry = node.entry;
            if self.placed.contains(&entry.position) {
                continue;
            }
            let id = self.ids.get(&entry.position).map_or("", String::as_str);
            let mark = if node.is_in_use { String::new() } else { format!("  {ELSEWHERE}") };
            let tail = format!("#{}{mark}", one_line(id, MOST_KEY));
            match self.messages.get(&entry.position) {
                Some(message) => self.message(page, node, message, &tail),
                None if entry.kind == EntryKind::NestedCall => nested(page, 0, entry),
                None => notes::show(page, entry, &self.pauses, &tail),
            }
            if let Some(figures) = self.figures.get(&at) {
                page.line(1, &style("run").dim(), &[figures]);
            }
        }
    }

    fn message(&self, page: &mut Page, node: &Node<'e>, message: &Message, tail: &str) {
        let time = clock(node.entry.at);
        page.gap();
        match message.role {
            Role::User => page.line(0, &style("user").green().bold(), &[&time, tail]),
            Role::Assistant => {
                let model = match (&message.provider, &message.model) {
                    (Some(provider), Some(model)) => page.value(&format!("{provider}/{model}")),
                    (_, model) => page.value(model.as_deref().unwrap_or_default()),
                };
                let stop = match message.stop_reason.as_deref() {
                    None | Some("stop" | "toolUse") => String::new(),
                    Some(stop) => format!("ended by: {}", page.value(stop)),
                };
                page.line(0, &style("assistant").cyan().bold(), &[&model, &stop, &time, tail]);
            }
            Role::ToolResult => {
                let tool = page.value(message.tool_name.as_deref().unwrap_or_default());
                page.line(0, &style("result of a call that is not shown").dim(), &[&tool, &time, tail]);
            }
            Role::Other => page.line(0, &style("message").dim(), &[&time, tail]),
        }
        for picture in pictures(message) {
            page.line(1, &style(page.value(&picture)).dim(), &[]);
        }
        let mut shown = HashSet::new();
        for block in &message.content {
            match (block.kind.as_str(), &block.text, &block.thinking) {
                ("text", Some(text), _) => page.block(1, text),
                ("refusal", Some(text), _) => {
                    page.line(1, &style("refused").red(), &[]);
                    page.block(2, text);
                }
                ("thinking", _, Some(thinking)) if !thinking.is_empty() => {
                    page.line(1, &style("thinking").dim(), &[]);
                    page.block(2, thinking);
                }
                ("toolCall", _, _) => {
                    let call = self.call(node, block);
                    shown.extend(call.nested.iter().map(|entry| entry.position));
                    call.show(page);
                }
                _ => {}
            }
        }
        // Calls of programs that this reply is not known to have run.
        node.nested.iter().filter(|entry| !shown.contains(&entry.position)).for_each(|entry| nested(page, 1, entry));
    }

    fn call<'s>(&'s self, node: &Node<'s>, block: &'s Block) -> ShownCall<'s> {
        let id = block.id.as_deref().unwrap_or_default();
        let is_its = |entry: &&&Entry| entry.call.as_deref().is_some_and(|name| is_of(name, id));
        let found = self.results.get(&(node.entry.position, id.to_owned()));
        let results = found.into_iter().flatten().filter_map(|at| {
            let found = &self.nodes[*at];
            let mark = if found.is_in_use || !node.is_in_use { "" } else { ELSEWHERE };
            Some(ShownResult { message: self.messages.get(&found.entry.position)?, mark })
        });
        ShownCall { block, nested: node.nested.iter().filter(is_its).copied().collect(), results: results.collect() }
    }
}

/// Returns the beginnings of ids that no other entry has.
fn short_ids(entries: &[Entry]) -> HashMap<u32, String> {
    const LEAST: usize = 8;
    let mut sorted: Vec<(&str, u32)> = entries.iter().map(|entry| (entry.id.as_str(), entry.position)).collect();
    sorted.sort_unstable();
    let shared = |one: &str, other: &str| one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let short = sorted.iter().enumerate().map(|(at, (id, position))| {
        let before = at.checked_sub(1).map_or(0, |before| shared(id, sorted[before].0));
        let after = sorted.get(at + 1).map_or(0, |(after, _)| shared(id, after));
        let length = (before.max(after) + 1).max(LEAST);
        (*position, id.chars().take(length).collect())
    });
    short.collect()
}
