//! A snapshot needs the image it was parked against: this build's, or one that an earlier build left in the cache.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{LONG, json};
use pincer_sandbox::{
    Answer, Cell, ContentHash, Engine, Error, Limits, Options, Program, RequestId, RestoreError, TurnEnd,
};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

fn engine(cache: &Path) -> Engine {
    Engine::load(Options { cache_dir: Some(cache.into()), ..Options::default() }).expect("the engine")
}

/// A cache with this build's image, and the path of that.
fn filled() -> (TempDir, Engine, PathBuf) {
    let cache = tempfile::tempdir().expect("a directory");
    let engine = engine(cache.path());
    let image = cache.path().join(format!("{}.image", engine.image_hash()));
    (cache, engine, image)
}

/// Stores `content` as the image that its hash names, as an earlier build would have done.
fn store(cache: &Path, content: &[u8]) -> ContentHash {
    let hash = ContentHash::of(content);
    let path = cache.join(format!("{hash}.image"));
    fs::write(&path, [&hash.0[..], content].concat()).expect("a file");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("permissions");
    hash
}

/// A snapshot of this build that says it needs another image.
fn snapshot_for(engine: &Engine, image: ContentHash) -> Vec<u8> {
    let program = Program::new("const x = [1, 2]; x.push(await call(3)); return x").function("call");
    let mut cell = engine.start(program, Limits::default()).expect("a cell");
    cell.run_turn(LONG).expect("a turn");
    let mut bytes = cell.park().expect("a snapshot");
    bytes[38..70].copy_from_slice(&image.0);
    let body = bytes.len() - 32;
    let checksum = Sha256::digest(&bytes[..body]);
    bytes[body..].copy_from_slice(&checksum);
    bytes
}

fn resume(mut cell: Cell) -> TurnEnd {
    cell.deliver(Answer::value(RequestId(0), json("3"))).expect("a pending request");
    cell.run_turn(LONG).expect("a turn").end
}

#[test]
fn a_snapshot_of_an_earlier_image_continues_while_that_is_stored() {
    let (cache, engine, image) = filled();
    // The same image with one more custom section: another hash, and nothing else to tell it from an earlier build's.
    let earlier = [&fs::read(image).expect("the image")[32..], b"\0\x03\x02hi"].concat();
    let hash = store(cache.path(), &earlier);
    assert_ne!(hash, engine.image_hash());
    let snapshot = snapshot_for(&engine, hash);
    for _ in 0..2 {
        let mut cell = engine.restore(&snapshot, Limits::default()).expect("a cell");
        // It goes on living with its own image.
        assert_eq!(cell.park().expect("a snapshot"), snapshot);
        assert!(matches!(resume(cell), TurnEnd::Value(Some(value)) if value.as_str() == "[1,2,3]"));
    }
}

#[test]
fn an_image_that_is_gone_is_named() {
    let (_cache, engine, _) = filled();
    let error = engine.restore(&snapshot_for(&engine, ContentHash([9; 32])), Limits::default()).err().expect("refused");
    assert_eq!(error.code(), "snapshot_restore_failed");
    assert!(matches!(error, Error::Restore(reason) if reason.to_string().contains(&"09".repeat(32))));
}

#[test]
fn what_is_stored_as_an_image_but_is_none_is_refused() {
    let (cache, engine, _) = filled();
    for content in [&b"nonsense"[..], b"\0asm\x01\0\0\0"] {
        let hash = store(cache.path(), content);
        let error = engine.restore(&snapshot_for(&engine, hash), Limits::default()).err().expect("refused");
        assert!(
            matches!(&error, Error::Restore(RestoreError::UnusableImage { needed, .. }) if *needed == hash),
            "{error}"
        );
        assert_eq!(error.code(), "snapshot_restore_failed");
    }
}

#[test]
fn more_live_cells_than_there_is_address_space_for_is_told() {
    let options = Options { live_cells: u32::MAX, ..Options::default() };
    let error = Engine::load(options).err().expect("refused");
    assert!(matches!(error, Error::Setup(_)));
    assert_eq!(error.code(), "runtime_unavailable");
}

#[test]
fn engines_and_cells_can_be_moved_between_threads() {
    fn is_send<T: Send>() {}
    fn is_sync<T: Sync>() {}
    is_send::<Engine>();
    is_sync::<Engine>();
    is_send::<Cell>();
}
