//! The promises of the traits about sessions that are read in parts.
use pincer_store::{Attach, Decision, EntryKind, EntryPage, NewApproval, NewEntry};

use crate::Fresh;
use crate::session_words::*;

pub fn a_session_is_read_without_its_texts_and_then_in_parts(fresh: &Fresh) {
    fresh.with_store(|store| {
        let fence = held(store, "s", "main");
        let note = r#"{"customType":"pincer.waiting","data":1}"#;
        let nested = NewEntry { body: r#"{"startedAt":17,"tool":"ä"}"#.into(), ..nested("c", 1) };
        let entries = [
            message("a"),
            NewEntry { kind: EntryKind::Custom, body: note.into(), events: Some("[]".into()), ..message("b") },
            nested,
            NewEntry { kind: EntryKind::Custom, body: "{broken".into(), ..at("d", Attach::Leaf) },
        ];
        store.commit_session("s", fence, &storing(entries)).expect("stored");
        let outline = store.outline("s", ALL).expect("read");
        let told: Vec<_> = outline.iter().map(|entry| (entry.position, entry.parent, entry.kind)).collect();
        let kinds = [EntryKind::Message, EntryKind::Custom, EntryKind::NestedCall, EntryKind::Custom].map(Some);
        assert_eq!(told, [(1, None, kinds[0]), (2, Some(1), kinds[1]), (3, Some(1), kinds[2]), (4, Some(2), kinds[3])]);
        let told: Vec<_> = outline.iter().map(|entry| (entry.note.as_deref(), entry.began_at, entry.at)).collect();
        assert_eq!(
            told,
            [(None, None, 20), (Some("pincer.waiting"), None, 20), (None, Some(17), 20), (None, None, 20)]
        );
        assert_eq!((outline[1].bytes, outline[2].bytes), (note.len() as u64, 28), "bytes, not characters");
        assert_eq!(outline[2].call.as_deref(), Some("call"));
        assert_eq!(store.outline("s", EntryPage { after: 1, limit: 2 }).expect("read"), outline[1..3]);

        let texts = store.entry_texts("s", 2, 3).expect("read");
        let told: Vec<_> = texts.iter().map(|text| text.parent_id.as_ref().map(|id| id.as_str())).collect();
        assert_eq!(told, [Some("a"), Some("a")]);
        assert_eq!((texts[0].entry.body.as_str(), texts[0].entry.events.as_deref()), (note, None));
        assert_eq!(store.entry_texts("s", 5, 9).expect("read"), []);
        missing(store.outline("none", ALL));
        missing(store.entry_texts("none", 1, 1));
    });
}

pub fn the_questions_of_a_session_are_found_by_the_times_at_which_they_were_asked(fresh: &Fresh) {
    fresh.with_store(|store| {
        for (id, session, user, at) in [
            ("x", "main", Some("me"), 5),
            ("y", "main", None, 7),
            ("z", "main", Some("you"), 7),
            ("w", "other", None, 7),
        ] {
            let question = NewApproval {
                id: id.into(),
                run: None,
                session: session.into(),
                user: user.map(str::to_owned),
                tool: "t".into(),
                seq: None,
                digest: vec![1],
                fingerprint: None,
                request: "{}".into(),
                created_at: at,
                expires_at: (id == "y").then_some(40),
            };
            store.ask(&question).expect("asked");
        }
        let asked = |from, to| {
            let found = store.questions_asked("me", "main", (from, to)).expect("read");
            found.iter().map(|(id, at)| format!("{id} {at}")).collect::<Vec<_>>()
        };
        assert_eq!(asked(0, 100), ["x 5", "y 7"]);
        assert_eq!(asked(6, 7), ["y 7"]);
        store.resolve("x", Decision::Allow, &[], "tom", 30).expect("answered");
        store.resolve("x", Decision::Deny, &[], "tom", 31).expect("too late");
        store.resolve("y", Decision::Allow, &[], "tom", 50).expect("too late");
        let decided = |id: &str| store.approval(id).expect("there").decided_at;
        assert_eq!(
            (decided("x"), decided("y"), decided("z")),
            (Some(30), Some(40), None),
            "the time of the first answer, or of the end"
        );
    });
}
