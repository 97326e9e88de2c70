//! Other programs, and how everything they start ends with them.
//!
//! Commands, plugins and servers are started here, each in a [`Group`] of its own. It knows nothing of what they are for.

mod group;

pub use group::{Group, Start};
