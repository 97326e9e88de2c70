//! The published schema and the page of all keys are what the types say. `PINCER_DOCS_WRITE=1` writes them.
//!
//! Not in `it`: a variable makes it write files.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::{env, fs};

fn check(name: &str, made: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if env::var_os("PINCER_DOCS_WRITE").is_some() {
        fs::write(&file, made).unwrap();
    }
    let published = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        published == made,
        "docs/{name} is not what the types say: run PINCER_DOCS_WRITE=1 cargo test -p pincer-config"
    );
}

#[test]
fn the_reference_page_is_what_the_types_say() {
    check("config.md", &pincer_config::reference());
}

#[test]
fn the_published_schema_is_what_the_types_say() {
    let schema = serde_json::to_string_pretty(&pincer_config::schema()).unwrap();
    check("config.schema.json", &format!("{schema}\n"));
}

#[test]
fn every_key_is_described() {
    fn walk(at: &str, schema: &serde_json::Value) {
        for (key, member) in schema["properties"].as_object().into_iter().flatten() {
            assert!(member.get("description").is_some(), "{at}.{key} has no description");
        }
        for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
            walk(name, definition);
        }
    }
    walk("", &pincer_config::schema());
}

#[test]
fn the_example_of_the_page_is_valid() {
    let page = pincer_config::reference();
    let example = page.split("```json5\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    pincer_config::parse(example, &|_| None).unwrap();
}
