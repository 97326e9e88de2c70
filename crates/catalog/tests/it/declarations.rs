//! Declarations: what each part of JSON Schema becomes, and that whatever comes in, TypeScript comes out.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use oxc_allocator::Allocator;
use oxc_parser::Parser;
use oxc_span::SourceType;
use pincer_catalog::{Entry, declare};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Fails unless `source` parses as a TypeScript declaration file.
fn parses(source: &str) -> Result<(), String> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, SourceType::ts()).parse();
    if parsed.panicked || !parsed.diagnostics.is_empty() {
        return Err(format!("{:?}\n{source}", parsed.diagnostics));
    }
    Ok(())
}

fn whole(schema: &Value) -> String {
    let rendered = declare::type_of(schema, "P", "");
    format!("{}type Root = {};\n", rendered.definitions, rendered.text)
}

fn check(schema: Value, expected: &str) {
    let rendered = whole(&schema);
    parses(&rendered).expect("TypeScript");
    assert_eq!(rendered.trim_end(), format!("type Root = {expected};"), "{schema}");
}

#[test]
fn simple_types() {
    check(json!({ "type": "string" }), "string");
    check(json!({ "type": "string", "format": "date-time" }), "string /* date-time */");
    check(json!({ "type": "string", "format": "x */ evil" }), "string /* x *\\/ evil */");
    check(json!({ "type": "integer" }), "number");
    check(json!({ "type": ["string", "null"] }), "string | null");
    check(json!({ "type": "number", "nullable": true }), "number | null");
    check(json!({ "const": "a" }), "\"a\"");
    check(json!({ "enum": ["a", 1, null, true] }), "\"a\" | 1 | null | true");
    check(json!({}), "unknown");
    check(json!(true), "unknown");
    check(json!(false), "never");
    check(json!({ "type": "banana" }), "unknown");
}

#[test]
fn objects() {
    check(json!({ "type": "object" }), "Record<string, unknown>");
    check(json!({ "type": "object", "additionalProperties": false }), "Record<string, never>");
    check(json!({ "type": "object", "additionalProperties": { "type": "number" } }), "Record<string, number>");
    check(json!({ "type": "object", "patternProperties": { "^a": { "type": "string" } } }), "Record<string, string>");
    check(
        json!({ "type": "object", "required": ["a"], "properties": {
            "a": { "type": "string", "description": "the first" }, "b-c": { "type": "object", "properties": { "x": {} } } } }),
        "{\n  /** the first */\n  a: string;\n  \"b-c\"?: {\n    x?: unknown;\n  };\n}",
    );
    check(
        json!({ "properties": { "a": { "type": "string" } }, "additionalProperties": { "type": "number" } }),
        "{\n  a?: string;\n} & Record<string, number>",
    );
}

#[test]
fn arrays_and_tuples() {
    check(json!({ "type": "array", "items": { "type": "string" } }), "string[]");
    check(json!({ "type": "array" }), "unknown[]");
    check(json!({ "type": "array", "items": { "enum": ["a", "b"] } }), "(\"a\" | \"b\")[]");
    check(
        json!({ "type": "array", "prefixItems": [{ "type": "string" }, { "type": "number" }], "minItems": 1, "items": false }),
        "[string, number?]",
    );
    check(json!({ "type": "array", "items": [{ "type": "string" }], "minItems": 1 }), "[string, ...unknown[]]");
    check(
        json!({ "type": "array", "prefixItems": [{ "type": "string" }], "minItems": 1, "items": { "type": "boolean" } }),
        "[string, ...boolean[]]",
    );
}

#[test]
fn combinations() {
    check(json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), "string | null");
    check(json!({ "oneOf": [{ "const": 1 }, { "const": 2 }, { "const": 1 }] }), "1 | 2");
    check(
        json!({ "allOf": [{ "anyOf": [{ "type": "string" }, { "type": "number" }] }, { "enum": ["a"] }] }),
        "(string | number) & \"a\"",
    );
    check(json!({ "anyOf": [{ "type": "string" }, {}] }), "unknown");
    check(
        json!({ "type": "array", "items": { "allOf": [{ "type": "string" }, { "const": "b" }] } }),
        "(string & \"b\")[]",
    );
}

#[test]
fn references_and_recursion() {
    let tree = json!({
        "$defs": { "node": { "type": "object", "properties": { "next": { "$ref": "#/$defs/node" } } } },
        "$ref": "#/$defs/node",
    });
    let rendered = whole(&tree);
    parses(&rendered).expect("TypeScript");
    assert_eq!(rendered, "type PNode = {\n  next?: PNode;\n};\ntype Root = PNode;\n");
    assert_eq!(declare::hint(&tree), "{ next?: unknown }");
    let draft7 =
        json!({ "definitions": { "a": { "type": "string" } }, "properties": { "x": { "$ref": "#/definitions/a" } } });
    assert_eq!(whole(&draft7), "type PA = string;\ntype Root = {\n  x?: PA;\n};\n");
    for odd in ["#/$defs/missing", "https://example.com/schema", "#", "", "#/%"] {
        parses(&whole(&json!({ "$ref": odd }))).expect("TypeScript");
    }
    parses(&whole(&json!({ "$defs": { "a": { "$ref": "#/$defs/a" } }, "$ref": "#/$defs/a" }))).expect("TypeScript");
}

#[test]
fn types_that_refer_to_themselves_do_so_as_typescript_allows() {
    let defined = |definitions: Value| whole(&json!({ "$defs": definitions, "$ref": "#/$defs/a" }));
    let a = || json!({ "$ref": "#/$defs/a" });
    for (definition, expected) in [
        // An argument of Record would be evaluated at once.
        (json!({ "additionalProperties": a() }), "type PA = { [key: string]: PA };\n"),
        (
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": a() }, { "additionalProperties": a() }] }),
            "type PA = string | PA[] | { [key: string]: PA };\n",
        ),
        (json!({ "type": "array", "prefixItems": [a()], "items": false }), "type PA = [PA?];\n"),
    ] {
        assert_eq!(defined(json!({ "a": definition })), format!("{expected}type Root = PA;\n"));
    }
    // With nothing in between there is no such type.
    for definition in [
        a(),
        json!({ "anyOf": [a(), { "type": "string" }] }),
        json!({ "allOf": [{ "oneOf": [{ "type": "null" }, a()] }] }),
        json!({ "allOf": [a()], "nullable": true }),
    ] {
        assert_eq!(defined(json!({ "a": definition })), "type Root = unknown;\n");
    }
    let mutual = json!({ "a": { "$ref": "#/$defs/b" }, "b": { "anyOf": [a(), { "type": "number" }] } });
    assert_eq!(defined(mutual), "type Root = unknown;\n");
    let before =
        json!({ "a": { "allOf": [{ "$ref": "#/$defs/b" }, { "type": "object" }] }, "b": { "$ref": "#/$defs/b" } });
    assert_eq!(defined(before), "type PA = Record<string, unknown>;\ntype Root = PA;\n");
}

#[test]
fn named_types_of_different_tools_have_different_names() {
    let entry = |id: &str, definition: &str| {
        let mut entry = Entry::new(id.parse().expect("an id"), "");
        let pointer = format!("#/$defs/{definition}");
        entry.input_schema =
            json!({ "properties": { "x": { "$ref": pointer } }, "$defs": { definition: { "type": "string" } } });
        entry
    };
    let entries = [
        ("x", entry("mcp:s:x", "a")),
        ("X", entry("mcp:s:X", "a")),
        ("get", entry("mcp:s:get", "user_id")),
        ("getUser", entry("mcp:s:get_user", "id")),
        ("mcp", entry("mcp:s:mcp", "toolResult")),
    ];
    let functions = || entries.iter().map(|(name, entry)| (*name, entry));
    for declared in [
        declare::namespace("MCP.s", functions(), |_| "McpToolResult".into(), ""),
        declare::object("tools", functions()),
    ] {
        for name in ["XA", "XA2", "GetUserId", "GetUserId2", "McpToolResult2"] {
            assert_eq!(declared.matches(&format!("type {name} =")).count(), 1, "{name} in {declared}");
        }
        parses(&declared).expect("TypeScript");
    }
}

#[test]
fn hints_are_one_short_line() {
    let schema = json!({ "type": "object", "required": ["path"], "properties": {
        "path": { "type": "string", "description": "long text" }, "limit": { "type": "integer" },
        "mode": { "enum": ["a", "b", "c", "d", "e", "f", "g", "h"] } } });
    assert_eq!(
        declare::hint(&schema),
        "{ path: string; limit?: number; mode?: \"a\" | \"b\" | \"c\" | \"d\" | \"e\" | \"f\" | string }"
    );
    let many: Value =
        (0..500).map(|i| (format!("p{i}"), json!({ "type": "string" }))).collect::<serde_json::Map<_, _>>().into();
    let hint = declare::hint(&json!({ "properties": many }));
    assert!(hint.len() < 1500 && hint.contains("[more: string]: unknown"), "{hint}");
    parses(&format!("type H = {hint};")).expect("TypeScript");
}

#[test]
fn size_and_depth_are_bounded() {
    let mut deep = json!({ "type": "string" });
    for _ in 0..500 {
        deep = json!({ "type": "array", "items": { "properties": { "x": deep } } });
    }
    assert!(whole(&deep).len() < 2000);
    let wide: Value = (0..20_000)
        .map(|i| (format!("property_{i}"), json!({ "type": "string", "description": "text ".repeat(50) })))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let rendered = whole(&json!({ "type": "object", "properties": wide }));
    assert!(rendered.len() < 300_000, "{}", rendered.len());
    parses(&rendered).expect("TypeScript");
}

#[test]
fn methods_have_their_description_and_an_optional_input_where_nothing_is_required() {
    let mut entry = Entry::new("mcp:docs:find-all".parse().expect("an id"), "Finds */ things.\nIn two lines.");
    entry.output_schema = Some(json!({ "type": "array", "items": { "type": "string" } }));
    let rendered = declare::method(&entry, "findAll", "  ");
    assert_eq!(
        rendered.text,
        "  /**\n   * Finds *\\/ things.\n   * In two lines.\n   */\n  findAll(input?: Record<string, unknown>): Promise<string[]>;\n"
    );
    parses(&format!("{}interface X {{\n{}}}", rendered.definitions, rendered.text)).expect("TypeScript");
    entry.input_schema = json!({ "required": ["a"], "properties": { "a": { "type": "number", "description": "x" } } });
    let rendered = declare::method(&entry, "findAll", "  ");
    assert!(
        rendered.text.ends_with("findAll(input: {\n    /** x */\n    a: number;\n  }): Promise<string[]>;\n"),
        "{}",
        rendered.text
    );
}

/// Schemas as servers might send them: mostly sensible, with text that means harm.
fn schemas() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-zA-Z_$][a-zA-Z0-9_$-]{0,8}".boxed(),
        ".{0,12}".boxed(),
        Just("*/ }; evil(); /*".to_owned()).boxed(),
        Just("\"; \u{2028} \\".to_owned()).boxed(),
        Just("__proto__".to_owned()).boxed(),
        Just("constructor".to_owned()).boxed(),
    ];
    let leaf = prop_oneof![
        Just(json!({})),
        any::<bool>().prop_map(Value::Bool),
        prop_oneof![
            Just("string"),
            Just("number"),
            Just("integer"),
            Just("boolean"),
            Just("null"),
            Just("object"),
            Just("array"),
            Just("odd")
        ]
        .prop_map(|name| json!({ "type": name })),
        text.clone().prop_map(|text| json!({ "const": text })),
        text.clone().prop_map(|text| json!({ "type": "string", "format": text.clone(), "description": text })),
        proptest::collection::vec(text.clone(), 0..4).prop_map(|values| json!({ "enum": values })),
        (any::<f64>(), any::<i64>()).prop_map(|(a, b)| json!({ "enum": [a, b, null, [1], {}] })),
        text.clone().prop_map(|text| json!({ "$ref": format!("#/$defs/{text}") })),
        Just(json!({ "$ref": "#" })),
        text.clone().prop_map(Value::String),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let named = proptest::collection::vec((text.clone(), inner.clone()), 0..5);
        let list = proptest::collection::vec(inner.clone(), 0..4);
        let object = |pairs: Vec<(String, Value)>| pairs.into_iter().collect::<serde_json::Map<_, _>>();
        prop_oneof![
            (named.clone(), proptest::collection::vec(text.clone(), 0..3), inner.clone()).prop_map(move |(properties, required, more)| {
                json!({ "type": "object", "properties": object(properties), "required": required, "additionalProperties": more })
            }),
            (named.clone(), inner.clone()).prop_map(move |(defs, root)| {
                let mut schema = root.as_object().cloned().unwrap_or_default();
                schema.insert("$defs".into(), object(defs).into());
                schema.into()
            }),
            inner.clone().prop_map(|items| json!({ "type": "array", "items": items })),
            (list.clone(), 0..4u32).prop_map(|(items, least)| json!({ "type": "array", "prefixItems": items, "minItems": least })),
            list.clone().prop_map(|items| json!({ "type": ["array", "null"], "items": items })),
            list.clone().prop_map(|options| json!({ "anyOf": options })),
            list.clone().prop_map(|options| json!({ "oneOf": options, "nullable": true })),
            list.prop_map(|parts| json!({ "allOf": parts })),
            named.prop_map(move |patterns| json!({ "patternProperties": object(patterns) })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_rendered_always_parses(schema in schemas()) {
        prop_assert_eq!(parses(&whole(&schema)), Ok(()));
        let hint = declare::hint(&schema);
        prop_assert!(!hint.contains('\n'));
        prop_assert_eq!(parses(&format!("type H = {hint};")), Ok(()));
    }

    #[test]
    fn every_description_and_name_makes_a_method(description in ".{0,200}", name in ".{0,20}", schema in schemas()) {
        let mut entry = Entry::new("mcp:s:t".parse().expect("an id"), description);
        entry.input_schema = schema;
        let rendered = declare::method(&entry, &name, "  ");
        prop_assert_eq!(parses(&format!("{}interface X {{\n{}}}", rendered.definitions, rendered.text)), Ok(()));
    }
}
