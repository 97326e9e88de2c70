//! What servers can make us keep. Alone in its process, so that nothing else is measured.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod common;

use common::with_liar;
use serde_json::json;

/// Far less than what is sent, and more than it takes to look at it.
const MOST: usize = 160 << 20;

/// The most memory that was in use since this was last asked, beyond what is in use now.
fn peak(before: usize) -> usize {
    let most = of_status("VmHWM:");
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    most.saturating_sub(before)
}

fn of_status(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_stays_bounded_whatever_is_sent() {
    for (mode, tool, input) in [
        ("huge", "huge", json!({})),
        ("huge", "huge", json!({ "bytes": 100_000_000 })),
        ("flood", "log", json!({ "count": 400, "bytes": 500_000 })),
        ("flood", "updated", json!({ "count": 400, "bytes": 500_000 })),
        ("flood", "progress", json!({ "count": 100_000 })),
        ("flood", "changed", json!({ "count": 100_000 })),
        ("flood", "ping", json!({ "count": 500_000 })),
        ("flood", "ask", json!({ "count": 400, "bytes": 500_000 })),
    ] {
        let house = with_liar(mode).asked().await;
        // Somebody who listens and never looks.
        let _notices = house.servers.listen();
        let before = of_status("VmRSS:");
        peak(before);
        let outcome = house.call(&format!("mcp:liar:{tool}"), input.clone()).await;
        let more = peak(before);
        assert!(more < MOST, "{tool} {input}: {} MB", more >> 20);
        if let Err(error) = outcome.result {
            assert!(error.message.contains("the MCP server liar"), "{error}");
        }
        house.is_unharmed().await;
        house.end().await;
    }
}
