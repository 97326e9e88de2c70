use super::super::shape::LONGEST_REMEMBERED;
use super::*;

fn gate(mode: ExecMode, allow: &[&str]) -> Gate {
    let allow: Vec<String> = allow.iter().map(|text| (*text).to_owned()).collect();
    Gate::new(mode, &allow, "/usr/local/bin:/usr/bin:/bin", Vec::new(), true).expect("patterns")
}

fn verdict(mode: ExecMode, allow: &[&str], command: &str) -> BeforeVerdict {
    gate(mode, allow).judge(command, None)
}

fn asks(allow: &[&str], command: &str) -> Option<Standing> {
    let verdict = verdict(ExecMode::Ask, allow, command);
    verdict.require_approval.map(|_| verdict.standing)
}

fn exactly(command: &str) -> Option<Standing> {
    Some(Standing::Parts(vec![format!("{command:?}")]))
}

#[test]
fn modes() {
    assert_eq!(verdict(ExecMode::Deny, &["ls"], "ls").block, Some(true));
    assert_eq!(verdict(ExecMode::Full, &[], "rm -rf /").require_approval, None);
    assert_eq!(verdict(ExecMode::Allowlist, &["ls"], "ls -l").block, None);
    assert_eq!(verdict(ExecMode::Allowlist, &["ls"], "cat x").block, Some(true));
    assert_eq!(asks(&["ls"], "ls -l"), None);
    assert!(asks(&[], "ls").is_some());
    let allow = ["ls".to_owned(), "make test".to_owned()];
    let unconfined = Gate::new(ExecMode::Ask, &allow, "/usr/bin:/bin", Vec::new(), false);
    let unconfined = unconfined.expect("patterns");
    assert!(unconfined.judge("ls", None).require_approval.is_some(), "what cannot be confined");
    assert!(unconfined.judge("make test", None).require_approval.is_none(), "what the operator has written out");
}

#[test]
fn only_one_plain_command_runs_unasked() {
    assert_eq!(asks(&["ls"], " ls -l 'a b' \n"), None);
    for command in [
        "ls; ls",
        "ls | ls",
        "ls && ls",
        "ls & ls",
        "ls &",
        "ls\nls",
        "ls $(ls)",
        "ls > x",
        "ls 2>&1",
        "ls </dev/null",
        "ls *",
        "ls $HOME",
        "ls ~",
        "ls {a,b}",
        "ls [a]",
        "cd x",
    ] {
        assert!(asks(&["*", "/**"], command).is_some(), "{command}");
    }
    let unasked = gate(ExecMode::Ask, &["ls"]).unasked("ls -l 'a b'").expect("runs");
    assert_eq!((unasked.words[0].ends_with("/ls"), &unasked.words[1..]), (true, &["-l".into(), "a b".into()][..]));
}

#[test]
fn an_entry_can_name_a_whole_command() {
    let allow = ["make test", "npm run *", "/usr/bin/env -i"];
    assert_eq!(asks(&allow, "make test"), None);
    assert_eq!(asks(&allow, "make 'test'"), None);
    for command in ["make", "make test x", "make deploy", "make test; ls", "make test > x", "npm install"] {
        assert!(asks(&allow, command).is_some(), "{command}");
    }
}

#[test]
fn a_name_means_what_path_finds_and_a_path_what_is_there() {
    assert_eq!(asks(&["/usr/bin/*", "/bin/*"], "ls"), None);
    assert_eq!(asks(&["l*"], "ls"), None);
    assert!(asks(&["ls"], "/bin/ls").is_some(), "a bare name is not a path");
    assert!(asks(&["ls"], "./ls").is_some());
    assert!(asks(&["*"], "no-such-program-anywhere").is_some());
    for spelling in
        ["//usr/bin/ls", "/usr/./bin/ls", "/usr/../usr/bin/ls", "/proc/self/root/usr/bin/ls", "/usr//bin/ls"]
    {
        assert!(asks(&["*", "/**"], spelling).is_some(), "{spelling}");
    }
}

#[test]
fn an_answer_for_ever_about_what_cannot_be_told_is_for_that_command() {
    for command in [
        "sh -c ls",
        "bash x.sh",
        "env ls",
        "xargs rm",
        "sudo ls",
        "python3 -c 'x'",
        "python3 x.py",
        "node -e 1",
        "perl -ne x f",
        "awk '{system(\"id\")}' f",
        "find . -exec rm {} +",
        "eval ls",
        "timeout 5 ls",
        "time ls",
        "\\time ls",
        "/usr/bin/time ls",
        ". ./x",
        "sed -i s/a/b/ f",
        "find . -delete",
        "ls *.rs",
        "test {-v,'a[$(id)]'}",
        "printf {-v,PATH} x",
        "printf -[v] PATH x",
        "tar cfI x y",
        "cd x",
        "cd x && touch a.txt",
        "//proc/self/cwd/x",
        "/usr/../bin/ls",
    ] {
        assert_eq!(asks(&[], command), exactly(command), "{command}");
    }
    assert_eq!(asks(&[], &format!("sh -c {}", "x".repeat(LONGEST_REMEMBERED))), Some(Standing::Never));
    let shaped = gate(ExecMode::Ask, &[]).judge("ls", Some("sub")).standing;
    assert!(matches!(shaped, Standing::Parts(shapes) if shapes[0].ends_with("ls in \"sub\"")));
    let elsewhere = gate(ExecMode::Ask, &[]).judge("./x", Some("sub")).standing;
    assert_eq!(elsewhere, Standing::Parts(vec!["\"./x\" in \"sub\"".into()]));
}

#[test]
fn an_answer_for_ever_covers_commands_of_one_shape() {
    let shapes = |command: &str| match asks(&[], command) {
        Some(Standing::Parts(shapes)) => {
            let name =
                |shape: &String| shape.split(' ').filter(|word| !word.starts_with('(')).collect::<Vec<_>>().join(" ");
            shapes.iter().map(|shape| name(shape).rsplit_once("bin/").expect("a path").1.to_owned()).collect::<Vec<_>>()
        }
        other => panic!("{command}: {other:?}"),
    };
    for (command, expected) in [
        ("sort a.txt", vec!["sort *"]),
        ("sort -o a.txt b.txt", vec!["sort -o a.txt *"]),
        ("uniq a.txt", vec!["uniq *"]),
        ("uniq a.txt b.txt", vec!["uniq * *"]),
        ("seq 1 2 | sort -r | cat | sort -r", vec!["cat", "seq * *", "sort -r"]),
        ("git commit -m 'a \"b'", vec!["git commit -m \"a \\\"b\""]),
        ("git push origin v1.0", vec!["git push origin v1.0"]),
        ("make a.o", vec!["make a.o"]),
        ("cp @a ./b.txt", vec!["cp @a *"]),
        ("touch '*'", vec!["touch \"*\""]),
        ("touch -r '*'", vec!["touch -r \"*\""]),
    ] {
        assert_eq!(shapes(command), expected, "{command}");
    }
    // Also where another rule asks.
    assert!(matches!(verdict(ExecMode::Full, &[], "ls").standing, Standing::Parts(_)));
}
