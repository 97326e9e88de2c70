//! Images and other binary data in results of MCP servers. A program gets references; the data stays in the journal until
//! somebody is given the reference who can use what it stands for.

use std::collections::BTreeSet;

use pincer_catalog::Source;
use pincer_sandbox::{Json, JsonError, Output};
use pincer_store::{RunId, StoreError};
use serde_json::{Map, Value};

use crate::CodeMode;
use crate::result::{CodeModeResult, Completed};
use crate::scope::RunScope;

/// What references begin with.
const PREFIX: &str = "blob:";
/// Where blocks are in results: of tools, of `resources.read`, and of `prompts.get`.
const LISTS: [&str; 3] = ["content", "contents", "messages"];

/// Words one of which every block with binary data has.
const MARKS: [&str; 3] = ["image", "audio", "blob"];

/// A result with references in place of its binary data.
pub(crate) fn referred(result: Json, run: &RunId, seq: u32, tool: &str) -> Result<Json, JsonError> {
    let is_mcp = tool.strip_prefix(Source::Mcp.as_str()).is_some_and(|rest| rest.starts_with(':'));
    // Most results have none, and stay text. In a text with escapes a word may be spelt in another way.
    let may_have = |text: &str| text.contains("\\u") || MARKS.iter().any(|mark| text.contains(mark));
    if !is_mcp || !may_have(result.as_str()) {
        return Ok(result);
    }
    let mut value = result.tree()?;
    if !has_binary(&value) {
        return Ok(result);
    }
    drop(result);
    let mut count = 0;
    for block in blocks_mut(&mut value) {
        if let Some((holder, key)) = binary_mut(block) {
            let size = holder.get(key).and_then(Value::as_str).map_or(0, decoded_size);
            holder.shift_remove(key);
            holder.insert("bytes".into(), size.into());
            holder.insert("ref".into(), format!("{PREFIX}{run}/{seq}/{count}").into());
            count += 1;
        }
    }
    Json::of(&value)
}

fn has_binary(value: &Value) -> bool {
    blocks(value).any(|block| binary(block).is_some())
}

fn blocks(value: &Value) -> impl Iterator<Item = &Value> {
    let lists = LISTS.iter().filter_map(|list| value.get(list)?.as_array());
    // A message of a prompt has one block, or several.
    lists.flatten().flat_map(|block| match block.get("content") {
        Some(Value::Array(shared)) => shared.iter().collect::<Vec<_>>(),
        Some(shared @ Value::Object(_)) => vec![shared],
        _ => vec![block],
    })
}

fn blocks_mut(value: &mut Value) -> Vec<&mut Value> {
    let Some(members) = value.as_object_mut() else { return Vec::new() };
    let mut found: [Vec<&mut Value>; LISTS.len()] = Default::default();
    for (key, list) in members.iter_mut() {
        let Some(at) = LISTS.iter().position(|known| known == key) else { continue };
        for block in list.as_array_mut().into_iter().flatten() {
            let nested = block
                .get("content")
                .map_or(0, |shared| if shared.is_array() { 2 } else { usize::from(shared.is_object()) });
            match nested {
                0 => found[at].push(block),
                1 => found[at].extend(block.get_mut("content")),
                _ => found[at].extend(block.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten()),
            }
        }
    }
    found.into_iter().flatten().collect()
}

/// The member of a block that is binary data.
fn binary(block: &Value) -> Option<&str> {
    let within = |holder: &Value, key: &str| holder.get(key).is_some_and(Value::is_string);
    match block.get("type").and_then(Value::as_str) {
        Some("image" | "audio") if within(block, "data") => Some("data"),
        Some("resource") => block.get("resource").filter(|shared| within(shared, "blob")).map(|_| "blob"),
        None if within(block, "blob") => Some("blob"),
        _ => None,
    }
}

fn binary_mut(block: &mut Value) -> Option<(&mut Map<String, Value>, &'static str)> {
    let key = match binary(block)? {
        "data" => "data",
        _ => "blob",
    };
    let holder = if block.get("resource").is_some() { block.get_mut("resource")? } else { block };
    Some((holder.as_object_mut()?, key))
}

/// How many bytes a text in base64 stands for.
fn decoded_size(text: &str) -> usize {
    let text = text.trim_end_matches('=');
    text.len() / 4 * 3 + (text.len() % 4).saturating_sub(1)
}

/// A block of a result, with its data, as a block of content.
fn nth_binary(value: &Value, index: usize) -> Option<Value> {
    let block = blocks(value).filter(|block| binary(block).is_some()).nth(index)?;
    match block.get("type") {
        Some(_) => Some(block.clone()),
        // Contents of a resource become one that is embedded.
        None => Some(serde_json::json!({ "type": "resource", "resource": block })),
    }
}

/// The references in a value, in the order in which they stand there.
fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(members) => {
            let reference = members.get("ref").and_then(Value::as_str).filter(|text| text.starts_with(PREFIX));
            found.extend(reference);
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// `blob:cm_…/3/0` in its parts.
fn parts(reference: &str) -> Option<(&str, u32, usize)> {
    let mut parts = reference.strip_prefix(PREFIX)?.rsplitn(3, '/');
    let (index, seq, run) = (parts.next()?, parts.next()?, parts.next()?);
    Some((run, seq.parse().ok()?, index.parse().ok()?))
}

impl CodeMode {
    /// What the references in a result stand for, as blocks of content, each once. References to anything that is not this
    /// scope's own stand for nothing: a program can write what it likes.
    pub async fn attachments(&self, scope: &RunScope, result: &CodeModeResult) -> Result<Vec<Value>, StoreError> {
        let printed = result.output().iter().filter_map(|item| match item {
            Output::Json { value } => Some(value),
            Output::Text { .. } => None,
        });
        let returned = match result {
            CodeModeResult::Completed(Completed { value, .. }) => Some(value),
            _ => None,
        };
        // Nearly all results have none, and need not be read for that.
        let candidates = printed.chain(returned).filter(|json| json.as_str().contains(PREFIX));
        let values: Vec<Value> = candidates.filter_map(|json| json.tree().ok()).collect();
        let mut found = Vec::new();
        values.iter().for_each(|value| references(value, &mut found));
        let mut seen = BTreeSet::new();
        let mut blocks = Vec::new();
        for reference in found.into_iter().filter(|reference| seen.insert(*reference)) {
            let Some((run, seq, index)) = parts(reference) else { continue };
            let id = RunId::from(run);
            match self.shared.store.run(&id).await {
                Ok(run) if scope.refusal(&run).is_none() => {}
                Ok(_) | Err(StoreError::Missing { .. }) => continue,
                Err(error) => return Err(error),
            }
            let outcome = self.shared.store.call(&id, seq).await?.and_then(|call| call.outcome);
            let read = outcome.and_then(|outcome| pincer_tools::recorded(&outcome).ok());
            blocks.extend(read.and_then(|(result, _)| nth_binary(&result.ok()?.tree().ok()?, index)));
        }
        Ok(blocks)
    }
}
