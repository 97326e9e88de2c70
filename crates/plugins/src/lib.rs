//! Plugins: folders with a `pincer.plugin.json5`, and processes that speak JSON-RPC 2.0 on their standard input and output.
//!
//! The manifest is what is trusted: it says which tools, hooks, namespaces and channels there are, and is checked when it is read. The
//! process is started when it is first needed, is never asked what else it could do, and whatever it does wrong is an error that
//! names it and harms nobody else. `docs/plugins.md` tells plugin authors what to write.

mod channel;
mod connection;
mod discover;
mod manifest;
mod process;
mod provide;
mod wire;

pub use channel::{ChannelFailure, ChannelLine, ChannelListener, NotReceived};
pub use discover::{Found, LoadError, discover, load};
pub use manifest::{ChannelCapabilities, MANIFEST, Manifest, ManifestChannel};
pub use process::{PluginProcess, PluginSettings};
pub use provide::{HookSettings, ProvideError, Provided, provide};
