//! Channels: where messages come from and answers go to.
//!
//! A [`Channel`] brings what it receives to an [`Inbox`], which knows the sender's rights and the session, and has the message stored before
//! it is acknowledged. A text that is to be sent is stored too, in the commit that makes it due, and sent by one process at a time: in order for
//! each place, again until the channel takes it, under an id that stays the same. Channels of plugins are here ([`PluginChannel`]); fronts
//! bring others on the same trait.
//!
//! [`Channels`] runs them. The crate prints nothing: events are told as [`Notice`]s.

mod channel;
mod channels;
mod error;
mod hold;
mod hooks;
mod inbox;
mod notice;
mod outbox;
mod parts;
mod plugin;
mod session_key;
mod typing;

pub use channel::{Attachment, Capabilities, Channel, Outgoing, Received, SendError, TypingNotice};
pub use channels::{Channels, Declared, known_channels};
pub use error::ChannelsError;
pub use inbox::{Inbox, NotTaken, Receipt};
pub use notice::{Notice, Observer};
pub use parts::{Part, next_part};
pub use plugin::PluginChannel;
pub use session_key::session_key;
