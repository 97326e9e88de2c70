//! A door with test tools, on a real store.

use pincer_catalog::Entry;
use pincer_testkit::doorway::deny;
pub(crate) use pincer_testkit::doorway::{Doorway as House, call, store};
pub(crate) use pincer_testkit::tools::echo;
use pincer_tools::DoorBuilder;
use serde_json::json;

pub(crate) fn entry(id: &str) -> Entry {
    let mut entry = Entry::new(id.parse().expect("an id"), "a test tool");
    entry.input_schema = json!({
        "type": "object",
        "required": ["text"],
        "properties": { "text": { "type": "string" }, "times": { "type": "integer" } },
        "additionalProperties": false,
    });
    entry
}

/// A door with `openclaw:core:echo`, `mcp:files:read` and `openclaw:core:hidden`, which policy denies, and what `more` adds.
pub(crate) fn house(more: impl FnOnce(DoorBuilder) -> DoorBuilder) -> House {
    let ids = ["openclaw:core:echo", "mcp:files:read", "openclaw:core:hidden"];
    House::new(&deny(&["hidden"]), |door| {
        more(ids.into_iter().fold(door, |door, id| door.tool(entry(id), echo()).expect("registered")))
    })
}
