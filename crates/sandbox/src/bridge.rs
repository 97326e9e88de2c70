//! The host's half of the bridge: what the guest may import, and what it says through it.
//!
//! Every number, pointer and string here comes from a hostile guest. Pointers are only ever followed inside the guest's own
//! memory, sizes are checked before anything is copied, and whatever does not make sense stops the cell.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use wasmtime::{Caller, Linker, ResourceLimiter};

use crate::ending::{Ending, ValueKind};
use crate::failure::{parse_failure, site_of};
use crate::growing::Growing;
use crate::program::node_json;
use crate::reading::{is_too_large, read_arguments, read_json, read_text, refusal};
use crate::readings::{LoadKind, Reader};
use crate::vm::{Exports, JsValue};
use crate::{Json, LeftOut, Library, Limit, Limits, MAX_OUTPUT_ITEMS, Note, Output, Request, RequestId};

/// What `dispatch` in `guest/prelude.js` may be asked to do. The same numbers are there.
#[derive(Clone, Copy)]
pub(crate) enum Op {
    Install = 0,
    Run = 1,
    Settle = 2,
    SyntaxError = 3,
    Conclude = 4,
    Track = 5,
    /// An image of an earlier build does nothing for this one, and waits for its timers.
    Rest = 6,
    RunToLast = 7,
    Strip = 8,
}

/// What `emit` in `guest/prelude.js` may say. The same numbers are there.
#[derive(Clone, Copy)]
enum Emit {
    Text,
    Json,
    Request,
    Cancel,
    Value,
    Failure,
    Load,
}

impl Emit {
    const ALL: [Self; 7] =
        [Self::Text, Self::Json, Self::Request, Self::Cancel, Self::Value, Self::Failure, Self::Load];
}

/// Why the host stopped the guest in the middle of its work. Travels through wasmtime as an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    #[error(transparent)]
    Limit(#[from] Limit),
    #[error("interrupted")]
    Interrupted,
    #[error("the memory budget has no {needed} bytes for a cell")]
    NoMemory { needed: usize },
    #[error("the guest broke the bridge: {0}")]
    Broken(&'static str),
    #[error("the prelude failed: {0}")]
    Prelude(String),
    #[error("the program broke what it runs on: {0}")]
    Spoilt(String),
}

/// What one turn has brought so far.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub output: Vec<Output>,
    pub requests: Vec<Request>,
    pub cancelled: Vec<RequestId>,
    pub ending: Option<Ending>,
    /// Promises were rejected without a handler, so only the prelude can tell how the cell ends.
    pub rejections: bool,
    /// The host's words about the end.
    pub notes: Vec<Note>,
    value_bytes: usize,
}

/// The unanswered requests, by the host's own count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending {
    pub ids: BTreeSet<u32>,
    pub next: u32,
}

/// The host's state of one cell, reachable from the imports.
pub(crate) struct Host {
    pub limits: Limits,
    pub pending: Pending,
    pub inbox: Inbox,
    pub deadline: Option<Instant>,
    /// When the turn counts as a long one.
    pub lasting: Option<Instant>,
    /// Of `limits.output_bytes`, what has been used since the host last renewed it.
    pub output_spent: usize,
    /// The program may have returned.
    pub returned: bool,
    /// Where lazy globals and files come from.
    pub library: Option<Arc<dyn Library>>,
    /// Linear memory in the image, to which `limits.memory_bytes` is added.
    pub image_bytes: usize,
    /// Set once the instance exists. Imports that need it are only called after that.
    pub exports: Option<Arc<Exports>>,
    /// Fixed while an image is made, so that it is the same everywhere.
    pub clock: Clock,
    /// Where the time and the parts of the library come from, and what was read of them.
    pub reader: Reader,
    /// The part of a budget that the cell has, if there is one.
    pub growing: Option<Growing>,
}

#[derive(Clone, Copy)]
pub(crate) enum Clock {
    Fixed,
    Real,
}

impl Host {
    pub(crate) fn new(limits: Limits, image_bytes: usize, clock: Clock) -> Self {
        let (pending, inbox) = (Pending::default(), Inbox::default());
        let (deadline, lasting, library, exports, growing) = (None, None, None, None, None);
        Self {
            limits,
            pending,
            inbox,
            deadline,
            lasting,
            output_spent: 0,
            returned: false,
            library,
            image_bytes,
            exports,
            clock,
            reader: Reader::default(),
            growing,
        }
    }

    pub(crate) fn exports(&self) -> Result<Arc<Exports>, Stop> {
        self.exports.clone().ok_or(Stop::Broken("an import was called before the engine was ready"))
    }

    fn spend_output(&mut self, bytes: usize) -> Result<usize, Limit> {
        if self.inbox.output.len() >= MAX_OUTPUT_ITEMS {
            return Err(Limit::OutputItems { limit: MAX_OUTPUT_ITEMS });
        }
        self.output_spent = self.output_with(bytes.saturating_add(OUTPUT_ITEM_BYTES))?;
        Ok(bytes)
    }

    fn spend_escapes(&mut self, text: &str) -> Result<(), Limit> {
        let more = |byte: u8| match byte {
            b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
            0..0x20 => 5,
            _ => 0,
        };
        self.output_spent = self.output_with(text.bytes().map(more).sum())?;
        Ok(())
    }

    fn output_with(&self, bytes: usize) -> Result<usize, Limit> {
        let (total, limit) = (self.output_spent.saturating_add(bytes), self.limits.output_bytes);
        if total > limit { Err(Limit::Output { bytes: total, limit }) } else { Ok(total) }
    }

    /// The arguments of one call, besides those of the turn's other calls: the host keeps all of them until the turn ends.
    pub(crate) fn spend_arguments(&mut self, bytes: usize) -> Result<usize, Limit> {
        let limit = self.limits.value_bytes;
        if bytes > limit {
            return Err(Limit::Value { bytes, limit });
        }
        let (total, limit) = (self.inbox.value_bytes.saturating_add(bytes), self.limits.arguments_bytes());
        if total > limit {
            return Err(Limit::Arguments { bytes: total, limit });
        }
        self.inbox.value_bytes = total;
        Ok(bytes)
    }

    /// The guest may say several times how it ends, so this is not spent; the last word must fit beside the output.
    fn admit_value(&mut self, bytes: usize) -> Result<usize, Limit> {
        let limit = self.limits.value_bytes;
        if bytes > limit {
            return Err(Limit::Value { bytes, limit });
        }
        self.output_with(bytes)?;
        Ok(bytes)
    }

    /// The prelude shortens what a failure says; one that is long all the same does not come from there.
    fn admit_failure(&mut self, bytes: usize) -> Result<usize, Limit> {
        let limit = FAILURE_BYTES.min(self.limits.value_bytes);
        if bytes > limit { Err(Limit::Value { bytes, limit }) } else { Ok(bytes) }
    }

    /// Longer ones name nothing.
    fn admit_name(&mut self, bytes: usize) -> Result<usize, Limit> {
        Ok(bytes.min(NAME_BYTES))
    }

    /// Costs nothing, and is cut off.
    fn peek_stack(&mut self, bytes: usize) -> Result<usize, Limit> {
        Ok(bytes.min(STACK_TEXT_BYTES))
    }

    fn open_request(&mut self, method: String, args: Json, absent: u32, stack: &str) -> Result<u32, Stop> {
        if self.pending.ids.len() >= self.limits.pending_requests {
            return Err(Limit::Requests { limit: self.limits.pending_requests }.into());
        }
        if let Some(growing) = &mut self.growing {
            growing.hold_request(method.len() + args.as_str().len(), self.deadline)?;
        }
        let id = self.pending.next;
        self.pending.next = id.checked_add(1).ok_or(Stop::Broken("request ids are used up"))?;
        self.pending.ids.insert(id);
        let (site, at) = (site_of(stack), Instant::now());
        self.inbox.requests.push(Request { id: RequestId(id), method, args, absent, site, at });
        Ok(id)
    }

    /// What the guest wants to have at once: a global as the prelude reads it, or a file.
    fn load(&mut self, kind: JsValue, name: &str) -> Option<Arc<str>> {
        let kind = match kind.as_index()? {
            0 => LoadKind::Global,
            1 => LoadKind::File,
            _ => return None,
        };
        let library = self.library.as_ref();
        self.reader.load(kind, name, || match kind {
            LoadKind::Global => library?.global(name).map(|scope| node_json(&scope).into()),
            LoadKind::File => library?.file(name),
        })
    }

    /// The value that a program ends with, if it still fits after what detached work printed since, and what is to be said of
    /// the end.
    pub(crate) fn end_with(&mut self, value: Option<Json>, kind: ValueKind) -> Result<Option<Json>, Limit> {
        let fits = value.as_ref().map_or(Ok(0), |value| self.admit_value(value.as_str().len()));
        let (value, left_out) = match (fits, kind) {
            (_, ValueKind::LeftOut(why)) => (None, Some(why)),
            (Err(_), ValueKind::Last) => (None, Some(LeftOut::TooLarge)),
            (Err(limit), ValueKind::Returned) => return Err(limit),
            (Ok(_), _) => (value, None),
        };
        let timers = Some(self.pending.ids.len()).filter(|timers| *timers > 0);
        self.inbox.notes.extend(timers.map(Note::TimersDropped));
        self.inbox.notes.extend(left_out.map(Note::ValueLeftOut));
        Ok(value)
    }

    fn cancel(&mut self, id: u32) {
        if !self.pending.ids.remove(&id) {
            return;
        }
        // A request opened in this very turn has not been seen by anyone yet.
        match self.inbox.requests.iter().position(|request| request.id.0 == id) {
            Some(index) => {
                let cost = self.inbox.requests.remove(index).args.as_str().len();
                self.inbox.value_bytes = self.inbox.value_bytes.saturating_sub(cost);
            }
            None => self.inbox.cancelled.push(RequestId(id)),
        }
    }
}

/// A refused growth ends the cell. Telling the guest instead would let it catch the error and go on.
impl ResourceLimiter for Host {
    fn memory_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let limit = self.limits.memory_bytes;
        if desired > self.image_bytes.saturating_add(limit) {
            return Err(stopped(Limit::Memory { limit }.into()));
        }
        if let Some(growing) = &mut self.growing {
            growing.grow(desired, self.deadline).map_err(stopped)?;
        }
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(current == 0 || desired <= current)
    }
}

pub(crate) fn stopped(stop: Stop) -> wasmtime::Error {
    wasmtime::Error::new(stop)
}

/// What an item of output costs besides its text: about what it takes in the result. Empty items are not free.
pub(crate) const OUTPUT_ITEM_BYTES: usize = 32;
/// All that a failure may say, as JSON.
const FAILURE_BYTES: usize = 512 << 10;
/// The name of a global or a file.
const NAME_BYTES: usize = 4 << 10;
/// More of a guest stack than this is not read. It is long only if somebody made it so.
const STACK_TEXT_BYTES: usize = 32 << 10;

const WASI_OK: i32 = 0;
const WASI_BADF: i32 = 8;
/// 2020-01-01T00:00:00Z: the moment at which every image is made.
const IMAGE_TIME_MS: i64 = 1_577_836_800_000;

/// Gives the engine its twelve imports. None of them reaches a file, the network or the environment.
pub(crate) fn add_imports(linker: &mut Linker<Host>) -> wasmtime::Result<()> {
    const ENV: &str = "env";
    const WASI: &str = "wasi_snapshot_preview1";
    linker.func_wrap(ENV, "host_call", host_call)?;
    linker.func_wrap(ENV, "host_promise_rejection", host_promise_rejection)?;
    // The deadline is wasmtime's: QuickJS does not poll its own handler inside native loops.
    linker.func_wrap(ENV, "host_interrupt", || 0i32)?;
    linker.func_wrap(ENV, "host_module_normalize", |_: i32, _: i32| 0i32)?;
    linker.func_wrap(ENV, "host_module_load", |_: i32, _: i32| 0i32)?;
    linker.func_wrap(ENV, "host_get_timezone_offset", |_: i32, _: i32| 0i32)?;
    linker.func_wrap(WASI, "clock_time_get", clock_time_get)?;
    linker.func_wrap(WASI, "random_get", random_get)?;
    linker.func_wrap(WASI, "fd_close", |_: i32| WASI_BADF)?;
    linker.func_wrap(WASI, "fd_fdstat_get", |_: i32, _: i32| WASI_BADF)?;
    linker.func_wrap(WASI, "fd_seek", |_: i32, _: i64, _: i32, _: i32| WASI_BADF)?;
    linker.func_wrap(WASI, "fd_write", |_: i32, _: i32, _: i32, _: i32| WASI_BADF)?;
    Ok(())
}

/// Whole milliseconds: a finer clock would let a guest time what it should not see.
fn clock_time_get(mut caller: Caller<'_, Host>, _clock: i32, _precision: i64, out: i32) -> wasmtime::Result<i32> {
    let milliseconds = match caller.data().clock {
        Clock::Fixed => IMAGE_TIME_MS,
        Clock::Real => caller.data_mut().reader.now().ok_or_else(|| stopped(Stop::Interrupted))?,
    };
    write(&mut caller, out, &nanos(milliseconds).to_le_bytes())?;
    Ok(WASI_OK)
}

/// In the unit that WASI counts in. A recorded time may be any.
fn nanos(milliseconds: i64) -> u64 {
    u64::try_from(milliseconds).unwrap_or(0).saturating_mul(1_000_000)
}

/// The engine asks only while it starts, in the image: there the bytes are zeros. `Math.random` is seeded per cell.
fn random_get(mut caller: Caller<'_, Host>, out: i32, len: i32) -> wasmtime::Result<i32> {
    const MOST: u32 = 1024;
    write(&mut caller, out, &[0; MOST as usize][..(len as u32).min(MOST) as usize])?;
    Ok(WASI_OK)
}

fn write(caller: &mut Caller<'_, Host>, at: i32, bytes: &[u8]) -> wasmtime::Result<()> {
    let memory = match &caller.data().exports {
        Some(exports) => exports.memory,
        // Only `_initialize` of an image in the making gets here.
        None => caller
            .get_export("memory")
            .and_then(wasmtime::Extern::into_memory)
            .ok_or_else(|| stopped(Stop::Broken("no memory")))?,
    };
    memory.write(caller, at as u32 as usize, bytes).map_err(|_| stopped(Stop::Broken("a pointer outside memory")))
}

/// `emit(kind, …)` of the prelude. Arguments arrive as an array of pointers to boxed values.
fn host_call(
    mut caller: Caller<'_, Host>,
    _name: i32,
    _name_len: i32,
    _this: i32,
    argc: i32,
    argv: i32,
) -> wasmtime::Result<i32> {
    let exports = caller.data().exports().map_err(stopped)?;
    let argument = |caller: &Caller<'_, Host>, index: i32| -> Result<JsValue, Stop> {
        if index >= argc {
            return Ok(JsValue::UNDEFINED);
        }
        let pointer = exports.read_u32(caller, (argv as u32).wrapping_add(4 * index as u32))?;
        Ok(JsValue(exports.read_u64(caller, pointer)?))
    };
    let kind = argument(&caller, 0)
        .and_then(|kind| {
            kind.as_index().and_then(|kind| Emit::ALL.get(kind as usize)).ok_or(Stop::Broken("unknown kind"))
        })
        .map_err(stopped)?;
    let first = argument(&caller, 1).map_err(stopped)?;
    let mut answer = None;
    match kind {
        Emit::Load => {
            let name = argument(&caller, 2).map_err(stopped)?;
            let name = read_text(&mut caller, name, Host::admit_name)?;
            if let Some(text) = caller.data_mut().load(first, &name) {
                return exports.boxed_string(&mut caller, &text);
            }
        }
        Emit::Text => {
            let text = read_text(&mut caller, first, Host::spend_output)?;
            // Results are JSON, where control characters, quotes and backslashes are longer.
            caller.data_mut().spend_escapes(&text).map_err(|limit| stopped(limit.into()))?;
            caller.data_mut().inbox.output.push(Output::Text { text });
        }
        Emit::Json => {
            let value = read_json(&mut caller, first, Host::spend_output)?;
            caller.data_mut().inbox.output.push(Output::Json { value });
        }
        Emit::Request => {
            let args = argument(&caller, 2).map_err(stopped)?;
            let stack = argument(&caller, 3).map_err(stopped)?;
            // An image of an earlier build does not say.
            let absent = argument(&caller, 4).map_err(stopped)?.as_index().unwrap_or(0);
            let method = read_text(&mut caller, first, Host::admit_name)?;
            let (method, args) = match read_arguments(&mut caller, args) {
                // Only this call cannot be made: the program can go on without it.
                Err(error) if is_too_large(&error) => refusal(&error)?,
                args => (method, args?),
            };
            if !args.as_str().starts_with('[') {
                return Err(stopped(Stop::Broken("arguments that are not a list")));
            }
            let stack = read_text(&mut caller, stack, Host::peek_stack)?;
            answer = Some(caller.data_mut().open_request(method, args, absent, &stack).map_err(stopped)?);
        }
        Emit::Cancel => {
            let id = first.as_index().ok_or_else(|| stopped(Stop::Broken("not a request id")))?;
            caller.data_mut().cancel(id);
        }
        Emit::Value => {
            let kind = ValueKind::of(argument(&caller, 2).map_err(stopped)?.as_index());
            let value = match first {
                JsValue::UNDEFINED => Ok(None),
                _ => read_json(&mut caller, first, Host::admit_value).map(Some),
            };
            let ending = match value {
                Ok(value) => Ending::Value(value, kind),
                Err(error) if kind != ValueKind::Returned && is_too_large(&error) => {
                    Ending::Value(None, ValueKind::LeftOut(LeftOut::TooLarge))
                }
                Err(error) => return Err(error),
            };
            caller.data_mut().returned = true;
            caller.data_mut().inbox.ending = Some(ending);
        }
        Emit::Failure => {
            let failure = read_json(&mut caller, first, Host::admit_failure)?;
            let failure = parse_failure(&failure).map_err(stopped)?;
            caller.data_mut().inbox.ending = Some(Ending::Failed(failure));
        }
    }
    match answer {
        Some(id) => exports.new_number.call(&mut caller, f64::from(id)),
        None => exports.get_undefined.call(&mut caller, ()),
    }
}

/// QuickJS tells of promises rejected without a handler, and of handlers that came later. The prelude keeps the list, so that
/// it is part of the heap and of every snapshot.
fn host_promise_rejection(
    mut caller: Caller<'_, Host>,
    promise: i32,
    reason: i32,
    handled: i32,
) -> wasmtime::Result<()> {
    let exports = caller.data().exports().map_err(stopped)?;
    caller.data_mut().inbox.rejections = true;
    let value = |caller: &Caller<'_, Host>, at: i32| exports.read_u64(caller, at as u32).map(JsValue).map_err(stopped);
    let arguments = [value(&caller, promise)?, value(&caller, reason)?, JsValue::bool(handled != 0)];
    exports.dispatch(&mut caller, Op::Track, &arguments)?;
    // The engine made these boxes for us to free.
    exports.free_box.call(&mut caller, promise as u32)?;
    exports.free_box.call(&mut caller, reason as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guests_clock_counts_whole_milliseconds() {
        assert_eq!([nanos(1), nanos(3_123)], [1_000_000, 3_123_000_000]);
        assert_eq!([nanos(-1), nanos(i64::MAX)], [0, u64::MAX], "of a hostile recording");
    }
}
