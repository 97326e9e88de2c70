//! What the traits promise about the entries of sessions.
use pincer_store::{Attach, Committed, EntryKind, EntryPage, NewEntry, NewSession, SessionCommit};

use crate::session_words::*;
use crate::{Blocking, Fresh};

pub fn entries_are_stored_as_they_were_given(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        let whole = NewEntry {
            run: Some("r".into()),
            call: Some("c".into()),
            body: "{\"text\":\"a\\u0000b 🦀\"}".into(),
            events: Some("[1]".into()),
            at: -5,
            ..message("a")
        };
        commit(store, "s", fence, [whole, message("b")]);
        let stored = store.entries("s", ALL).expect("read");
        assert_eq!((stored[0].run.as_ref(), stored[0].call.as_deref()), (Some(&"r".into()), Some("c")));
        assert_eq!(
            (stored[0].body.as_str(), stored[0].events.as_deref()),
            ("{\"text\":\"a\\u0000b 🦀\"}", Some("[1]"))
        );
        assert_eq!(
            (stored[0].at, stored[1].at, stored[1].run.as_ref(), stored[1].events.as_ref()),
            (-5, 20, None, None)
        );
        for kind in [
            EntryKind::CustomMessage,
            EntryKind::Custom,
            EntryKind::BranchSummary,
            EntryKind::ModelChange,
            EntryKind::ThinkingLevelChange,
            EntryKind::Label,
            EntryKind::SessionInfo,
            EntryKind::Reset,
        ] {
            commit(store, "s", fence, [NewEntry { kind, ..message(kind.as_str()) }]);
            assert_eq!(store.entry_named("s", kind.as_str()).expect("read").expect("there").kind, kind);
        }
    });
}

pub fn entries_are_attached_where_they_are_told(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        let store_all = |entries: Vec<NewEntry>| store.commit_session("s", fence, &storing(entries)).expect("stored");
        assert_eq!(store_all(vec![]), Committed { first: 1, leaf: None });
        assert_eq!(store_all(vec![message("a"), message("b")]), Committed { first: 1, leaf: Some(2) });
        assert_eq!(store_all(vec![at("side", Attach::Beside(1))]), Committed { first: 3, leaf: Some(2) });
        assert_eq!(store_all(vec![message("c")]), Committed { first: 4, leaf: Some(4) });
        // One that follows in the same commit knows of those before.
        let mixed = vec![at("d", Attach::Under(Some(1))), nested("n", 5), message("e"), at("f", Attach::Under(None))];
        assert_eq!(store_all(mixed), Committed { first: 5, leaf: Some(8) });
        assert_eq!(store_all(vec![]), Committed { first: 9, leaf: Some(8) });
        assert_eq!(tree(store, "s"), "a:0 b:1 side:1 c:2 d:1 n:5 e:5 f:0");
        let stands = store.session("s").expect("there");
        assert_eq!((stands.entries, stands.leaf), (8, Some(8)));
        assert_eq!(context(store, "s"), "f");
        let page = |after, limit| ids(&store.entries("s", EntryPage { after, limit }).expect("read")).join(" ");
        assert_eq!([page(0, 3), page(3, 3), page(6, 3), page(8, 3), page(0, 0)], ["a b side", "c d n", "e f", "", ""]);
    });
}

pub fn an_entry_needs_a_parent_before_it_and_an_id_of_its_own(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        commit(store, "s", fence, [message("a")]);
        for parent in [0, 2, 3, u32::MAX] {
            missing(store.commit_session("s", fence, &storing([at("b", Attach::Beside(parent))])));
            missing(store.commit_session("s", fence, &storing([at("b", Attach::Under(Some(parent)))])));
        }
        missing(store.commit_session("s", fence, &storing([at("b", Attach::Beside(3)), message("c")])));
        exists(store.commit_session("s", fence, &storing([message("a")])));
        exists(store.commit_session("s", fence, &storing([message("b"), message("b")])));
        assert_eq!(tree(store, "s"), "a:0");
        let other = held(store, "t", "other");
        commit(store, "t", other, [message("a")]);
    });
}

pub fn the_context_is_the_branch_in_use_without_nested_calls(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        assert_eq!(context(store, "s"), "");
        commit(store, "s", fence, [message("a"), message("b"), nested("n1", 2), nested("n2", 2), message("c")]);
        assert_eq!(context(store, "s"), "a b c");
        commit(store, "s", fence, [at("x", Attach::Under(Some(2))), message("y"), nested("n3", 7)]);
        assert_eq!(context(store, "s"), "a b x y");
        // Back to the branch before, with a note beside it.
        commit(store, "s", fence, [at("d", Attach::Under(Some(5))), at("beside", Attach::Beside(9)), nested("n4", 9)]);
        assert_eq!(context(store, "s"), "a b c d");
        // A nested call without a reply, as an import may have it, hides nothing.
        let orphan = NewEntry { kind: EntryKind::NestedCall, ..message("orphan") };
        commit(store, "s", fence, [orphan]);
        assert_eq!(context(store, "s"), "a b c d");
        commit(store, "s", fence, [message("e")]);
        assert_eq!(context(store, "s"), "a b c d e");
    });
}

pub fn the_context_begins_where_it_is_told(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        commit(store, "s", fence, ["a", "b", "c", "d"].map(message));
        let compact = SessionCommit { context_from: Some(3), ..storing([compaction("sum", "c")]) };
        store.commit_session("s", fence, &compact).expect("stored");
        assert_eq!(context(store, "s"), "c d sum");
        commit(store, "s", fence, [message("e"), nested("n", 6), at("side", Attach::Beside(3))]);
        assert_eq!(context(store, "s"), "c d sum e");
        // A branch that leaves before: the commit that moves there tells where it begins.
        let back = SessionCommit { context_from: Some(1), ..storing([at("f", Attach::Under(Some(2)))]) };
        store.commit_session("s", fence, &back).expect("stored");
        assert_eq!(context(store, "s"), "a b f");
        // Nothing that is there is sent any more.
        store.commit_session("s", fence, &SessionCommit { context_from: Some(10), ..storing([]) }).expect("stored");
        assert_eq!(context(store, "s"), "");
        commit(store, "s", fence, [message("g")]);
        assert_eq!(context(store, "s"), "g");
    });
}

fn fork(store: Blocking<'_>, source: &str, at: u32, id: &str) -> (String, String) {
    let new = NewSession { parent: Some(source.into()), created_at: 900, ..session(id, id) };
    let made = store.fork_session(source, at, &new).expect("forked");
    assert_eq!(made, store.session(id).expect("there"));
    assert_eq!((made.parent, made.owner, made.active, made.is_current), (Some(source.into()), None, None, true));
    assert_eq!(
        (made.created_at, made.updated_at, made.entries as usize),
        (900, 900, store.entries(id, ALL).expect("read").len())
    );
    (tree(store, id), context(store, id))
}

pub fn a_fork_is_the_branch_that_ends_with_an_entry(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        let mut first = storing([message("a"), message("b"), at("side", Attach::Beside(1)), nested("n1", 2)]);
        first.settings = Some("{\"a\":1}".into());
        first.totals.input = 9;
        store.commit_session("s", fence, &first).expect("stored");
        let more = [message("c"), nested("n2", 5), nested("n3", 2), nested("of side", 3), message("d")];
        commit(store, "s", fence, more);
        let before = (store.session("s").expect("there"), store.entries("s", ALL).expect("read"));
        let check = |at, id, tree: &str, context: &str| {
            assert_eq!(fork(store, "s", at, id), (tree.to_owned(), context.to_owned()), "{at}");
        };
        check(9, "leaf", "a:0 b:1 n1:2 c:2 n2:4 n3:2 d:4", "a b c d");
        check(2, "middle", "a:0 b:1 n1:2 n3:2", "a b");
        check(3, "beside", "a:0 side:1 of side:2", "a side");
        check(1, "first", "a:0", "a");
        // A nested call stands for the reply that it is part of.
        check(4, "nested", "a:0 b:1 n1:2 n3:2", "a b");
        assert_eq!(store.session("nested").expect("there").leaf, Some(2));
        let copied = store.session("leaf").expect("there");
        assert_eq!((copied.settings.as_str(), copied.totals.input), ("{\"a\":1}", 0));
        let (ours, theirs) = (store.entries("leaf", ALL).expect("read"), &before.1);
        assert_eq!(
            (&ours[2].body, &ours[2].call, ours[2].kind, ours[2].at),
            (&theirs[3].body, &theirs[3].call, theirs[3].kind, 20)
        );
        for at in [0, 10, u32::MAX] {
            missing(store.fork_session("s", at, &session("none", "none")));
        }
        missing(store.fork_session("none", 1, &session("none", "none")));
        missing(store.session("none"));
        assert_eq!(store.current_session("me", "none").expect("read"), None, "neither half of it happened");
        exists(store.fork_session("s", 1, &session("new", "main")));
        // Each goes on by itself.
        let (id, proof) = held_now(store, "middle");
        commit(store, &id, proof, [message("other")]);
        assert_eq!(
            (context(store, "middle").as_str(), tree(store, "middle").as_str()),
            ("a b other", "a:0 b:1 n1:2 n3:2 other:2")
        );
        assert_eq!((store.session("s").expect("there"), store.entries("s", ALL).expect("read")), before);
        // A nested call without a reply, as an import may have it, is part of no branch.
        let orphan = NewEntry { kind: EntryKind::NestedCall, ..at("orphan", Attach::Under(None)) };
        commit(store, "s", fence, [orphan]);
        check(9, "again", "a:0 b:1 n1:2 c:2 n2:4 n3:2 d:4", "a b c d");
        missing(store.fork_session("s", 10, &session("none", "none")));
        store.delete_session("s", before.0.fence).expect("deleted");
        assert_eq!(context(store, "leaf"), "a b c d");
    });
}

pub fn a_fork_is_compacted_as_its_branch_was(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        let compact = |id: &str, kept: &str, from| {
            let commit = SessionCommit { context_from: Some(from), ..storing([compaction(id, kept)]) };
            store.commit_session("s", fence, &commit).expect("stored");
        };
        commit(store, "s", fence, ["1", "2", "3", "4"].map(message));
        compact("sum1", "3", 3);
        commit(store, "s", fence, [message("6"), nested("n", 6), message("8"), message("9")]);
        compact("sum2", "8", 8);
        commit(store, "s", fence, [message("11")]);
        assert_eq!(context(store, "s"), "8 9 sum2 11");
        let check = |at, context: &str| {
            let name = format!("f{at} of {}", store.session("s").expect("there").entries);
            assert_eq!(fork(store, "s", at, &name).1, context, "{at}");
        };
        check(11, "8 9 sum2 11");
        check(10, "8 9 sum2");
        check(9, "3 4 sum1 6 8 9");
        check(5, "3 4 sum1");
        check(4, "1 2 3 4");
        check(3, "1 2 3");
        check(1, "1");
        // A branch that left before the first summary, one that names no entry, and an entry after which all is new.
        let side = SessionCommit { context_from: Some(1), ..storing([at("12", Attach::Under(Some(2)))]) };
        store.commit_session("s", fence, &side).expect("stored");
        check(12, "1 2 12");
        check(11, "8 9 sum2 11");
        compact("sum3", "none", 13);
        commit(store, "s", fence, [message("14")]);
        check(14, "sum3 14");
        let reset = NewEntry { kind: EntryKind::Reset, ..message("reset") };
        store
            .commit_session("s", fence, &SessionCommit { context_from: Some(15), ..storing([reset]) })
            .expect("stored");
        commit(store, "s", fence, [message("16")]);
        check(16, "reset 16");
        // A summary whose body another program wrote.
        for (position, body) in [(17, "{"), (18, "{\"firstKeptEntryId\":7}"), (19, "[]")] {
            let odd = NewEntry { body: body.into(), ..compaction(&format!("odd{position}"), "") };
            store
                .commit_session("s", fence, &SessionCommit { context_from: Some(position), ..storing([odd]) })
                .expect("stored");
            check(position, &format!("odd{position}"));
        }
    });
}

pub fn entries_are_found_by_the_beginning_of_their_ids(fresh: &Fresh) {
    fresh.with_store(|store| {
        let (one, two) = (held(store, "s", "main"), held(store, "t", "other"));
        commit(store, "s", one, ["abc", "abd", "b", "bcd", "b%", "é1", "\u{10ffff}x"].map(message));
        commit(store, "t", two, ["zzz"].map(message));
        let named = |id: &str, beginning: &str| {
            store.entry_named(id, beginning).expect("read").map(|entry| entry.id.to_string())
        };
        for (beginning, found) in [
            ("abc", Some("abc")),
            ("ab", None),
            ("abd", Some("abd")),
            ("abcd", None),
            ("b", Some("b")),
            ("bc", Some("bcd")),
            ("b%", Some("b%")),
            ("%", None),
            ("_", None),
            ("B", None),
            ("", None),
            ("é", Some("é1")),
            ("\u{10ffff}", Some("\u{10ffff}x")),
            ("zzz", None),
        ] {
            assert_eq!(named("s", beginning).as_deref(), found, "{beginning:?}");
        }
        assert_eq!(named("t", "z").as_deref(), Some("zzz"));
        missing(store.entry_named("none", "a"));
    });
}

pub fn entries_of_many_sessions_are_found_the_latest_first(fresh: &Fresh) {
    fresh.with_store(|store| {
        // The sessions change in another order than they began, and their entries alternate.
        for (name, times) in [("a", [1, 4, 7]), ("b", [2, 5, 9]), ("c", [3, 6, 8])] {
            let made = store.create_session(&NewSession { created_at: 0, ..session(name, name) }).expect("made");
            let fence = store.claim_session(name, made.fence, "p", &SessionCommit::default()).expect("claimed");
            for at in times {
                let entry = NewEntry { at, ..message(&format!("{name}{at}")) };
                let early = SessionCommit { now: at, ..storing([entry]) };
                store.commit_session(name, fence, &early).expect("stored");
            }
        }
        let found = |limit| {
            let found = store.search_entries(Some("me"), &["message"], limit).expect("read");
            found.iter().map(|(session, entry)| format!("{session}/{}", entry.id)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found(99), "b/b9 c/c8 a/a7 c/c6 b/b5 a/a4 c/c3 b/b2 a/a1");
        assert_eq!((found(4).as_str(), found(0).as_str()), ("b/b9 c/c8 a/a7 c/c6", ""));
    });
}

pub fn entries_are_found_by_their_words(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        let yours = store.create_session(&NewSession { user: "you".into(), ..session("y", "main") }).expect("made");
        let text = |id: &str, at, body: &str| NewEntry { at, body: body.into(), ..message(id) };
        commit(
            store,
            "s",
            fence,
            [
                text("first", 1, r#"{"text":"The Quick brown fox"}"#),
                text("quotes", 2, r#"{"text":"say \"hello\" to C:\\temp"}"#),
                text("umlaut", 3, r#"{"text":"ÄPFEL und ΟΔΟΣ"}"#),
                text("escaped", 4, r#"{"text":"caf\u00e9 \ud83e\udd80"}"#),
                text("lines", 5, r#"{"text":"one\ntwo\tthree"}"#),
                text("percent", 6, r#"{"text":"100%_done 'quoted'"}"#),
                text("late", 7, r#"{"text":"quick again"}"#),
            ],
        );
        let first = storing([text("theirs", 9, r#"{"text":"quick"}"#)]);
        store.claim_session("y", yours.fence, "p", &first).expect("claimed");
        let check = |words: &[&str], expected: &str| {
            let found = store.search_entries(Some("me"), words, 9).expect("read");
            assert!(found.iter().all(|(session, _)| *session == "s"));
            let found: Vec<_> = found.iter().map(|(_, entry)| entry.id.as_str()).collect();
            assert_eq!(found.join(" "), expected, "{words:?}");
        };
        check(&["quick"], "late first");
        check(&["QUICK"], "late first");
        check(&["uic"], "late first");
        check(&["fox", "the"], "first");
        check(&["fox", "again"], "");
        check(&["\"hello\""], "quotes");
        check(&["C:\\temp"], "quotes");
        check(&["c:\\TEMP", "SAY"], "quotes");
        check(&["äpfel"], "umlaut");
        check(&["ÄPFEL", "οδοσ"], "umlaut");
        check(&["CAFÉ"], "escaped");
        check(&["🦀"], "escaped");
        check(&["one\ntwo"], "lines");
        check(&["ntwo"], "");
        check(&["100%_"], "percent");
        check(&["0%d"], "");
        check(&["'QUOTED'"], "percent");
        check(&["theirs"], "");
        let of_all = store.search_entries(None, &["quick"], 2).expect("read");
        assert_eq!(of_all.iter().map(|(_, entry)| entry.id.as_str()).collect::<Vec<_>>(), ["theirs", "late"]);
        assert_eq!(store.search_entries(Some("you"), &["quick"], 9).expect("read")[0].0, "y");
        assert_eq!(store.search_entries(Some("none"), &["quick"], 9).expect("read"), []);
        assert_eq!(store.search_entries(None, &["quick"], 0).expect("read"), []);
        assert_eq!(store.search_entries(Some("me"), &[], 9).expect("read").len(), 7, "no word is in every entry");
    });
}
