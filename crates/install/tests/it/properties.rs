//! Whatever bytes a source has, nothing is written outside the stage, and nothing is left of what is refused.

use pincer_install::Kind;
use proptest::prelude::*;

use crate::common::{Entry, Home, MANIFEST, Zipped, file, gzip, judged, tar, zip, zipped};

fn name() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a",
        "b",
        "A",
        "..",
        ".",
        "",
        "\\",
        "pincer.plugin.json5",
        "ä",
        "\u{202e}",
        "outside",
    ]);
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
}

fn tar_entry() -> impl Strategy<Value = Entry> {
    let kinds = prop::sample::select(b"0000055512346xgLKSV\0".to_vec());
    (name(), kinds, any::<u16>(), "[a-z0-9 =\n.]{0,40}", prop::option::of(0..2000_u64)).prop_map(
        |(name, kind, mode, content, size)| Entry { kind, mode: u32::from(mode), size, ..file(&name, &content) },
    )
}

fn zip_entry() -> impl Strategy<Value = Zipped> {
    (name(), name(), any::<u32>(), any::<bool>(), prop::sample::select(vec![0, 8, 8, 12])).prop_map(
        |(name, other, mode, same, method)| {
            let local_name = if same { name.clone() } else { other };
            Zipped { local_name, mode: mode & 0xffff, method, ..zipped(&name, "content") }
        },
    )
}

/// Changes some bytes.
fn damaged(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    for (at, byte) in changes {
        let at = at.index(bytes.len());
        bytes[at] = *byte;
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)
}

fn check(bytes: &[u8]) {
    let home = Home::new();
    let source = home.source("archive", bytes);
    let before = home.everything();
    let outcome = home.installs.stage(Kind::Plugin, &source).and_then(judged);
    if let Ok(judged) = &outcome {
        let plan = judged.plan();
        assert!(plan.place.starts_with(home.path("state/plugins")));
    }
    drop(outcome);
    let mut expected = before;
    expected.extend(["state", "state/installs", "state/installs/lock"].map(str::to_owned));
    expected.sort();
    assert_eq!(home.everything(), expected);
    assert_eq!(std::fs::read(home.path("outside")).unwrap(), b"as it was");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_tar_writes_outside_its_stage(entries in prop::collection::vec(tar_entry(), 0..6), changes in changes()) {
        let entries = [vec![file("pincer.plugin.json5", MANIFEST)], entries].concat();
        check(&damaged(tar(&entries), &changes));
        check(&gzip(&tar(&entries)));
    }

    #[test]
    fn no_zip_writes_outside_its_stage(entries in prop::collection::vec(zip_entry(), 0..6), changes in changes()) {
        let entries = [vec![zipped("pincer.plugin.json5", MANIFEST)], entries].concat();
        check(&damaged(zip(&entries), &changes));
    }

    #[test]
    fn no_bytes_at_all_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000), beginning in 0..3_usize) {
        let beginning = [&b""[..], b"PK\x03\x04", b"\x1f\x8b\x08"][beginning];
        check(&[beginning, &bytes].concat());
    }
}
