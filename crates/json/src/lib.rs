//! JSON as checked text, because most of it only passes through.
//!
//! A tree of values takes ten times the memory of its text, and up to a hundred times for hostile shapes. A [`Json`] is the
//! text itself: valid, at most [`MAX_DEPTH`] deep and of at most [`MAX_NODES`] nodes, so that a tree can be made of it
//! safely. The check is one pass that builds nothing. A [`Payload`] is either of the two.
//!
//! ```
//! use pincer_json::{Json, JsonError, MAX_NODES};
//!
//! let json = Json::parse(r#"{"id":7,"tags":["a","b"]}"#)?;
//! assert_eq!(json.to::<serde_json::Value>()?["id"], 7);
//!
//! let zeros = format!("[{}0]", "0,".repeat(MAX_NODES));
//! assert!(matches!(Json::parse(zeros), Err(JsonError::TooManyNodes)));
//! # Ok::<(), JsonError>(())
//! ```

mod check;
mod json;
mod order;
mod payload;
mod tree;

pub use check::{MAX_DEPTH, MAX_NODES, has_too_many_nodes, nodes, without_lone_surrogates};
pub use json::{Json, JsonError};
pub use order::canonical;
pub use payload::Payload;
