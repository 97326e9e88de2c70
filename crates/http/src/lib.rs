//! Requests to other machines: clients, bounded event streams, and why they fail.
//!
//! Servers of tools and servers of models are asked in the same way; the questions themselves are not known here.

mod client;
mod date;
mod events;
mod excerpt;
mod failure;

pub use client::{client, is_this_machine, shown};
pub use date::{parse_date, parse_timestamp};
pub use events::{EventDecoder, EventTooLarge};
pub use excerpt::excerpt;
pub use failure::{Failure, failure, last_cause};
