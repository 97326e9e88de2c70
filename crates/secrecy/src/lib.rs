//! Secrets: recognised by their names and looks, and left out of everything that is shown.
//!
//! ```
//! use pincer_secrecy::{is_secret, shown_address};
//! assert!(is_secret("GITHUB_TOKEN", "anything"));
//! assert_eq!(shown_address("https://me:hunter2@example.com/"), "https://me:[redacted]@example.com/");
//! ```

mod bounded;
mod cleaner;
mod escapes;
mod named;
mod recognise;
mod redactor;
mod shown;
mod tokens;

pub use bounded::{Bounds, Cut};
pub use cleaner::Cleaner;
pub use recognise::{is_secret, is_secret_variable, looks_secret};
pub use redactor::Redactor;
pub use shown::{address_parts, secret_parts, shown_address, shown_words};
pub use tokens::without_tokens;

/// The word in the place of a secret.
pub const REDACTED: &str = "[redacted]";
