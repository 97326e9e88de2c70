//! Tool Search: three tools with which a model finds, describes and calls all others, for models that do not write programs.
//!
//! This crate is what such a tool shows and understands: its definition, what its arguments mean, what a search comes to, and the list of
//! tools that stands in a prompt. It calls no tool itself. Models write arguments in many ways: an input with only one meaning is
//! understood, and everything else is refused with the expected shape. Nothing of an input is dropped in silence.
//!
//! ```
//! use pincer_catalog::{Catalog, Entry, Index, Source, ToolId};
//! use pincer_tool_search::{CallInput, Limits, SearchInput, Searched, found};
//! use serde_json::json;
//!
//! let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] });
//! let read = Entry { input_schema: schema, ..Entry::new(ToolId::new(Source::Openclaw, "core", "read")?, "Read a file") };
//! let catalog = Catalog::new([read])?;
//!
//! let search = SearchInput::parse(&json!({ "query": "read a file" }), Limits::default())?;
//! let index = Index::new(&catalog);
//! assert_eq!(found(Searched { index: &index, missing: &[] }, &search)[0]["id"], "openclaw:core:read");
//!
//! // The members of the input beside the id can mean but one thing.
//! let call = CallInput::parse(&json!({ "id": "read", "path": "notes.md" }), &catalog)?;
//! assert_eq!(call.args, json!({ "path": "notes.md" }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod calling;
mod definitions;
mod directory;
mod ids;
mod matching;
mod searching;
mod settings;
mod shape;

pub use calling::{CallInput, InputError, Lookup, described, named};
pub use definitions::{
    Definition, TOOL_CALL, TOOL_DESCRIBE, TOOL_SEARCH, TOOL_SEARCH_CODE, code_definition, definitions,
};
pub use directory::{Listed, directory, room};
pub use ids::nested_id;
pub use matching::strong_matches;
pub use searching::{SearchInput, Searched, found, hits};
pub use settings::{CODE_TIMEOUT_MS, Limits, Mode, Settings};
