//! A model's text becomes a program: parsed once, modules refused, types erased in place, positions kept.
//!
//! The text is the body of a sloppy async function in JavaScript or TypeScript. What comes out is JavaScript with the same
//! lines, and a [`PositionMap`] for the columns that moved. This crate runs nothing and resolves no names; errors are in words
//! for the model that wrote the text.
//!
//! ```
//! use pincer_source::{Language, Position, SourceError, prepare};
//!
//! let program = prepare("const n: number = 20;\nn + 22", Language::TypeScript)?;
//! assert_eq!(program.text, "const n         = 20;;return[(\nn + 22)]");
//! assert_eq!(program.map.original(Position { line: 2, column: 5 }), Position { line: 2, column: 5 });
//!
//! let error = prepare("import fs from 'fs';", Language::JavaScript);
//! assert!(matches!(error, Err(SourceError::ModuleAccess { .. })));
//! # Ok::<(), SourceError>(())
//! ```

mod edits;
mod error;
mod facts;
mod locate;
mod map;
mod marks;
mod nesting;
mod parse;
mod position;
mod prepare;
mod shell;
mod slash;
mod spine;
mod trailing;
mod typescript;
mod words;

pub use error::{Diagnostic, SourceError};
pub use locate::{Callee, callees_at, uncompilable};
pub use map::PositionMap;
pub use position::{Position, excerpt};
#[doc(hidden)]
pub use prepare::preparations;
pub use prepare::{Language, Prepared, Returns, prepare};
#[doc(hidden)]
pub use typescript::typescript_preparations;
