//! Compiled code, from the cache or made now. The one `unsafe` of this crate is here.
#![allow(unsafe_code, reason = "the only way to load code that was compiled before")]

use std::hash::{DefaultHasher, Hash, Hasher};

use wasmtime::{Engine, Module};

use crate::ContentHash;
use crate::cache::{Cache, CacheProblem};

/// A compiled image, and why it could not be stored if it had to be made.
pub(crate) fn module(
    engine: &Engine,
    cache: Option<&Cache>,
    hash: ContentHash,
    image: &[u8],
    compiling: impl FnOnce(),
) -> wasmtime::Result<(Module, Option<CacheProblem>)> {
    if let Some(module) = cache.and_then(|cache| cached(engine, cache, hash)) {
        return Ok((module, None));
    }
    let name = file_name(engine, hash);
    compiling();
    let code = engine.precompile_module(image)?;
    let problem = cache.and_then(|cache| cache.write(&name, &code).err());
    let module = load(engine, &code).ok_or_else(|| wasmtime::Error::msg("freshly compiled code was refused"))?;
    Ok((module, problem))
}

/// A compiled image, if it is in the cache.
pub(crate) fn cached(engine: &Engine, cache: &Cache, hash: ContentHash) -> Option<Module> {
    cache.read(&file_name(engine, hash)).and_then(|code| load(engine, &code))
}

/// Compiled code belongs to one image, one version of wasmtime, one configuration and one kind of processor.
fn file_name(engine: &Engine, hash: ContentHash) -> String {
    let mut compatibility = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut compatibility);
    format!("{hash}-{:016x}.code", compatibility.finish())
}

fn load(engine: &Engine, code: &[u8]) -> Option<Module> {
    // SAFETY: `deserialize` must be given what `precompile_module` returned. `code` either just was, or comes from
    // `Cache::read`, which only returns what a file of this user, in a directory that only this user can write, held when it
    // was written, as its checksum shows. The tests in `tests/cache.rs` damage such files in every way that may happen.
    unsafe { Module::deserialize(engine, code) }.ok()
}
