//! The image: the engine's module with a heap in which the prelude has already run.
//!
//! An image is one WebAssembly file, named by its hash. Making it is deterministic, so the same build has the same image on
//! every machine; wasmtime maps its data segments copy-on-write, so a fresh cell costs the pages it changes.

use std::sync::Arc;

use pincer_snapshot::{ContentHash, Dictionary, PAGE, difference};
use sha2::{Digest, Sha256};
use wasmtime::{Engine, Instance, InstancePre, Linker, Module, Store};

use crate::bridge::{Clock, Host, Op, Stop, add_imports};
use crate::growing::Growing;
use crate::program::{FILE_NAME, scope_json};
use crate::rewrite::{RewriteError, State, read_state, rewrite};
use crate::vm::{ExportTable, Exports, FUNCTIONS, JsValue, Roots, SCRATCH_BYTES};
use crate::{Global, Limits};

/// The engine, as the build verified it.
pub(crate) const ENGINE_WASM: &[u8] = include_bytes!(env!("PINCER_ENGINE_WASM"));

/// Scripts that run in every image, in this order; the last one returns the bridge.
pub(crate) const GUEST: [&str; 4] = [
    include_str!("../guest/encoding.js"),
    include_str!("../guest/clone.js"),
    include_str!("../guest/values.js"),
    include_str!("../guest/prelude.js"),
];

/// The Rust that makes an image. A change there may make another one.
const MAKERS: [&[u8]; 4] =
    [include_bytes!("image.rs"), include_bytes!("rewrite.rs"), include_bytes!("vm.rs"), include_bytes!("bridge.rs")];

/// Of the shadow stack's 1 MiB. Deep enough for honest recursion, and reached before wasmtime's own stack ends, so that
/// runaway recursion is an ordinary `RangeError`.
const GUEST_STACK_BYTES: u32 = 256 << 10;
/// QuickJS looks for cycles when the heap has grown to this size. An image alone passes the engine's default.
const GC_THRESHOLD: u32 = 1 << 20;

/// What the dictionary for differences is made of: the things that most programs do before they first wait.
const TYPICAL: &str = include_str!("../guest/typical.js");
/// What an image has free at its end.
const FREE_BYTES: u32 = 64 << 10;

/// Why an image cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The engine's module, or a stored image, has an unexpected shape.
    #[error("the engine module cannot be used")]
    Module(#[from] RewriteError),
    /// wasmtime refused it, or it failed while it started.
    #[error("the engine does not start: {0:#}")]
    Start(wasmtime::Error),
    /// One of the scripts under `guest/` failed: a bug of this crate.
    #[error("the prelude failed: {0}")]
    Prelude(String),
}

impl From<wasmtime::Error> for ImageError {
    fn from(error: wasmtime::Error) -> Self {
        Self::Start(error)
    }
}

/// An image that cells can be made of.
pub(crate) struct Image {
    pub hash: ContentHash,
    pub roots: Roots,
    pub exports: ExportTable,
    pub pre: InstancePre<Host>,
    /// Linear memory as every cell starts with it.
    pub memory: Vec<u8>,
    pub dictionary: Dictionary,
}

/// Names the inputs that an image is made of, so that a stored one can be found without making it.
pub(crate) fn recipe() -> ContentHash {
    let mut hash = Sha256::new();
    let parts = [ENGINE_WASM, TYPICAL.as_bytes()].into_iter().chain(GUEST.map(str::as_bytes)).chain(MAKERS);
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    ContentHash(hash.finalize().into())
}

impl Image {
    /// Prepares a stored or freshly made image. `module` is `bytes`, compiled.
    pub(crate) fn open(engine: &Engine, bytes: &[u8], module: &Module) -> Result<Self, ImageError> {
        let State { memory, roots, dictionary } = read_state(bytes)?;
        let dictionary = Dictionary::new(dictionary);
        let roots = Roots::from_bytes(roots).ok_or(RewriteError::Shape("its roots are damaged"))?;
        let mut linker = Linker::new(engine);
        add_imports(&mut linker)?;
        let pre = linker.instantiate_pre(module)?;
        let exports = ExportTable::of(module).map_err(wasmtime::Error::new)?;
        let stack = roots.stack_pointer as usize;
        if !stack.is_multiple_of(PAGE) || stack > memory.len() {
            return Err(RewriteError::Shape("its stack is not where it should be").into());
        }
        Ok(Self { hash: ContentHash::of(bytes), roots, exports, pre, memory, dictionary })
    }

    /// A fresh instance, with the host's state around it.
    pub(crate) fn instantiate(
        &self,
        engine: &Engine,
        limits: Limits,
        growing: Option<Growing>,
    ) -> Result<(Store<Host>, Arc<Exports>), wasmtime::Error> {
        let mut store = Store::new(engine, Host { growing, ..Host::new(limits, self.memory.len(), Clock::Real) });
        store.limiter(|host| host);
        store.set_epoch_deadline(u64::MAX / 2);
        let instance = self.pre.instantiate(&mut store)?;
        let exports = Arc::new(self.exports.bind(&mut store, instance, self.roots)?);
        store.data_mut().exports = Some(Arc::clone(&exports));
        Ok((store, exports))
    }
}

/// Starts the engine, runs the prelude, and freezes what there is.
pub(crate) fn make(engine: &Engine, wasm: &[u8], guest: &[&str]) -> Result<Vec<u8>, ImageError> {
    const START: [&str; 11] = [
        "js_malloc_rt",
        "js_free_rt",
        "_initialize",
        "qjs_init",
        "qjs_set_max_stack_size",
        "qjs_set_gc_threshold",
        "qjs_set_promise_rejection_handler",
        "qjs_get_context_ptr",
        "qjs_get_runtime_ptr",
        "qjs_new_host_function",
        "qjs_run_gc",
    ];
    let needed = |name: &str| FUNCTIONS.contains(&name) || name == "memory" || name == "__stack_pointer";
    let base = rewrite(wasm, |name| needed(name) || START.contains(&name), None)?;
    let module = Module::new(engine, &base)?;
    let mut linker = Linker::new(engine);
    add_imports(&mut linker)?;
    let mut store = Store::new(engine, Host::new(Limits::default(), 16 << 20, Clock::Fixed));
    store.limiter(|host| host);
    store.set_epoch_deadline(u64::MAX / 2);
    let instance = linker.instantiate(&mut store, &module)?;

    let stack_pointer = instance.get_global(&mut store, "__stack_pointer").map(|global| global.get(&mut store));
    let first_stack_pointer = stack_pointer.and_then(|value| value.i32()).unwrap_or_default() as u32;
    instance.get_typed_func::<(), ()>(&mut store, "_initialize")?.call(&mut store, ())?;
    instance.get_typed_func::<(), i32>(&mut store, "qjs_init")?.call(&mut store, ())?;
    for (name, value) in [("qjs_set_max_stack_size", GUEST_STACK_BYTES), ("qjs_set_gc_threshold", GC_THRESHOLD)] {
        instance.get_typed_func::<u32, ()>(&mut store, name)?.call(&mut store, value)?;
    }
    instance.get_typed_func::<i32, ()>(&mut store, "qjs_set_promise_rejection_handler")?.call(&mut store, 1)?;
    let runtime = instance.get_typed_func::<(), u32>(&mut store, "qjs_get_runtime_ptr")?.call(&mut store, ())?;
    let context = instance.get_typed_func::<(), u32>(&mut store, "qjs_get_context_ptr")?.call(&mut store, ())?;

    let roots = Roots { runtime, context, scratch: 0, file_name: 0, seed: 0, stack_pointer: 0, dispatch: 0 };
    let mut vm = ExportTable::of(&module).map_err(wasmtime::Error::new)?.bind(&mut store, instance, roots)?;
    vm.roots.stack_pointer = first_stack_pointer;
    vm.roots.scratch = vm.malloc.call(&mut store, SCRATCH_BYTES)?;
    vm.write(&mut store, vm.roots.scratch, &[0; SCRATCH_BYTES as usize])?;
    vm.roots.file_name = vm.copy_in(&mut store, &[FILE_NAME])?.0;
    vm.roots.seed = find_seed(&mut store, &vm)?;

    let (name, len) = vm.copy_in(&mut store, &["emit"])?;
    let emit = instance
        .get_typed_func::<(u32, u32, u32), u32>(&mut store, "qjs_new_host_function")?
        .call(&mut store, (name, len, 0))?;
    vm.free.call(&mut store, name)?;
    let emit = vm.read_u64(&store, emit).map_err(wasmtime::Error::new)?;

    let file_name = vm.copy_in(&mut store, &["<pincer>"])?.0;
    let mut last = JsValue::UNDEFINED;
    for script in guest {
        last = guest_value(&mut store, &vm, |store| vm.eval(store, &[script], file_name, 1))?;
    }
    let list = vm.copy_in(&mut store, &["12345678"])?.0;
    vm.write(&mut store, list, &emit.to_le_bytes())?;
    vm.roots.dispatch = guest_value(&mut store, &vm, |store| {
        Ok(JsValue(vm.call.call(store, (context, last.0, JsValue::UNDEFINED.0, 1, list))?))
    })?
    .0;
    vm.free.call(&mut store, list)?;
    instance.get_typed_func::<(), ()>(&mut store, "qjs_run_gc")?.call(&mut store, ())?;

    clean_holes(&mut store, instance, &vm)?;

    // The global is not rewritten, so it must stand where a fresh instance has it.
    if vm.stack_pointer(&mut store) != vm.roots.stack_pointer {
        return Err(RewriteError::Shape("its stack pointer has moved").into());
    }
    let mut memory = vm.memory.data(&store).to_vec();
    memory[..vm.roots.stack_pointer as usize].fill(0);
    let roots = vm.roots.to_bytes();
    let dictionary = typical_difference(&mut store, vm, &memory)?;
    let state = State { memory, roots: &roots, dictionary: &dictionary };
    Ok(rewrite(&base, needed, Some(state))?)
}

/// Runs something of ours in the guest; a guest exception there is our bug and carries its message.
fn guest_value(
    store: &mut Store<Host>,
    vm: &Exports,
    work: impl FnOnce(&mut Store<Host>) -> wasmtime::Result<JsValue>,
) -> Result<JsValue, ImageError> {
    let value = work(store)?;
    if !value.is_exception() {
        return Ok(value);
    }
    let error = JsValue(vm.get_exception.call(&mut *store, vm.roots.context)?);
    Err(ImageError::Prelude(vm.text_of(store, error)?))
}

/// Zeroes every free block of the heap and leaves them free, lowest address first.
///
/// Starting the engine leaves thousands of holes full of old text. What a cell puts there would be stored as the XOR of new
/// and old text, which does not compress.
fn clean_holes(store: &mut Store<Host>, instance: Instance, vm: &Exports) -> Result<(), ImageError> {
    let allocate = instance.get_typed_func::<(u32, u32), u32>(&mut *store, "js_malloc_rt")?;
    let release = instance.get_typed_func::<(u32, u32), ()>(&mut *store, "js_free_rt")?;
    let runtime = vm.roots.runtime;
    // All holes are below the first large block, which stays free for cells: a small one need not grow its memory.
    let top = vm.malloc.call(&mut *store, FREE_BYTES)?;
    vm.free.call(&mut *store, top)?;
    let mut holes = Vec::new();
    for size in (1..=256u32).rev().map(|units| 8 * units) {
        loop {
            let block = allocate.call(&mut *store, (runtime, size))?;
            if block >= top {
                release.call(&mut *store, (runtime, block))?;
                break;
            }
            vm.write(&mut *store, block, &vec![0; size as usize])?;
            holes.push(block);
        }
    }
    holes.sort_unstable_by(|a, b| b.cmp(a));
    for block in holes {
        release.call(&mut *store, (runtime, block))?;
    }
    Ok(())
}

/// Runs a typical small program on top of the finished heap until it waits, and returns what it changed.
fn typical_difference(store: &mut Store<Host>, vm: Exports, memory: &[u8]) -> Result<Vec<u8>, ImageError> {
    let vm = Arc::new(vm);
    store.data_mut().exports = Some(Arc::clone(&vm));
    vm.dispatch_text(&mut *store, Op::Install, &scope_json(&[("call".into(), Global::Call("call".into()))]))?;
    vm.run_program(&mut *store, TYPICAL, Op::Run)?;
    while vm.run_job(&mut *store)? {}
    Ok(difference(vm.memory.data(&*store), memory, vm.roots.stack_pointer as usize / PAGE))
}

/// Finds the state of `Math.random` in the context by what it does: one step of xorshift64 between two looks.
///
/// The engine has no call to seed it, and a replacement in JavaScript would be ten times slower.
fn find_seed(store: &mut Store<Host>, vm: &Exports) -> Result<u32, ImageError> {
    const CONTEXT_BYTES: u32 = 4096;
    let words = |store: &Store<Host>| -> Vec<u64> {
        let places = (0..CONTEXT_BYTES).step_by(8);
        places.map(|at| vm.read_u64(store, vm.roots.context + at).unwrap_or_default()).collect()
    };
    let before = words(store);
    guest_value(store, vm, |store| vm.eval(store, &["Math.random()"], vm.roots.file_name, 1))?;
    let after = words(store);
    let step = |mut x: u64| {
        x ^= x >> 12;
        x ^= x << 25;
        x ^ (x >> 27)
    };
    let found: Vec<usize> = (0..before.len()).filter(|i| before[*i] != 0 && after[*i] == step(before[*i])).collect();
    let [index] = found[..] else {
        return Err(ImageError::Start(wasmtime::Error::new(Stop::Broken("the seed of Math.random was not found"))));
    };
    let at = vm.roots.context + 8 * index as u32;
    vm.write(store, at, &before[index].to_le_bytes())?;
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine() -> Engine {
        let mut config = wasmtime::Config::new();
        config.epoch_interruption(true).cranelift_opt_level(wasmtime::OptLevel::None);
        Engine::new(&config).unwrap()
    }

    #[test]
    fn what_is_not_the_engine_is_refused() {
        let refused = |wasm: &[u8]| make(&engine(), wasm, &GUEST).unwrap_err();
        assert!(matches!(refused(b"not wasm"), ImageError::Module(RewriteError::Parse(_))));
        // A module without anything: it parses, but there is nothing to start.
        assert!(matches!(refused(b"\0asm\x01\0\0\0"), ImageError::Start(_)));
    }

    #[test]
    fn a_prelude_that_fails_is_told_with_its_message() {
        let error = make(&engine(), ENGINE_WASM, &["(() => { throw new TypeError('a bug of ours') })()"]).unwrap_err();
        assert!(matches!(&error, ImageError::Prelude(text) if text == "TypeError: a bug of ours"), "{error}");
    }
}
