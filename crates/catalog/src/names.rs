//! Names that a guest can write: functions of `tools`, members of `MCP` and of namespaces.

use std::collections::{BTreeMap, BTreeSet};

/// Words that cannot stand where a name does, or that an object already means something by. Words such as `get` and `of`, which mean
/// something in a few places only, are names.
const RESERVED: [&str; 59] = [
    "arguments",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "constructor",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "hasOwnProperty",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "isPrototypeOf",
    "let",
    "new",
    "null",
    "package",
    "private",
    "propertyIsEnumerable",
    "protected",
    "prototype",
    "public",
    "return",
    "static",
    "super",
    "switch",
    "then",
    "this",
    "throw",
    "toJSON",
    "toLocaleString",
    "toString",
    "true",
    "try",
    "typeof",
    "undefined",
    "valueOf",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// Globals of every program that are ours.
const OURS: [&str; 16] = [
    "ALL_TOOLS",
    "API",
    "MCP",
    "TextDecoder",
    "TextEncoder",
    "atob",
    "btoa",
    "console",
    "json",
    "namespaces",
    "skills",
    "structuredClone",
    "text",
    "tools",
    "unwrap",
    "yield_control",
];
/// Globals of the language and of the engine.
const ECMASCRIPT: [&str; 66] = [
    "AggregateError",
    "Array",
    "ArrayBuffer",
    "AsyncDisposableStack",
    "Atomics",
    "BigInt",
    "BigInt64Array",
    "BigUint64Array",
    "Boolean",
    "DOMException",
    "DataView",
    "Date",
    "DisposableStack",
    "Error",
    "EvalError",
    "FinalizationRegistry",
    "Float16Array",
    "Float32Array",
    "Float64Array",
    "Function",
    "Infinity",
    "Int16Array",
    "Int32Array",
    "Int8Array",
    "InternalError",
    "Iterator",
    "JSON",
    "Map",
    "Math",
    "NaN",
    "Number",
    "Object",
    "Promise",
    "Proxy",
    "RangeError",
    "ReferenceError",
    "Reflect",
    "RegExp",
    "Set",
    "SharedArrayBuffer",
    "String",
    "SuppressedError",
    "Symbol",
    "SyntaxError",
    "TypeError",
    "URIError",
    "Uint16Array",
    "Uint32Array",
    "Uint8Array",
    "Uint8ClampedArray",
    "WeakMap",
    "WeakRef",
    "WeakSet",
    "clearTimeout",
    "decodeURI",
    "decodeURIComponent",
    "encodeURI",
    "encodeURIComponent",
    "escape",
    "globalThis",
    "isFinite",
    "isNaN",
    "parseFloat",
    "parseInt",
    "setTimeout",
    "unescape",
];
/// Keys that would reach a prototype.
const UNSAFE_KEYS: [&str; 3] = ["__proto__", "constructor", "prototype"];
/// Whether guest code can write `name` after a dot or as a variable, and nothing else is meant by it.
pub fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == '$');
    first && letters.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
}

/// Whether it means something else already: a word of the language, a name of prototypes, or one of ours.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.binary_search(&name).is_ok() || name.starts_with("__")
}

/// Whether an object that a program gets may have this name: nothing else is called that.
pub fn is_free_global(name: &str) -> bool {
    is_identifier(name) && !is_reserved(name) && !OURS.contains(&name) && !ECMASCRIPT.contains(&name)
}

/// Whether an object that a program gets may have a member of this name: it reaches no prototype.
pub fn is_safe_key(key: &str) -> bool {
    !UNSAFE_KEYS.contains(&key)
}

/// A tool's name as a function of `tools`: what cannot stand in a name becomes `_`. `None` if nothing usable is left.
pub fn function_name(name: &str) -> Option<String> {
    let mut safe: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '$' { c } else { '_' }).collect();
    if safe.starts_with(|c: char| c.is_ascii_digit()) {
        safe.insert(0, '_');
    }
    let usable = safe.chars().any(|c| c.is_ascii_alphanumeric()) && !is_reserved(&safe);
    usable.then_some(safe)
}

/// The function names that mean exactly one of these tools. `taken` are names that mean something else already.
pub fn unambiguous<'a>(
    names: impl IntoIterator<Item = (&'a str, &'a str)>,
    taken: &[&str],
) -> BTreeMap<String, &'a str> {
    let mut found: BTreeMap<String, Option<&str>> = BTreeMap::new();
    for (name, id) in names {
        if let Some(safe) = function_name(name).filter(|safe| !taken.contains(&safe.as_str())) {
            found.entry(safe).and_modify(|other| *other = None).or_insert(Some(id));
        }
    }
    found.into_iter().filter_map(|(safe, id)| Some((safe, id?))).collect()
}

/// `create_issue` → `createIssue`, `chrome-devtools` → `chromeDevtools`, `XMLHttp` → `XMLHttp`.
fn camel_case(name: &str) -> String {
    let mut camel = String::new();
    for part in name.split(|c: char| !c.is_ascii_alphanumeric() && c != '$').filter(|part| !part.is_empty()) {
        let mut letters = part.chars();
        let first = letters.next().unwrap_or_default();
        if camel.is_empty() {
            camel.push(first)
        } else {
            camel.push(first.to_ascii_uppercase())
        }
        camel.extend(letters);
    }
    if camel.starts_with(|c: char| c.is_ascii_digit()) {
        camel.insert(0, '_');
    }
    if camel.is_empty() { "_".into() } else { camel }
}

/// A camel-case name for each of `names`, in their order. Keywords, names of prototypes, names in `taken` and second comers
/// get a number; who comes first does not depend on the order in which `names` are given.
pub fn camel_names(names: &[&str], taken: &[&str]) -> Vec<String> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|index| (names[*index], *index));
    let mut used: BTreeSet<String> = taken.iter().map(|name| (*name).to_owned()).collect();
    let mut out = vec![String::new(); names.len()];
    for index in order {
        let camel = camel_case(names[index]);
        let mut candidate = camel.clone();
        let mut number = 2;
        while is_reserved(&candidate) || used.contains(&candidate) {
            candidate = format!("{camel}{number}");
            number += 1;
        }
        used.insert(candidate.clone());
        out[index] = candidate;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_can_be_searched() {
        assert!(RESERVED.is_sorted());
    }

    #[test]
    fn globals_that_are_there_are_not_free() {
        for (name, expected) in [
            ("shop", true),
            ("$shop_2", true),
            ("MCP", false),
            ("yield_control", false),
            ("Promise", false),
            ("globalThis", false),
            ("class", false),
            ("__shop", false),
            ("my-shop", false),
            ("", false),
        ] {
            assert_eq!(is_free_global(name), expected, "{name}");
        }
        assert!(is_safe_key("shop") && !is_safe_key("__proto__"));
    }

    #[test]
    fn functions_have_safe_names() {
        for (name, expected) in [
            ("web_search", Some("web_search")),
            ("get-file.v2", Some("get_file_v2")),
            ("2fa", Some("_2fa")),
            ("größe", Some("gr__e")),
            ("constructor", None),
            ("__proto__", None),
            ("then", None),
            ("-", None),
            ("", None),
        ] {
            assert_eq!(function_name(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn names_that_collide_mean_nothing() {
        let names = [("get-file", "a"), ("get_file", "b"), ("get.file", "c"), ("read", "d"), ("search", "e")];
        let found = unambiguous(names, &["search", "describe", "call"]);
        assert_eq!(found, BTreeMap::from([("read".to_owned(), "d")]));
    }

    #[test]
    fn members_are_in_camel_case_and_told_apart_by_numbers() {
        let names =
            ["create_issue", "createIssue", "delete", "resources", "42", "chrome-devtools", "!", "create-issue"];
        let camel = camel_names(&names, &["$api", "$serverName", "resources", "prompts"]);
        assert_eq!(
            camel,
            ["createIssue3", "createIssue2", "delete2", "resources2", "_42", "chromeDevtools", "_", "createIssue"]
        );
        // Who gets which number is a matter of the names alone.
        let turned: Vec<&str> = names.iter().rev().copied().collect();
        let mut camel_turned = camel_names(&turned, &["$api", "$serverName", "resources", "prompts"]);
        camel_turned.reverse();
        assert_eq!(camel_turned, camel);
    }
}
