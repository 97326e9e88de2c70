//! The page of hooks has the table, as it is in the code.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;

const BEGIN: &str = "<!-- The table is generated: PINCER_DOCS_WRITE=1 cargo test -p pincer-hooks -->\n";
const END: &str = "<!-- The end of the table. -->\n";

#[test]
fn the_page_of_hooks_has_a_row_for_each_hook() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hooks.md");
    let page = std::fs::read_to_string(&path).expect("docs/hooks.md");
    let (before, rest) = page.split_once(BEGIN).expect("the beginning of the table");
    let (_, after) = rest.split_once(END).expect("the end of the table");
    let wanted = format!("{before}{BEGIN}\n{}\n{END}{after}", pincer_hooks::reference());
    if std::env::var_os("PINCER_DOCS_WRITE").is_some() {
        std::fs::write(&path, &wanted).expect("written");
        return;
    }
    assert!(page == wanted, "docs/hooks.md is not up to date: PINCER_DOCS_WRITE=1 cargo test -p pincer-hooks");
}
