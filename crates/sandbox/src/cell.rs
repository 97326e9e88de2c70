//! A live cell: one program in one VM, moved on turn by turn.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pincer_snapshot::{Chain, Checkpoint, Checkpoints, Header, Unreadable, WASM_PAGE, read_chain, write};
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline};

use crate::bridge::{Host, Inbox, Op, Pending, Stop};
use crate::ending::Ending;
use crate::engine::{Inner, STACK_BYTES};
use crate::failure::keep_within;
use crate::growing::Growing;
use crate::image::Image;
use crate::program::scope_json;
use crate::vm::Exports;
use crate::watchdog::{Signal, Watch};
use crate::{
    Allotment, Answer, Error, Failure, Library, Limit, Limits, MAX_MEMORY_BYTES, Program, ProgramValue, Readings,
    RequestId, RestoreError, Turn, TurnEnd,
};

/// The most pages (512 KiB) of which a running cell keeps a copy to find what has changed. Beyond them it keeps hashes, which
/// take longer to compare and write more, but no memory to speak of.
const COPIED_PAGES: usize = 128;

/// One program in one VM.
///
/// It runs on the thread that calls [`run_turn`](Self::run_turn), on a stack of its own if that of the thread is not large
/// enough; Rust's threads have enough by default. Dropping it frees everything.
pub struct Cell {
    engine: Arc<Inner>,
    image: Arc<Image>,
    signal: Arc<Signal>,
    state: State,
    checkpoints: Checkpoints,
    seed: Option<u64>,
}

enum State {
    /// Made, but the program has not been looked at.
    Fresh(Vm, Program),
    /// At the frontier: no job is left, the host has something to answer. The answers delivered so far are with it.
    Waiting(Vm, Vec<Answer>),
    Ended,
}

struct Vm {
    store: Store<Host>,
    exports: Arc<Exports>,
}

/// Stops a cell from another thread.
#[derive(Clone)]
pub struct Interrupter {
    engine: Arc<Inner>,
    signal: Arc<Signal>,
}

impl Interrupter {
    /// Ends the cell: at once if it is running, otherwise when its next turn begins.
    pub fn interrupt(&self) {
        if self.signal.interrupt() {
            self.engine.watchdog.urge(&self.signal);
        }
    }
}

impl Cell {
    pub(crate) fn start(
        engine: &Arc<Inner>,
        program: Program,
        limits: Limits,
        allotment: Option<Allotment>,
    ) -> Result<Self, Error> {
        if program.source.len() > limits.source_bytes {
            return Err(Error::SourceTooLong { bytes: program.source.len(), limit: limits.source_bytes });
        }
        let (mut cell, mut vm) = Self::instantiate(engine, &engine.current(), limits, allotment)?;
        // Zero is the one state that xorshift never leaves.
        let seed = program.seed.unwrap_or_else(random_seed) | 1;
        vm.exports.write(&mut vm.store, cell.image.roots.seed, &seed.to_le_bytes()).map_err(Error::Setup)?;
        cell.seed = Some(seed);
        vm.store.data_mut().library = program.library.clone();
        cell.state = State::Fresh(vm, program);
        Ok(cell)
    }

    pub(crate) fn restore(
        engine: &Arc<Inner>,
        base: &[u8],
        deltas: &[impl AsRef<[u8]>],
        limits: Limits,
        allotment: Option<Allotment>,
    ) -> Result<Self, Error> {
        let bytes = base.len() + deltas.iter().map(|delta| delta.as_ref().len()).sum::<usize>();
        over("bytes", bytes, limits.snapshot_bytes)?;
        let chain = read_chain(base, deltas).map_err(RestoreError::from)?;
        let header = chain.header();
        if header.engine != engine.hash {
            return Err(RestoreError::WrongEngine { needed: header.engine, present: engine.hash }.into());
        }
        let image = engine.image(header.image)?;
        let grown = check(&chain, &image, &limits)?;
        let (mut cell, mut vm) = Self::instantiate(engine, &image, limits, allotment)?;
        vm.exports.memory.grow(&mut vm.store, (grown / WASM_PAGE) as u64).map_err(|error| made(error, engine))?;
        let memory = vm.exports.memory.data_mut(&mut vm.store);
        chain.apply(memory, &image.memory, &image.dictionary).map_err(RestoreError::from)?;
        vm.store.data_mut().pending =
            Pending { ids: header.pending.iter().copied().collect(), next: header.next_request };
        // A snapshot does not say.
        vm.store.data_mut().returned = true;
        cell.state = State::Waiting(vm, Vec::new());
        Ok(cell)
    }

    fn instantiate(
        engine: &Arc<Inner>,
        image: &Arc<Image>,
        limits: Limits,
        allotment: Option<Allotment>,
    ) -> Result<(Self, Vm), Error> {
        if limits.memory_bytes > MAX_MEMORY_BYTES {
            return Err(Error::MemoryLimit { asked: limits.memory_bytes, most: MAX_MEMORY_BYTES });
        }
        let signal = Arc::new(Signal::default());
        let growing = allotment.map(|allotment| Growing::new(allotment, Arc::clone(&signal), engine.long_turn.clone()));
        let (mut store, exports) =
            image.instantiate(&engine.wasmtime, limits, growing).map_err(|error| made(error, engine))?;
        let (seen, long_turn) = (Arc::clone(&signal), engine.long_turn.clone());
        store.epoch_deadline_callback(move |context| {
            let Host { deadline, lasting, .. } = context.data();
            loop {
                if seen.is_interrupted() {
                    return Err(wasmtime::Error::new(Stop::Interrupted));
                }
                let now = Instant::now();
                if deadline.is_some_and(|deadline| now >= deadline) {
                    return Err(wasmtime::Error::new(Stop::Limit(Limit::Time)));
                }
                match &long_turn {
                    Some(long_turn) if lasting.is_some_and(|time| now >= time) && !(long_turn.may_go_on)() => {}
                    _ => return Ok(UpdateDeadline::Continue(1)),
                }
            }
        });
        let (engine, image, state) = (Arc::clone(engine), Arc::clone(image), State::Ended);
        let cell = Self { engine, image, signal, state, checkpoints: Checkpoints::new(COPIED_PAGES), seed: None };
        Ok((cell, Vm { store, exports }))
    }

    /// Returns how much memory it has; 0 if it has ended.
    pub fn memory_bytes(&self) -> usize {
        match &self.state {
            State::Fresh(vm, _) | State::Waiting(vm, _) => vm.exports.memory.data_size(&vm.store),
            State::Ended => 0,
        }
    }

    /// Claims the memory that it may need in its next turn: see [`Allotment::claim`].
    pub fn claim(&mut self) -> bool {
        let (State::Fresh(vm, _) | State::Waiting(vm, _)) = &mut self.state else { return true };
        vm.store.data_mut().growing.as_mut().is_none_or(|growing| growing.allotment.claim())
    }

    /// Hands its part of a budget for the requests that it has made over to the allotment of their keeper.
    pub fn hand_requests_over(&mut self, to: &mut Allotment) {
        if let State::Fresh(vm, _) | State::Waiting(vm, _) = &mut self.state
            && let Some(growing) = &mut vm.store.data_mut().growing
        {
            growing.hand_requests_over(to);
        }
    }

    /// Ends it, and returns its part of a budget. That still counts the memory which is free now.
    pub fn into_allotment(mut self) -> Option<Allotment> {
        match &mut self.state {
            State::Fresh(vm, _) | State::Waiting(vm, _) => vm.store.data_mut().growing.take().map(|it| it.allotment),
            State::Ended => None,
        }
    }

    /// Whether turns that last are asked whether they may go on: see [`LongTurn`](crate::LongTurn).
    pub fn asks_when_it_lasts(&self) -> bool {
        self.engine.long_turn.is_some()
    }

    /// A handle that stops this cell from another thread.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter { engine: Arc::clone(&self.engine), signal: Arc::clone(&self.signal) }
    }

    /// Gives a restored cell what its program's lazy globals and files come from.
    pub fn provide(&mut self, library: Arc<dyn Library>) {
        if let State::Fresh(vm, _) | State::Waiting(vm, _) = &mut self.state {
            vm.store.data_mut().library = Some(library);
        }
    }

    /// Returns the seed of `Math.random` that it began with; `None` if it was restored.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Keeps what the program reads besides its answers, from its next turn on: [`Turn::readings`].
    pub fn record_readings(&mut self) {
        if let State::Fresh(vm, _) | State::Waiting(vm, _) = &mut self.state {
            vm.store.data_mut().reader.record();
        }
    }

    /// Lets the program read what was recorded, in its next turn, in place of the clock and its library.
    pub fn replay_readings(&mut self, readings: Readings) {
        if let State::Fresh(vm, _) | State::Waiting(vm, _) = &mut self.state {
            vm.store.data_mut().reader.replay(readings);
        }
    }

    /// The requests that have no answer yet, in the order they were made.
    pub fn pending(&self) -> Vec<RequestId> {
        match &self.state {
            State::Waiting(vm, _) => vm.store.data().pending.ids.iter().copied().map(RequestId).collect(),
            State::Fresh(..) | State::Ended => Vec::new(),
        }
    }

    /// Hands over an answer. The guest sees it in its next turn, after those delivered before it.
    pub fn deliver(&mut self, answer: Answer) -> Result<(), Error> {
        let State::Waiting(vm, answers) = &mut self.state else {
            return Err(match self.state {
                State::Ended => Error::Ended,
                _ => Error::UnknownRequest(answer.id),
            });
        };
        if !vm.store.data_mut().pending.ids.remove(&answer.id.0) {
            return Err(Error::UnknownRequest(answer.id));
        }
        answers.push(answer);
        Ok(())
    }

    /// Gives the guest its whole `output_bytes` again: the host has passed on what was printed so far.
    pub fn renew_output(&mut self) {
        if let State::Fresh(vm, _) | State::Waiting(vm, _) = &mut self.state {
            vm.store.data_mut().output_spent = 0;
        }
    }

    /// Returns how much of its `output_bytes` the guest has used since they were last renewed.
    pub fn output_spent(&self) -> usize {
        match &self.state {
            State::Fresh(vm, _) | State::Waiting(vm, _) => vm.store.data().output_spent,
            State::Ended => 0,
        }
    }

    /// Counts what the guest printed before it was restored. A snapshot does not say: usually that has been passed on.
    pub fn spend_output(&mut self, bytes: usize) {
        if let State::Fresh(vm, _) | State::Waiting(vm, _) = &mut self.state {
            vm.store.data_mut().output_spent = bytes;
        }
    }

    /// Runs the program until only the host can move it on, for at most `time`.
    pub fn run_turn(&mut self, time: Duration) -> Result<Turn, Error> {
        let (mut vm, step) = match std::mem::replace(&mut self.state, State::Ended) {
            State::Fresh(vm, program) => (vm, Step::Begin(program)),
            State::Waiting(vm, answers) => (vm, Step::Settle(answers)),
            State::Ended => return Err(Error::Ended),
        };
        let now = Instant::now();
        let deadline = now.checked_add(time).unwrap_or(now + Duration::from_secs(u32::MAX.into()));
        vm.store.data_mut().deadline = Some(deadline);
        vm.store.data_mut().inbox = Inbox::default();
        vm.store.set_epoch_deadline(1);
        let lasting = self.engine.long_turn.as_ref().map(|long_turn| now + long_turn.after);
        let lasting = lasting.filter(|time| *time < deadline).map(|time| self.engine.watchdog.watch(time));
        vm.store.data_mut().lasting = lasting.as_ref().map(Watch::deadline);
        let watch = self.engine.watchdog.watch(deadline);
        let result = match self.signal.begin_turn() {
            true => stacker::maybe_grow(STACK_BYTES, STACK_BYTES, || vm.advance(step)),
            false => Err(wasmtime::Error::new(Stop::Interrupted)),
        };
        self.signal.end_turn();
        drop((watch, lasting));
        let inbox = std::mem::take(&mut vm.store.data_mut().inbox);
        let readings = vm.store.data_mut().reader.take();
        let end = result.unwrap_or_else(end_of);
        if !end.is_final() {
            if let Some(growing) = &mut vm.store.data_mut().growing {
                growing.allotment.rest();
            }
            self.state = State::Waiting(vm, Vec::new());
        }
        let Inbox { output, requests, cancelled, notes, .. } = inbox;
        Ok(Turn { output, requests, cancelled, end, notes, readings })
    }

    /// Turns the cell into bytes from which [`Engine::restore`](crate::Engine::restore) makes it again. The cell stays as it
    /// is and can go on.
    pub fn park(&mut self) -> Result<Vec<u8>, Error> {
        let Frontier { header, memory, limit } = self.state.frontier(&self.engine, &self.image)?;
        Ok(write(&header, memory, &self.image.memory, &self.image.dictionary, limit)?)
    }

    /// Like [`park`](Self::park), but if little of the cell changed since its previous checkpoint, only the change becomes
    /// bytes. [`Engine::restore_chain`](crate::Engine::restore_chain) makes the cell again from the last
    /// [`Full`](Checkpoint::Full) checkpoint and the [`Delta`](Checkpoint::Delta)s after it that were not replaced: at most
    /// [`MAX_DELTAS`](crate::MAX_DELTAS). Together they keep the limit of a snapshot.
    ///
    /// The first checkpoint of a cell is full, also that of a restored one, and so is the one after an error. If a checkpoint
    /// was not stored, call [`forget_checkpoints`](Self::forget_checkpoints).
    pub fn checkpoint(&mut self) -> Result<Checkpoint, Error> {
        let Frontier { header, memory, limit } = self.state.frontier(&self.engine, &self.image)?;
        Ok(self.checkpoints.next(&header, memory, &self.image.memory, &self.image.dictionary, limit)?)
    }

    /// Makes the next checkpoint a full one: those before it are lost, or something else was stored in their place.
    pub fn forget_checkpoints(&mut self) {
        self.checkpoints.forget();
    }
}

/// A cell where it can be stored: all that is left is host work.
struct Frontier<'a> {
    header: Header,
    memory: &'a [u8],
    limit: usize,
}

impl State {
    fn frontier(&mut self, engine: &Inner, image: &Image) -> Result<Frontier<'_>, Error> {
        let vm = match self {
            Self::Waiting(vm, answers) if answers.is_empty() => vm,
            Self::Ended => return Err(Error::Ended),
            _ => return Err(Error::NotWaiting),
        };
        let stack_pointer = vm.exports.stack_pointer(&mut vm.store);
        // Only a broken engine is at a frontier with something on its stack.
        if stack_pointer != image.roots.stack_pointer {
            return Err(Error::NotWaiting);
        }
        let Host { pending, limits, .. } = vm.store.data();
        let memory = vm.exports.memory.data(&vm.store);
        let header = Header {
            engine: engine.hash,
            image: image.hash,
            stack_pointer,
            wasm_pages: (memory.len() / WASM_PAGE) as u32,
            next_request: pending.next,
            pending: pending.ids.iter().copied().collect(),
        };
        Ok(Frontier { header, memory, limit: limits.snapshot_bytes })
    }
}

/// Without the system's randomness the clock must do: nothing secret depends on a guest's `Math.random`.
fn random_seed() -> u64 {
    let mut seed = [0; 8];
    match getrandom::fill(&mut seed) {
        Ok(()) => u64::from_le_bytes(seed),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64),
    }
}

/// Whether a sound snapshot also fits its image and what a cell may use now; by how many bytes its memory has grown.
fn check(chain: &Chain<'_>, image: &Image, limits: &Limits) -> Result<usize, RestoreError> {
    if chain.header().stack_pointer != image.roots.stack_pointer {
        return Err(Unreadable::Damaged("its stack pointer is not where a waiting cell's is").into());
    }
    let grown = chain.memory_bytes().checked_sub(image.memory.len());
    let grown = grown.ok_or(Unreadable::Damaged("its memory is smaller than its image"))?;
    over("bytes of memory", grown, limits.memory_bytes)?;
    over("pending requests", chain.header().pending.len(), limits.pending_requests)?;
    Ok(grown)
}

fn over(what: &'static str, needed: usize, limit: usize) -> Result<(), RestoreError> {
    if needed > limit { Err(RestoreError::OverLimit { what, needed, limit }) } else { Ok(()) }
}

/// Why a cell could not be made.
fn made(error: wasmtime::Error, engine: &Inner) -> Error {
    match error.downcast_ref::<Stop>() {
        Some(Stop::NoMemory { needed }) => Error::NoMemory { needed: *needed },
        _ if error.is::<PoolConcurrencyLimitError>() => Error::Busy { live_cells: engine.live_cells },
        _ => Error::Setup(error),
    }
}

/// What a turn begins with.
enum Step {
    Begin(Program),
    Settle(Vec<Answer>),
}

impl Vm {
    fn advance(&mut self, step: Step) -> wasmtime::Result<TurnEnd> {
        let Self { store, exports } = self;
        let at_once = matches!(step, Step::Begin(_));
        match step {
            Step::Begin(program) => {
                if program.is_bare {
                    exports.dispatch_text(&mut *store, Op::Strip, "")?;
                }
                exports.dispatch_text(&mut *store, Op::Install, &scope_json(&program.scope))?;
                let run = match program.value {
                    ProgramValue::Returned => Op::Run,
                    ProgramValue::Last => Op::RunToLast,
                };
                exports.run_program(&mut *store, &program.source, run)?;
                if let Some(Ending::Failed(failure)) = &mut store.data_mut().inbox.ending {
                    keep_within(&program.source, failure);
                }
            }
            // One after the other, each with all that follows from it: a timer must be able to clear the next one.
            Step::Settle(answers) => {
                for answer in answers {
                    exports.dispatch_text(&mut *store, Op::Settle, &answer_json(answer))?;
                    run_jobs(store, exports)?;
                }
            }
        }
        run_jobs(store, exports)?;

        if !matches!(store.data().inbox.ending, Some(Ending::Failed(_))) {
            if !store.data().pending.ids.is_empty() {
                if !store.data().returned {
                    return Ok(TurnEnd::Waiting);
                }
                store.data_mut().inbox.ending = None;
                exports.dispatch(&mut *store, Op::Rest, &[])?;
                if store.data().inbox.ending.is_none() {
                    return Ok(TurnEnd::Waiting);
                }
            } else if !at_once || store.data().inbox.ending.is_none() || store.data().inbox.rejections {
                // Only a program that does everything in one turn, and rejects nothing, has the last word there. Otherwise it
                // may have ended in an earlier turn, and a rejection of any turn overrules what it said.
                exports.dispatch(&mut *store, Op::Conclude, &[])?;
            }
        }
        match store.data_mut().inbox.ending.take() {
            Some(Ending::Value(value, kind)) => {
                let value = store.data_mut().end_with(value, kind);
                Ok(TurnEnd::Value(value.map_err(|limit| wasmtime::Error::new(Stop::from(limit)))?))
            }
            Some(Ending::Failed(failure)) => Ok(TurnEnd::Failed(failure)),
            None => Err(wasmtime::Error::new(Stop::Broken("the program ended without a word"))),
        }
    }
}

/// Runs the jobs of the queue until there is none, or the program has failed.
fn run_jobs(store: &mut Store<Host>, exports: &Exports) -> wasmtime::Result<()> {
    while !matches!(store.data().inbox.ending, Some(Ending::Failed(_))) && exports.run_job(&mut *store)? {}
    Ok(())
}

/// `[[id, 1, value]]` or `[[id, 0, fault]]`, as the prelude reads it.
fn answer_json(Answer { id, outcome }: Answer) -> String {
    match outcome {
        Ok(value) => format!("[[{id},1,{value}]]"),
        Err(fault) => {
            // A map of strings and JSON values always has a JSON form.
            let fault = serde_json::to_string(&fault).unwrap_or_else(|_| "{}".into());
            format!("[[{id},0,{fault}]]")
        }
    }
}

/// What stopped the guest in the middle of its work.
fn end_of(error: wasmtime::Error) -> TurnEnd {
    match error.downcast_ref::<Stop>() {
        Some(Stop::Limit(limit)) => return TurnEnd::Limit(*limit),
        Some(Stop::Interrupted) => return TurnEnd::Interrupted,
        Some(spoilt @ Stop::Spoilt(_)) => return TurnEnd::Failed(Failure::of_program(spoilt.to_string())),
        Some(Stop::Broken(_) | Stop::Prelude(_) | Stop::NoMemory { .. }) | None => {}
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => TurnEnd::Limit(Limit::Stack),
        _ => TurnEnd::Crashed(format!("{error:#}")),
    }
}
