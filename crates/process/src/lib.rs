//! Other programs, and how everything they start ends with them.
//!
//! Commands, plugins and servers are started here, each in a [`Group`] of its own. It knows nothing of what they are for.

mod descendants;
mod group;
mod session;

pub use descendants::adopt_orphans;
pub use group::{Group, Start};
