//! Fronts reach tools by the runtime alone.

use std::fs;
use std::path::Path;

/// A call by the door itself would be one with rights that the caller made up.
#[test]
fn fronts_reach_tools_in_a_scope_only() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders = vec![crates.join("cli/src"), crates.join("mcp-server/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let text = fs::read_to_string(&entry).unwrap();
            for way in [".door()", "RunScope", " Context {", "CodeMode::new", "CodeMode::within"] {
                assert!(!text.contains(way), "{} has {way}", entry.display());
            }
        }
    }
}
