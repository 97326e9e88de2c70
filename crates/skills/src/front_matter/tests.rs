use super::*;

fn read(between: &str) -> FrontMatter {
    FrontMatter::parse(format!("---\n{between}\n---\n# Body\n").as_bytes()).expect("front matter")
}

fn refused(file: &[u8]) -> String {
    FrontMatter::parse(file).expect_err("no front matter").to_string()
}

#[test]
fn files_of_public_collections_are_read() {
    let with_json = r#"name: github
description: "Work with issues: list, open, close."
homepage: https://example.com
metadata: {"openclaw":{"emoji":"x","os":["darwin","linux"],"requires":{"bins":["gh"],"anyBins":["a","b"],"env":["TOKEN"],"config":["tools.exec.mode"]},"install":[{"id":"brew"}]}}"#;
    let skill = read(with_json);
    assert_eq!(skill.name.as_deref(), Some("github"));
    assert_eq!(skill.description.as_deref(), Some("Work with issues: list, open, close."));
    let requires = &skill.requirements;
    assert_eq!(
        (&requires.programs[..], &requires.any_program[..]),
        (&["gh".to_owned()][..], &["a".to_owned(), "b".to_owned()][..])
    );
    assert_eq!(
        (&requires.variables[..], &requires.settings[..]),
        (&["TOKEN".to_owned()][..], &["tools.exec.mode".to_owned()][..])
    );
    assert_eq!(requires.systems, ["darwin", "linux"]);
    let in_blocks = "name: pdf\ndescription: >\n  Fill in forms,\n  and merge.\nlicense: Apache-2.0\nallowed-tools: Bash(python:*), Read\nmetadata:\n  openclaw:\n    always: true\n    requires:\n      bins: [python3]";
    let skill = read(in_blocks);
    assert_eq!(skill.description.as_deref(), Some("Fill in forms, and merge."));
    assert_eq!((skill.license.as_deref(), skill.allowed_tools.len()), (Some("Apache-2.0"), 2));
    assert!(skill.requirements.always);
    let over_lines = "name: x\ndescription: y\nmetadata:\n  {\n    \"openclaw\":\n      { \"requires\": { \"bins\": [\"jq\"] }, },\n  }";
    assert_eq!(read(over_lines).requirements.programs, ["jq"]);
    assert_eq!(read("name: x\nmetadata: '{\"openclaw\":{\"os\":\"linux\"}}'").requirements.systems, ["linux"]);
}

#[test]
fn a_plain_value_that_breaks_the_rules_is_read_as_it_stands() {
    let skill =
        read("name: ask\ndescription: Use when: the user asks: why?\nmetadata: {\"openclaw\":{\"always\":true}}");
    assert_eq!(skill.description.as_deref(), Some("Use when: the user asks: why?"));
    assert!(skill.requirements.always);
}

#[test]
fn a_version_keeps_its_last_zero() {
    for (line, version) in [("1.10", "1.10"), ("\"2.0\"", "2.0"), ("3", "3"), ("v4-beta", "v4-beta"), ("1: 2", "1: 2")]
    {
        assert_eq!(read(&format!("name: x\nversion: {line}")).version.as_deref(), Some(version), "{line}");
    }
    for none in ["", "~", "[1, 2]", "{ a: b }"] {
        assert_eq!(read(&format!("name: x\nversion: {none}")).version, None, "{none}");
    }
}

#[test]
fn keys_that_mean_nothing_to_pincer_are_returned_too() {
    let file = b"---\nname: x\nhooks: { after: [run] }\nmetadata: '{\"other\":{\"install\":[]}}'\n---\n";
    let (front, keys) = FrontMatter::parse_with_keys(file).expect("front matter");
    assert_eq!(front, FrontMatter { name: Some("x".to_owned()), ..FrontMatter::default() });
    assert_eq!(keys["hooks"]["after"][0], "run");
    assert!(keys["metadata"]["other"]["install"].is_array(), "JSON in a text is read: {keys:?}");
}

#[test]
fn other_line_ends_and_a_mark_at_the_beginning_are_read() {
    let file = "\u{feff}---\r\nname: a\r\ndescription: b\r\n---\r\nbody";
    let skill = FrontMatter::parse(file.as_bytes()).expect("front matter");
    assert_eq!((skill.name.as_deref(), skill.description.as_deref()), (Some("a"), Some("b")));
    assert_eq!(read("").name, None);
    assert_eq!(read("name: off\ndescription: no").name.as_deref(), Some("off"));
}

#[test]
fn what_is_no_front_matter_is_refused_with_a_reason() {
    for (file, why) in [
        (&b"# A page"[..], "does not begin"),
        (b"", "does not begin"),
        (b"\xff\xfe", "not UTF-8"),
        (b"---\nname: x\n", "is missing"),
        (b"---\nname: caf\xe9\n---\n", "not UTF-8"),
        (b"---\nname: x\n\xff\n", "not UTF-8"),
        (b"---\n- a\n- b\n---\n", "not a list of keys"),
        (b"---\nname: [\n---\n", "not YAML"),
    ] {
        let told = refused(file);
        assert!(told.contains(why), "{told}");
    }
    let long = format!("---\ndescription: {}\n---\n", "x".repeat(MOST_BYTES));
    assert!(refused(long.as_bytes()).contains("too far away"));
}

#[test]
fn a_file_that_grows_when_it_is_read_is_refused() {
    let mut bomb = "---\na: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for letter in b'b'..b'z' {
        let (this, before) = (letter as char, (letter - 1) as char);
        bomb.push_str(&format!("{this}: &{this} [{}]\n", vec![format!("*{before}"); 9].join(",")));
    }
    bomb.push_str("---\n");
    assert!(refused(bomb.as_bytes()).contains("not YAML"));
    let deep = format!("---\na: {}\n---\n", "[".repeat(20_000));
    assert!(refused(deep.as_bytes()).contains("not YAML"));
}
