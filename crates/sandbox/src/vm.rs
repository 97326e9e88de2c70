//! QuickJS as seen from outside: its exports with their types, its values as numbers.
//!
//! The layout of a value and of the call options is that of the one engine build whose hash is pinned; nothing here has to
//! guess.

use wasmtime::{AsContext, AsContextMut, Global, Instance, Memory, Module, ModuleExport, Store, TypedFunc, Val};

use crate::Limit;
use crate::bridge::{Host, Op, Stop};

/// A `JSValue` of a 32-bit QuickJS: a tag in the upper half, or a shifted float.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JsValue(pub u64);

impl JsValue {
    pub(crate) const UNDEFINED: Self = Self(3 << 32);
    const EXCEPTION: Self = Self(6 << 32);
    const STRING_TAG: u32 = -7i32 as u32;
    const ROPE_TAG: u32 = -6i32 as u32;

    pub(crate) const fn int(value: u32) -> Self {
        Self(value as u64)
    }

    pub(crate) const fn bool(value: bool) -> Self {
        Self(1 << 32 | value as u64)
    }

    pub(crate) fn is_exception(self) -> bool {
        self == Self::EXCEPTION
    }

    pub(crate) fn is_string(self) -> bool {
        matches!((self.0 >> 32) as u32, Self::STRING_TAG | Self::ROPE_TAG)
    }

    /// A small integer that is not negative.
    pub(crate) fn as_index(self) -> Option<u32> {
        (self.0 >> 31 == 0).then_some(self.0 as u32)
    }
}

/// Where things are in the memory of an image. Part of the image, so that a restored cell finds them too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Roots {
    pub runtime: u32,
    pub context: u32,
    /// [`SCRATCH_BYTES`] for out-parameters, call options and argument lists.
    pub scratch: u32,
    /// The program's file name, as a C string.
    pub file_name: u32,
    /// The state of `Math.random`.
    pub seed: u32,
    /// Where the stack pointer stands when the guest is not running. Below it there is only dead stack.
    pub stack_pointer: u32,
    /// The function that `guest/prelude.js` returned.
    pub dispatch: u64,
}

pub(crate) const SCRATCH_BYTES: u32 = 128;
/// Behind the out-parameter and the options of `JS_Eval2`.
const ARGUMENTS: u32 = 32;
/// QuickJS uses an argument list where it lies, and a rejection can be reported in the middle of another call.
const TRACK_ARGUMENTS: u32 = 80;

impl Roots {
    pub(crate) const BYTES: usize = 32;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let words = [self.runtime, self.context, self.scratch, self.file_name, self.seed, self.stack_pointer];
        for (index, word) in words.into_iter().enumerate() {
            bytes[index * 4..index * 4 + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[24..].copy_from_slice(&self.dispatch.to_le_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, dispatch) = bytes.split_at_checked(24)?;
        let mut words = words.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
        Some(Self {
            runtime: words.next()?,
            context: words.next()?,
            scratch: words.next()?,
            file_name: words.next()?,
            seed: words.next()?,
            stack_pointer: words.next()?,
            dispatch: u64::from_le_bytes(dispatch.try_into().ok()?),
        })
    }
}

/// Declares the engine's exports once: their names, and how to look all of them up in a module and in an instance.
macro_rules! exports {
    ($($field:ident: $name:literal, $params:ty => $result:ty;)*) => {
        /// What an image exports, besides `memory` and `__stack_pointer`.
        pub(crate) const FUNCTIONS: &[&str] = &[$($name),*];

        /// Positions of the exports in a module: looked up by name once, not once per cell.
        pub(crate) struct ExportTable {
            memory: ModuleExport,
            stack_pointer: ModuleExport,
            $($field: ModuleExport,)*
        }

        /// The exports of one instance.
        pub(crate) struct Exports {
            pub roots: Roots,
            pub memory: Memory,
            pub stack_pointer: Global,
            $(pub $field: TypedFunc<$params, $result>,)*
        }

        impl ExportTable {
            pub(crate) fn of(module: &Module) -> Result<Self, Stop> {
                let index = |name| module.get_export_index(name).ok_or(Stop::Broken("an export is missing"));
                Ok(Self {
                    memory: index("memory")?,
                    stack_pointer: index("__stack_pointer")?,
                    $($field: index($name)?,)*
                })
            }

            pub(crate) fn bind(&self, store: &mut Store<Host>, instance: Instance, roots: Roots) -> wasmtime::Result<Exports> {
                let missing = || wasmtime::Error::new(Stop::Broken("an export has the wrong kind"));
                Ok(Exports {
                    roots,
                    memory: instance.get_module_export(&mut *store, &self.memory).and_then(|e| e.into_memory()).ok_or_else(missing)?,
                    stack_pointer: instance.get_module_export(&mut *store, &self.stack_pointer).and_then(|e| e.into_global()).ok_or_else(missing)?,
                    $($field: instance
                        .get_module_export(&mut *store, &self.$field)
                        .and_then(|export| export.into_func())
                        .ok_or_else(missing)?
                        .typed(&*store)?,)*
                })
            }
        }
    };
}

exports! {
    malloc: "malloc", u32 => u32;
    free: "free", u32 => ();
    eval: "JS_Eval2", (u32, u32, u32, u32) => u64;
    call: "JS_Call", (u32, u64, u64, u32, u32) => u64;
    get_exception: "JS_GetException", u32 => u64;
    free_value: "JS_FreeValue", (u32, u64) => ();
    execute_job: "JS_ExecutePendingJob", (u32, u32) => i32;
    new_string: "JS_NewStringLen", (u32, u32, u32) => u64;
    to_c_string: "JS_ToCStringLen2", (u32, u32, u64, i32) => i32;
    free_c_string: "JS_FreeCString", (u32, u32) => ();
    new_number: "qjs_new_number", f64 => i32;
    get_undefined: "qjs_get_undefined", () => i32;
    free_box: "qjs_free_value", u32 => ();
}

/// Of a message that only a log will show.
const MESSAGE_BYTES: usize = 1000;
/// The program stands on line 1 of what it is evaluated as. The engine takes line 0 for "unset", so two lines stand before it.
const BEFORE: &str = "(async () => {\n\n";
const AFTER: &str = "\n})";
const FIRST_LINE: i32 = -1;

impl Exports {
    pub(crate) fn read_u32(&self, store: impl AsContext, at: u32) -> Result<u32, Stop> {
        let mut bytes = [0; 4];
        self.memory.read(store, at as usize, &mut bytes).map_err(|_| Stop::Broken("a pointer outside memory"))?;
        Ok(u32::from_le_bytes(bytes))
    }

    pub(crate) fn read_u64(&self, store: impl AsContext, at: u32) -> Result<u64, Stop> {
        let mut bytes = [0; 8];
        self.memory.read(store, at as usize, &mut bytes).map_err(|_| Stop::Broken("a pointer outside memory"))?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn write(&self, store: impl AsContextMut, at: u32, bytes: &[u8]) -> wasmtime::Result<()> {
        self.memory
            .write(store, at as usize, bytes)
            .map_err(|_| wasmtime::Error::new(Stop::Broken("a pointer outside memory")))
    }

    /// Copies text into a block of guest memory, with a zero behind it. The caller frees it.
    pub(crate) fn copy_in(
        &self,
        mut store: impl AsContextMut<Data = Host>,
        parts: &[&str],
    ) -> wasmtime::Result<(u32, u32)> {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let size = u32::try_from(len + 1).map_err(|_| wasmtime::Error::new(Stop::Broken("a text of 4 GiB")))?;
        let block = self.malloc.call(&mut store, size)?;
        if block == 0 {
            return Err(wasmtime::Error::new(Stop::Broken("the allocator failed")));
        }
        let mut at = block;
        for part in parts {
            self.write(&mut store, at, part.as_bytes())?;
            at += part.len() as u32;
        }
        self.write(&mut store, at, &[0])?;
        Ok((block, len as u32))
    }

    /// Compiles and runs a script. `file_name` is a C string in guest memory.
    pub(crate) fn eval(
        &self,
        mut store: impl AsContextMut<Data = Host>,
        parts: &[&str],
        file_name: u32,
        first_line: i32,
    ) -> wasmtime::Result<JsValue> {
        let (source, len) = self.copy_in(&mut store, parts)?;
        // JSEvalOptions: version, flags (a global script), file name, first line.
        let options = self.roots.scratch;
        let words = [1, 0, file_name, first_line as u32];
        for (index, word) in words.into_iter().enumerate() {
            self.write(&mut store, options + 4 * index as u32, &word.to_le_bytes())?;
        }
        let value = self.eval.call(&mut store, (self.roots.context, source, len, options))?;
        self.free.call(&mut store, source)?;
        Ok(JsValue(value))
    }

    /// Compiles the program and hands it to the prelude, which calls it.
    pub(crate) fn run_program(
        &self,
        mut store: impl AsContextMut<Data = Host>,
        source: &str,
        run: Op,
    ) -> wasmtime::Result<()> {
        let program = self.eval(&mut store, &[BEFORE, source, AFTER], self.roots.file_name, FIRST_LINE)?;
        let (op, value) = if program.is_exception() {
            (Op::SyntaxError, JsValue(self.get_exception.call(&mut store, self.roots.context)?))
        } else {
            (run, program)
        };
        self.dispatch(&mut store, op, &[value])?;
        self.free_value.call(&mut store, (self.roots.context, value.0))
    }

    /// A string as an import returns it: in a box that the engine frees.
    pub(crate) fn boxed_string(&self, mut store: impl AsContextMut<Data = Host>, text: &str) -> wasmtime::Result<i32> {
        let (block, len) = self.copy_in(&mut store, &[text])?;
        let string = self.new_string.call(&mut store, (self.roots.context, block, len))?;
        self.free.call(&mut store, block)?;
        let boxed = self.malloc.call(&mut store, 8)?;
        self.write(&mut store, boxed, &string.to_le_bytes())?;
        Ok(boxed as i32)
    }

    /// Calls the prelude with a text.
    pub(crate) fn dispatch_text(
        &self,
        mut store: impl AsContextMut<Data = Host>,
        op: Op,
        text: &str,
    ) -> wasmtime::Result<()> {
        let (block, len) = self.copy_in(&mut store, &[text])?;
        let string = JsValue(self.new_string.call(&mut store, (self.roots.context, block, len))?);
        self.free.call(&mut store, block)?;
        self.dispatch(&mut store, op, &[string])?;
        self.free_value.call(&mut store, (self.roots.context, string.0))
    }

    /// Calls the prelude. It keeps what it needs of the arguments; the caller still owns them.
    pub(crate) fn dispatch(
        &self,
        mut store: impl AsContextMut<Data = Host>,
        op: Op,
        arguments: &[JsValue],
    ) -> wasmtime::Result<()> {
        let list = self.roots.scratch + if matches!(op, Op::Track) { TRACK_ARGUMENTS } else { ARGUMENTS };
        self.write(&mut store, list, &JsValue::int(op as u32).0.to_le_bytes())?;
        for (index, value) in arguments.iter().enumerate() {
            self.write(&mut store, list + 8 * (index as u32 + 1), &value.0.to_le_bytes())?;
        }
        let count = arguments.len() as u32 + 1;
        let result = JsValue(
            self.call.call(&mut store, (self.roots.context, self.roots.dispatch, JsValue::UNDEFINED.0, count, list))?,
        );
        if !result.is_exception() {
            return Ok(());
        }
        let error = JsValue(self.get_exception.call(&mut store, self.roots.context)?);
        let text = self.text_of(&mut store, error)?;
        self.free_value.call(&mut store, (self.roots.context, error.0))?;
        // A guest that makes the engine call us from its deepest frame leaves us no stack to work with.
        let stop = match op {
            Op::Install => Stop::Prelude(text),
            _ if text.contains("call stack") => Stop::Limit(Limit::Stack),
            // It can only be a prototype that the program has spoilt for itself too.
            _ => Stop::Spoilt(text),
        };
        Err(wasmtime::Error::new(stop))
    }

    /// Any value as text, as `String(value)` has it. For messages only: an object may run guest code for it.
    pub(crate) fn text_of(
        &self,
        mut store: impl AsContextMut<Data = Host>,
        value: JsValue,
    ) -> wasmtime::Result<String> {
        let text = self.to_c_string.call(&mut store, (self.roots.context, self.roots.scratch, value.0, 0))? as u32;
        let len = self.read_u32(&store, self.roots.scratch).map_err(wasmtime::Error::new)?;
        let range = text as usize..text as usize + (len as usize).min(MESSAGE_BYTES);
        let bytes = self.memory.data(&store).get(range).filter(|_| text != 0).unwrap_or_default();
        let message = String::from_utf8_lossy(bytes).into_owned();
        if text != 0 {
            self.free_c_string.call(&mut store, (self.roots.context, text))?;
        }
        Ok(message)
    }

    /// Runs one job of the queue; `false` if there is none.
    pub(crate) fn run_job(&self, mut store: impl AsContextMut<Data = Host>) -> wasmtime::Result<bool> {
        let ran = self.execute_job.call(&mut store, (self.roots.runtime, self.roots.scratch))?;
        if ran < 0 {
            // Promises keep their errors. What is left is thrown by a callback of the engine, a finalizer for instance, and is
            // as lost as a rejection that nobody handles.
            let error = JsValue(self.get_exception.call(&mut store, self.roots.context)?);
            store.as_context_mut().data_mut().inbox.rejections = true;
            self.dispatch(&mut store, Op::Track, &[error, error, JsValue::bool(false)])?;
            self.free_value.call(&mut store, (self.roots.context, error.0))?;
        }
        Ok(ran != 0)
    }

    pub(crate) fn stack_pointer(&self, store: impl AsContextMut) -> u32 {
        match self.stack_pointer.get(store) {
            Val::I32(value) => value as u32,
            _ => 0,
        }
    }
}
