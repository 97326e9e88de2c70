//! Archives that are made to do harm.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use pincer_install::{ArchiveProblem, EntryProblem, Kind, Limits, Refusal};

use crate::common::{Entry, Home, MANIFEST, Zipped, file, gzip, of_kind, tar, zip, zipped};

fn manifest() -> Entry {
    file("pincer.plugin.json5", MANIFEST)
}

/// Checks that an archive is refused for this reason, and that nothing of it is anywhere.
fn check(bytes: &[u8], expected: &Refusal) {
    let home = Home::new();
    let refusal = home.refusal(bytes);
    assert_eq!(refusal.as_ref(), Some(expected), "{}", refusal.as_ref().map(ToString::to_string).unwrap_or_default());
    assert_eq!(home.everything(), ["archive", "outside", "state", "state/installs", "state/installs/lock"]);
    assert_eq!(std::fs::read_to_string(home.path("outside")).unwrap(), "as it was");
}

fn entry(name: &str, problem: EntryProblem) -> Refusal {
    Refusal::Entry { entry: name.into(), problem }
}

#[test]
fn entries_of_tar_that_are_no_plain_files_in_their_folder_are_refused() {
    for (bad, expected) in [
        (file("../outside", "x"), entry("../outside", EntryProblem::LeadsOut)),
        (file("a/../../outside", "x"), entry("a/../../outside", EntryProblem::LeadsOut)),
        (file("/tmp/outside", "x"), entry("/tmp/outside", EntryProblem::Absolute)),
        (file("a\\..\\b", "x"), entry("a\\..\\b", EntryProblem::UnclearPath)),
        (file("a\u{1b}[2Jb", "x"), entry("a\\u{1b}[2Jb", EntryProblem::HiddenCharacter)),
        (Entry { name: vec![b'a', 0xff], ..file("", "x") }, entry("a\u{fffd}", EntryProblem::NotUtf8)),
        (of_kind("link", b'2', "/etc"), entry("link", EntryProblem::SymbolicLink)),
        (of_kind("link", b'1', "pincer.plugin.json5"), entry("link", EntryProblem::HardLink)),
        (of_kind("null", b'3', ""), entry("null", EntryProblem::Special("a device"))),
        (of_kind("disk", b'4', ""), entry("disk", EntryProblem::Special("a device"))),
        (of_kind("pipe", b'6', ""), entry("pipe", EntryProblem::Special("a pipe"))),
        (of_kind("sparse", b'S', ""), entry("sparse", EntryProblem::Sparse)),
        (of_kind("odd", b'V', ""), entry("odd", EntryProblem::Special("of an unknown kind"))),
        (file("su", "x").mode(0o4755), entry("su", EntryProblem::SetId)),
        (file("sg", "x").mode(0o2755), entry("sg", EntryProblem::SetId)),
        (file("st", "x").mode(0o1644), entry("st", EntryProblem::SetId)),
        (of_kind("sd", b'5', "").mode(0o2755), entry("sd", EntryProblem::SetId)),
        (manifest(), entry("pincer.plugin.json5", EntryProblem::Twice)),
        (
            file("PINCER.plugin.json5", "x"),
            entry("PINCER.plugin.json5", EntryProblem::SameButForCase("pincer.plugin.json5".into())),
        ),
        (file("pincer.plugin.json5/x", "x"), entry("pincer.plugin.json5/x", EntryProblem::FileAndFolder)),
        (file(&"d/".repeat(33), ""), entry(&"d/".repeat(33), EntryProblem::FileAndFolder)),
        (
            file(&format!("{}x", "d/".repeat(32)), "x"),
            entry(&format!("{}x", "d/".repeat(32)), EntryProblem::TooDeep(32)),
        ),
    ] {
        check(&tar(&[manifest(), bad.clone()]), &expected);
        check(&gzip(&tar(&[manifest(), bad])), &expected);
    }
    // A link, and a file that would be written through it.
    let through = [manifest(), of_kind("out", b'2', ".."), file("out/outside", "x")];
    check(&tar(&through), &entry("out", EntryProblem::SymbolicLink));
}

#[test]
fn archives_of_tar_that_readers_differ_about_are_refused() {
    let attributes = |text: &str| Entry { kind: b'x', ..file("attributes", text) };
    let problem = Refusal::Archive;
    for (entries, expected) in [
        (vec![attributes("22 path=../../outside\n"), manifest()], entry("../../outside", EntryProblem::LeadsOut)),
        (vec![attributes("11 size=99\n"), manifest()], entry("pincer.plugin.json5", EntryProblem::OtherSize)),
        (vec![attributes("25 GNU.sparse.major=1000\n"), manifest()], entry("GNU.sparse.major", EntryProblem::Sparse)),
        (vec![attributes("999 path=x\n"), manifest()], problem(ArchiveProblem::Header)),
        (vec![attributes("nonsense"), manifest()], problem(ArchiveProblem::Header)),
        (vec![Entry { kind: b'g', ..file("all", "10 path=x\n") }, manifest()], problem(ArchiveProblem::Header)),
        (
            vec![Entry { kind: b'L', ..file("long", "one") }, attributes("12 path=two\n"), manifest()],
            entry("two", EntryProblem::TwoHeaders),
        ),
        (vec![Entry { size: Some(65_537), kind: b'L', ..file("long", "x") }], problem(ArchiveProblem::Extension)),
        (vec![manifest(), Entry { size: Some(9999), ..file("short", "x") }], entry("short", EntryProblem::OtherSize)),
    ] {
        check(&tar(&entries), &expected);
    }
    let right = tar(&[manifest()]);
    check(&right[..1024], &problem(ArchiveProblem::EndsEarly));
    let mut wrong = right.clone();
    wrong[1] ^= 1;
    check(&wrong, &Refusal::NoArchive);
    let second = [right.clone(), tar(&[file("hidden", "x")])].concat();
    check(&second, &problem(ArchiveProblem::Trailing));
    check(&[gzip(&right), b"garbage".to_vec()].concat(), &problem(ArchiveProblem::Compression));
    let cut = gzip(&right);
    check(&cut[..cut.len() - 6], &problem(ArchiveProblem::Compression));
}

#[test]
fn entries_of_zip_that_are_no_plain_files_in_their_folder_are_refused() {
    let manifest = || zipped("pincer.plugin.json5", MANIFEST);
    let of_mode = |name: &str, mode: u32| Zipped { mode, ..zipped(name, "x") };
    for (bad, expected) in [
        (zipped("../outside", "x"), entry("../outside", EntryProblem::LeadsOut)),
        (zipped("/tmp/x", "x"), entry("/tmp/x", EntryProblem::Absolute)),
        (zipped("a\\..\\..\\b", "x"), entry("a\\..\\..\\b", EntryProblem::UnclearPath)),
        (of_mode("link", 0o120_777), entry("link", EntryProblem::SymbolicLink)),
        (of_mode("pipe", 0o010_644), entry("pipe", EntryProblem::Special("a pipe"))),
        (of_mode("disk", 0o060_644), entry("disk", EntryProblem::Special("a device"))),
        (of_mode("su", 0o104_755), entry("su", EntryProblem::SetId)),
        (of_mode("folder", 0o040_755), entry("folder", EntryProblem::FileAndFolder)),
        (manifest(), entry("pincer.plugin.json5", EntryProblem::Twice)),
        (Zipped { flags: 1, ..zipped("secret", "x") }, entry("secret", EntryProblem::Encrypted)),
        (Zipped { method: 12, ..zipped("bz", "x") }, entry("bz", EntryProblem::Method)),
        (Zipped { bytes: Some(9), ..zipped("size", "x") }, entry("size", EntryProblem::OtherSize)),
        (Zipped { checksum: Some(9), ..zipped("sum", "x") }, entry("sum", EntryProblem::OtherChecksum)),
        (Zipped { local_name: "../x".into(), ..zipped("name", "x") }, entry("name", EntryProblem::TwoHeaders)),
        (
            Zipped { extra: b"\x75\x70\x09\x00\x01\0\0\0\0../x".to_vec(), ..zipped("name", "x") },
            entry("name", EntryProblem::TwoHeaders),
        ),
        (
            Zipped { extra: b"\x01\x00\x00\x00".to_vec(), ..zipped("big", "x") },
            Refusal::Archive(ArchiveProblem::Unusual),
        ),
        (Zipped { gap: b"between".to_vec(), ..zipped("gap", "x") }, Refusal::Archive(ArchiveProblem::Layout)),
    ] {
        check(&zip(&[manifest(), bad]), &expected);
    }
    let right = zip(&[manifest()]);
    // A second archive behind the first, or something before it: readers that begin at the end see another one.
    check(&[right.clone(), right.clone()].concat(), &Refusal::Archive(ArchiveProblem::Layout));
    check(&right[..right.len() - 4], &Refusal::Archive(ArchiveProblem::EndsEarly));
    check(b"#!/bin/sh\n", &Refusal::NoArchive);
    check(b"", &Refusal::NoArchive);
}

#[test]
fn archives_that_grow_without_measure_are_refused_before_they_fill_a_disk() {
    let zeros = "\0".repeat(60 << 20);
    let ratio = Refusal::Bomb(Limits::default().ratio);
    check(&gzip(&tar(&[manifest(), file("zeros", &zeros)])), &ratio);
    check(&zip(&[zipped("pincer.plugin.json5", MANIFEST), zipped("zeros", &zeros)]), &ratio);
    // A member of gzip that only has zeros behind the end of the archive.
    let behind = [gzip(&tar(&[manifest()])), gzip(zeros.as_bytes())].concat();
    check(&behind, &ratio);
    // The header promises more than anything may have; nothing is reserved for it.
    let promised = Entry { size: Some(8_589_934_591), ..file("huge", "") };
    check(&tar(&[manifest(), promised]), &entry("huge", EntryProblem::TooLarge(64 << 20)));
    let many: Vec<Entry> = (0..=10_000).map(|number| file(&number.to_string(), "")).collect();
    check(&gzip(&tar(&many)), &Refusal::TooManyFiles(10_000));
}

#[test]
fn the_files_of_an_archive_have_a_limit_in_all() {
    let home = Home::new();
    let limits = Limits { bytes: 100, ..Limits::default() };
    let source = home.source("archive", &gzip(&tar(&[manifest(), file("a", &"x".repeat(60))])));
    let refused = home.installs.clone().with_limits(limits).stage(Kind::Plugin, &source).unwrap_err();
    assert!(refused.to_string().ends_with("is refused: the archive has more than 100 bytes"), "{refused}");
    let folder = home.folder("folder", &[("pincer.plugin.json5", MANIFEST), ("a", &"x".repeat(60))]);
    let refused = home.installs.clone().with_limits(limits).stage(Kind::Plugin, &folder).unwrap_err();
    assert!(refused.to_string().ends_with("is refused: its files have more than 100 bytes in all"), "{refused}");
}

#[test]
fn there_is_one_manifest_at_the_top_or_in_a_single_folder() {
    let at = |paths: &[&str]| {
        let entries: Vec<Entry> = paths.iter().map(|path| file(path, MANIFEST)).collect();
        Home::new().refusal(&tar(&entries))
    };
    let name = "pincer.plugin.json5";
    assert_eq!(at(&[name, "x"]), None);
    assert_eq!(at(&["top/pincer.plugin.json5", "top/a/x"]), None);
    assert_eq!(at(&["x"]), Some(Refusal::NoManifest(name)));
    let too_deep = |path: &str| Some(Refusal::ManifestTooDeep(path.into()));
    assert_eq!(at(&["a/b/pincer.plugin.json5"]), too_deep("a/b/pincer.plugin.json5"));
    assert_eq!(at(&["a/pincer.plugin.json5", "b"]), too_deep("a/pincer.plugin.json5"));
    let two = at(&["a/pincer.plugin.json5", "a/b/pincer.plugin.json5"]);
    assert!(matches!(two, Some(Refusal::TwoManifests { .. })), "{two:?}");
}

/// Archives of common programs are read, and all of them are one tree: a folder and its archives have one digest.
#[test]
fn a_folder_and_what_common_programs_make_of_it_have_one_digest() {
    let home = Home::new();
    let long = format!("{}/{}", "a-folder-with-a-long-name".repeat(4), "a-file-with-a-long-name".repeat(5));
    let folder = home.folder(
        "notes",
        &[
            ("pincer.plugin.json5", MANIFEST),
            ("bin/run", "#!/bin/sh\n"),
            (&long, "x"),
            ("ä é.txt", "y"),
            (".git/HEAD", "z"),
        ],
    );
    std::fs::set_permissions(folder.join("bin/run"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = r"
import os, sys, tarfile, zipfile
os.chdir(sys.argv[1])
for name, form in (('gnu', tarfile.GNU_FORMAT), ('pax', tarfile.PAX_FORMAT)):
    with tarfile.open(f'{name}.tar.gz', 'w:gz', format=form) as archive: archive.add('notes')
with tarfile.open('dot.tar', 'w') as archive: archive.add('notes', arcname='.')
with zipfile.ZipFile('deflated.zip', 'w', zipfile.ZIP_DEFLATED) as archive:
    for folder, _, files in os.walk('notes'):
        archive.write(folder)
        for file in files: archive.write(os.path.join(folder, file))
with open('streamed.zip', 'wb') as raw:
    class Stream:
        def write(self, data): return raw.write(data)
        def flush(self): pass
    with zipfile.ZipFile(Stream(), 'w', zipfile.ZIP_DEFLATED) as archive:
        for folder, _, files in os.walk('notes'):
            for file in files: archive.write(os.path.join(folder, file))
";
    let made = Command::new("python3").args(["-c", script]).arg(home.path("")).status().unwrap();
    assert!(made.success());
    let digest = |name: &str| home.installs.stage(Kind::Plugin, &home.path(name)).unwrap().digest().to_string();
    let expected = digest("notes");
    for archive in ["gnu.tar.gz", "pax.tar.gz", "dot.tar", "deflated.zip", "streamed.zip"] {
        assert_eq!(digest(archive), expected, "{archive}");
    }
    // The commands that docs/installs.md gives for it.
    let shell = r#"find . -type f -not -path '*/.git/*' | LC_ALL=C sort | while IFS= read -r file; do
        if [ -x "$file" ]; then mode=x; else mode=-; fi
        printf '%s %s %s\n' "$mode" "$(sha256sum < "$file" | cut -c-64)" "${file#./}"
    done | sha256sum"#;
    let output = Command::new("sh").args(["-c", shell]).current_dir(&folder).output().unwrap();
    let computed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(format!("sha256:{}", computed.split(' ').next().unwrap()), expected);
}
