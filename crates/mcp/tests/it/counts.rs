//! Hostile shapes: a few megabytes of JSON that would take hundreds as a tree are refused by the number of their values and keys.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use crate::common::{House, setup};
use pincer_mcp::Health;
use pincer_tools::{Effect, ErrorCode};
use serde_json::json;

const REFUSED: &str = "sent a message made of more than 1000000 values and keys: ask it for less";

/// A server in the shell. `$1` is what its list has beside its tools, `$2` the item that its tool returns a million of.
const SERVER: &str = r#"
many() { printf '['; yes "$1," | head -n 1000000 | tr -d '\n'; printf '%s]' "$1"; }
while read -r line; do
  id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id";;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"many"},{"name":"few"}],"x":' "$id"
      if [ "$1" = many ]; then many 0; else printf 0; fi; printf '}}\n';;
    *'"few"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n' "$id";;
    *'"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[],"x":' "$id"; many "$2"; printf '}}\n';;
  esac
done"#;

async fn house(list: &str, item: &str) -> House {
    setup().shell("hostile", SERVER, &[list, item]).open().asked().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_a_hostile_shape_is_refused_and_the_server_goes_on() {
    for item in ["0", "[]", r#"{"a":0}"#] {
        let house = house("few", item).await;
        let outcome = house.call("mcp:hostile:many", json!({})).await;
        let error = outcome.result.unwrap_err();
        assert_eq!((error.code, outcome.effect), (ErrorCode::ToolFailed, Effect::Unknown), "{item}");
        assert_eq!(error.message, format!("the MCP server hostile {REFUSED}"), "{item}");
        assert_eq!(house.ok("mcp:hostile:few", json!({})).await, json!({ "content": [] }));
        house.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_of_a_hostile_shape_is_refused_and_says_why() {
    let house = house("many", "0").await;
    let health = house.servers.get("hostile").unwrap().seen().health;
    assert_eq!(health, Health::Down(format!("cannot list its tools: it {REFUSED}")));
    house.is_unharmed().await;
    house.end().await;
}
