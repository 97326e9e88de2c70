//! The engine: loaded once per process, it makes cells.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use wasmtime::{Config, Enabled, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig};

use crate::cache::{Cache, CacheProblem};
use crate::cell::Cell;
use crate::image::{ENGINE_WASM, Image};
use crate::watchdog::Watchdog;
use crate::{
    Allotment, ContentHash, Error, ImageError, Limits, MAX_MEMORY_BYTES, Program, RestoreError, compile, image,
};

/// Native stack that guest code may use.
const NATIVE_STACK_BYTES: usize = 1 << 20;
/// What a turn needs: that, and what the host uses when the guest calls it from its deepest frame.
pub(crate) const STACK_BYTES: usize = NATIVE_STACK_BYTES + (512 << 10);
/// Dirty pages up to this size are reset by copying when a cell ends. Giving them back to the system instead would cost the
/// next cell a page fault for each. A small program changes less, and what is kept lies within the image, so that
/// [`Engine::give_back`] reaches it. Every place that was ever used may keep so much.
const KEEP_RESIDENT_BYTES: usize = 256 << 10;

/// How to load an engine.
pub struct Options {
    /// Where to keep the image and the compiled code. `None` makes both anew in this process, which takes a second or two.
    pub cache_dir: Option<PathBuf>,
    /// How many cells may be live (started or restored, and not dropped) at a time.
    pub live_cells: u32,
    /// Told before each step that takes long. Silent when everything comes from the cache.
    pub progress: Option<Box<dyn Fn(Progress)>>,
    /// What happens to turns that last.
    pub long_turn: Option<LongTurn>,
}

/// What happens to turns that last: they may have to wait for others, for instance.
#[derive(Clone)]
pub struct LongTurn {
    /// How long a turn may last before.
    pub after: Duration,
    /// Asked every few milliseconds from then on, on the thread of the turn, which stands still meanwhile. If it says no it is
    /// asked again, unless the turn is not wanted any more: so it should wait a little before it does.
    pub may_go_on: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Called with a short wait that a turn must do on its thread, and does it. The thread may do other things before and after.
    pub stand_still: StandStill,
}

/// Does a wait on the thread of a turn: see [`LongTurn::stand_still`].
pub type StandStill = Arc<dyn Fn(&mut dyn FnMut()) + Send + Sync>;

impl Default for Options {
    fn default() -> Self {
        Self { cache_dir: None, live_cells: 512, progress: None, long_turn: None }
    }
}

/// A step of loading that takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Starting the JavaScript engine and running the prelude.
    MakingImage,
    /// Compiling the image to machine code.
    Compiling,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MakingImage => "preparing the JavaScript engine",
            Self::Compiling => "compiling the JavaScript engine",
        })
    }
}

/// QuickJS, ready to run. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub wasmtime: wasmtime::Engine,
    pub watchdog: Watchdog,
    /// The image of this build. The pool keeps pages for its next cells as long as it is there.
    current: RwLock<Arc<Image>>,
    pub live_cells: u32,
    pub long_turn: Option<LongTurn>,
    pub hash: ContentHash,
    cache: Option<Cache>,
    problems: Vec<CacheProblem>,
    /// Images of other builds that snapshots needed.
    others: Mutex<HashMap<ContentHash, Arc<Image>>>,
}

impl Engine {
    /// Loads the engine, from the cache if there is one.
    pub fn load(options: Options) -> Result<Self, Error> {
        let wasmtime = wasmtime::Engine::new(&config(options.live_cells)).map_err(Error::Setup)?;
        let watchdog = Watchdog::start(&wasmtime).map_err(|error| Error::Setup(wasmtime::Error::new(error)))?;
        let mut problems = Vec::new();
        let cache = options.cache_dir.and_then(|directory| Cache::open(&directory).map_err(|p| problems.push(p)).ok());
        let progress = |step| options.progress.as_ref().into_iter().for_each(|told| told(step));

        let open = |bytes: &[u8], hash| -> Result<(Image, Option<CacheProblem>), ImageError> {
            let compiling = || progress(Progress::Compiling);
            let (module, problem) = compile::module(&wasmtime, cache.as_ref(), hash, bytes, compiling)?;
            Ok((Image::open(&wasmtime, bytes, &module)?, problem))
        };
        // A stored image that cannot be opened is as good as none.
        let stored = cache.as_ref().and_then(stored_image).and_then(|(bytes, hash)| open(&bytes, hash).ok());
        let (image, problem) = match stored {
            Some(opened) => opened,
            None => {
                progress(Progress::MakingImage);
                let bytes = make_image()?;
                let hash = ContentHash::of(&bytes);
                if let Some(cache) = &cache {
                    let stored = cache.write(&image_file(hash), &bytes);
                    problems.extend(stored.and_then(|()| cache.write(&recipe_file(), &hash.0)).err());
                }
                open(&bytes, hash)?
            }
        };
        problems.extend(problem);
        let inner = Inner {
            wasmtime,
            watchdog,
            current: RwLock::new(Arc::new(image)),
            live_cells: options.live_cells,
            long_turn: options.long_turn,
            hash: ContentHash::of(ENGINE_WASM),
            cache,
            problems,
            others: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Makes a cell. The program does not run before the cell's first turn.
    pub fn start(&self, program: Program, limits: Limits) -> Result<Cell, Error> {
        Cell::start(&self.inner, program, limits, None)
    }

    /// Like [`start`](Self::start), within a budget. The allotment must have [`fresh_bytes`](Self::fresh_bytes).
    pub fn start_within(&self, allotment: Allotment, program: Program, limits: Limits) -> Result<Cell, Error> {
        Cell::start(&self.inner, program, limits, Some(allotment))
    }

    /// Makes a cell out of a snapshot, as it was when it was parked.
    pub fn restore(&self, snapshot: &[u8], limits: Limits) -> Result<Cell, Error> {
        self.restore_chain(snapshot, &[[0; 0]; 0], limits)
    }

    /// Makes a cell out of its checkpoints: the last full one, and the deltas after it that were not replaced, oldest first.
    /// All of them are checked before a VM is made.
    pub fn restore_chain(&self, base: &[u8], deltas: &[impl AsRef<[u8]>], limits: Limits) -> Result<Cell, Error> {
        Cell::restore(&self.inner, base, deltas, limits, None)
    }

    /// Like [`restore_chain`](Self::restore_chain), within a budget. Returns [`Error::NoMemory`], and does not wait, if the
    /// allotment cannot have as much as the cell needs.
    pub fn restore_within(
        &self,
        allotment: Allotment,
        base: &[u8],
        deltas: &[impl AsRef<[u8]>],
        limits: Limits,
    ) -> Result<Cell, Error> {
        Cell::restore(&self.inner, base, deltas, limits, Some(allotment))
    }

    /// Returns how much memory a cell has when it is started.
    pub fn fresh_bytes(&self) -> usize {
        self.inner.current().memory.len()
    }

    /// Lets the pool give back what it keeps for the next cells: their first pages are then mapped again. It takes milliseconds,
    /// and memory of cells that are live is kept until they end. Without a cache it does nothing, because it would have to compile.
    pub fn give_back(&self) {
        let Inner { wasmtime, cache: Some(cache), current, .. } = &*self.inner else { return };
        // wasmtime lets go of pages when the module is gone that they belong to. So the same image takes its own place.
        let Some((bytes, hash)) = stored_image(cache).filter(|(_, hash)| *hash == self.image_hash()) else { return };
        let opened =
            compile::cached(wasmtime, cache, hash).and_then(|module| Image::open(wasmtime, &bytes, &module).ok());
        if let Some(image) = opened {
            let earlier = {
                let mut current = current.write().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *current, Arc::new(image))
            };
            drop(earlier);
        }
    }

    /// Returns how much memory the pool keeps for the next cells, of those that are gone.
    pub fn kept_bytes(&self) -> usize {
        self.inner.wasmtime.pooling_allocator_metrics().map_or(0, |metrics| metrics.unused_memory_bytes_resident())
    }

    /// Names the image that this build's cells start from.
    pub fn image_hash(&self) -> ContentHash {
        self.inner.current().hash
    }

    /// Names the build of the JavaScript engine.
    pub fn engine_hash(&self) -> ContentHash {
        self.inner.hash
    }

    /// Why the cache was not used, or not in full. Empty if all is well, or if no cache was asked for.
    pub fn cache_problems(&self) -> &[CacheProblem] {
        &self.inner.problems
    }
}

impl Inner {
    /// The image of this build. No panic can leave the lock with half of one.
    pub(crate) fn current(&self) -> Arc<Image> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The image a snapshot was parked against: ours, or one that an earlier build left in the cache.
    pub(crate) fn image(&self, hash: ContentHash) -> Result<Arc<Image>, RestoreError> {
        let current = self.current();
        if hash == current.hash {
            return Ok(current);
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(image) = others.get(&hash) {
            return Ok(Arc::clone(image));
        }
        let bytes = self.cache.as_ref().and_then(|cache| cache.read(&image_file(hash)));
        let bytes =
            bytes.filter(|bytes| ContentHash::of(bytes) == hash).ok_or(RestoreError::UnknownImage { needed: hash })?;
        let image = compile::module(&self.wasmtime, self.cache.as_ref(), hash, &bytes, || ())
            .map_err(ImageError::Start)
            .and_then(|(module, _)| Image::open(&self.wasmtime, &bytes, &module))
            .map_err(|source| RestoreError::UnusableImage { needed: hash, source })?;
        let image = Arc::new(image);
        others.insert(hash, Arc::clone(&image));
        Ok(image)
    }
}

fn image_file(hash: ContentHash) -> String {
    format!("{hash}.image")
}

fn recipe_file() -> String {
    format!("{}.recipe", image::recipe())
}

fn stored_image(cache: &Cache) -> Option<(Vec<u8>, ContentHash)> {
    let hash = ContentHash(cache.read(&recipe_file())?.try_into().ok()?);
    let bytes = cache.read(&image_file(hash))?;
    (ContentHash::of(&bytes) == hash).then_some((bytes, hash))
}

/// On an engine of its own: code that runs once is not worth optimising.
fn make_image() -> Result<Vec<u8>, ImageError> {
    let mut config = base_config();
    config.cranelift_opt_level(OptLevel::None);
    image::make(&wasmtime::Engine::new(&config)?, ENGINE_WASM, &image::GUEST)
}

fn base_config() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .max_wasm_stack(NATIVE_STACK_BYTES)
        .wasm_backtrace_max_frames(None)
        .generate_address_map(false)
        .native_unwind_info(false);
    config
}

fn config(live_cells: u32) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(live_cells)
        .total_memories(live_cells)
        .total_tables(live_cells)
        .max_memory_size(MAX_MEMORY_BYTES + (16 << 20))
        .max_unused_warm_slots(16)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(64 << 10)
        .pagemap_scan(Enabled::Auto);
    let mut config = base_config();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}
