//! The slow MCP server of the demo: one tool, one JSON message per line.

use std::io::{BufRead, Write, stdin, stdout};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{DONE, FAILED};

/// Long enough for a kill in the middle, on a busy machine too.
const SLOW: Duration = Duration::from_secs(1);

/// Serves until standard input ends.
pub(crate) fn serve() -> u8 {
    for line in stdin().lock().lines() {
        let Ok(line) = line else { return FAILED };
        let asked: Value = serde_json::from_str(&line).unwrap_or_default();
        let Some(id) = asked.get("id") else { continue };
        let result = match asked["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "bank", "version": "1" },
            }),
            Some("tools/list") => json!({ "tools": [{
                "name": "rate",
                "description": "Returns the exchange rate of two currencies.",
                "inputSchema": {
                    "type": "object",
                    "properties": { "from": { "type": "string" }, "to": { "type": "string" } },
                    "required": ["from", "to"],
                },
            }] }),
            Some("tools/call") => {
                thread::sleep(SLOW);
                json!({ "content": [], "structuredContent": { "rate": 0.92 } })
            }
            _ => json!({}),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        if writeln!(stdout(), "{answer}").and_then(|()| stdout().flush()).is_err() {
            return FAILED;
        }
    }
    DONE
}
