//! Makes a WebAssembly module out of another one: fewer exports, and a memory that is already initialised.

use pincer_snapshot::{PAGE, WASM_PAGE};
use wasm_encoder::{
    ConstExpr, CustomSection, DataSection, ExportKind, ExportSection, MemorySection, MemoryType, RawSection,
};
use wasmparser::{DataKind, ExternalKind, Operator, Parser, Payload};

/// Why a module is not the engine we know how to rewrite, or an image not one we know how to read.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// It is not WebAssembly.
    #[error("not a WebAssembly module: {0}")]
    Parse(#[from] wasmparser::BinaryReaderError),
    /// It is, but of a shape that the engine does not have.
    #[error("not a module of the expected shape: {0}")]
    Shape(&'static str),
}

const ROOTS_SECTION: &str = "pincer.roots";
const DICTIONARY_SECTION: &str = "pincer.dictionary";

/// What an image has beyond the engine's module.
pub(crate) struct State<'a> {
    pub memory: Vec<u8>,
    pub roots: &'a [u8],
    pub dictionary: &'a [u8],
}

/// Copies `module` with only the exports in `keep`, and, if given, with its memory already initialised.
///
/// `__stack_pointer` must be the only mutable global: then memory is all the state there is. It stands at its first value
/// whenever the guest is not running, so it is not rewritten.
pub(crate) fn rewrite(
    module: &[u8],
    keep: impl Fn(&str) -> bool,
    state: Option<State<'_>>,
) -> Result<Vec<u8>, RewriteError> {
    let mut out = wasm_encoder::Module::new();
    let data = state.as_ref().map(|state| segments(&state.memory));
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::StartSection { .. } => return Err(RewriteError::Shape("it runs code when it is instantiated")),
            Payload::CustomSection(_) => {}
            Payload::ExportSection(reader) => {
                let mut exports = ExportSection::new();
                for export in reader {
                    let export = export?;
                    let kind = match export.kind {
                        ExternalKind::Func => ExportKind::Func,
                        ExternalKind::Memory => ExportKind::Memory,
                        ExternalKind::Global => ExportKind::Global,
                        _ => continue,
                    };
                    if keep(export.name) {
                        exports.export(export.name, kind, export.index);
                    }
                }
                out.section(&exports);
            }
            Payload::GlobalSection(reader) => {
                let mut mutable = 0;
                for global in reader.clone() {
                    mutable += usize::from(global?.ty.mutable);
                }
                if mutable != 1 {
                    return Err(RewriteError::Shape("it has other mutable globals than its stack pointer"));
                }
                out.section(&RawSection { id: 6, data: &module[reader.range()] });
            }
            Payload::MemorySection(reader) if state.is_some() => {
                let memory = state.as_ref().map_or(0, |state| state.memory.len());
                if reader.count() != 1 {
                    return Err(RewriteError::Shape("it has more than one memory"));
                }
                let mut section = MemorySection::new();
                let minimum = (memory / WASM_PAGE) as u64;
                section.memory(MemoryType {
                    minimum,
                    maximum: None,
                    memory64: false,
                    shared: false,
                    page_size_log2: None,
                });
                out.section(&section);
            }
            // The count is only there for code that initialises memory itself; without it such code does not validate.
            Payload::DataCountSection { .. } | Payload::DataSection(_) if data.is_some() => {}
            other => {
                if let Some((id, range)) = other.as_section() {
                    out.section(&RawSection { id, data: &module[range] });
                }
            }
        }
    }
    if let Some(data) = data {
        out.section(&data);
    }
    if let Some(state) = state {
        for (name, data) in [(ROOTS_SECTION, state.roots), (DICTIONARY_SECTION, state.dictionary)] {
            out.section(&CustomSection { name: name.into(), data: data.into() });
        }
    }
    Ok(out.finish())
}

/// One segment for each run of pages that are not all zero.
fn segments(memory: &[u8]) -> DataSection {
    let mut section = DataSection::new();
    let mut start = None;
    for (index, page) in memory.chunks(PAGE).chain(std::iter::once(&[][..])).enumerate() {
        match (start, page.iter().all(|byte| *byte == 0)) {
            (None, false) => start = Some(index * PAGE),
            (Some(from), true) => {
                let until = (index * PAGE).min(memory.len());
                section.active(0, &ConstExpr::i32_const(from as i32), memory[from..until].iter().copied());
                start = None;
            }
            _ => {}
        }
    }
    section
}

/// What [`rewrite`] put into a module.
pub(crate) fn read_state(module: &[u8]) -> Result<State<'_>, RewriteError> {
    let (mut memory, mut roots, mut dictionary) = (Vec::new(), None, None);
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::MemorySection(reader) => {
                for ty in reader {
                    let pages = usize::try_from(ty?.initial).ok().filter(|pages| *pages <= 1024);
                    memory.resize(pages.ok_or(RewriteError::Shape("its memory is too large"))? * WASM_PAGE, 0);
                }
            }
            Payload::DataSection(reader) => {
                for segment in reader {
                    let segment = segment?;
                    let DataKind::Active { memory_index: 0, offset_expr } = segment.kind else {
                        return Err(RewriteError::Shape("it has passive data"));
                    };
                    let Operator::I32Const { value } = offset_expr.get_operators_reader().read()? else {
                        return Err(RewriteError::Shape("its data has no constant address"));
                    };
                    let start = value as u32 as usize;
                    memory
                        .get_mut(start..start.saturating_add(segment.data.len()))
                        .ok_or(RewriteError::Shape("its data lies outside memory"))?
                        .copy_from_slice(segment.data);
                }
            }
            Payload::CustomSection(section) => match section.name() {
                ROOTS_SECTION => roots = Some(section.data()),
                DICTIONARY_SECTION => dictionary = Some(section.data()),
                _ => {}
            },
            _ => {}
        }
    }
    match (roots, dictionary) {
        (Some(roots), Some(dictionary)) => Ok(State { memory, roots, dictionary }),
        _ => Err(RewriteError::Shape("it has no roots or no dictionary")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A section with one element, `content`.
    fn module(sections: &[(u8, &[u8])]) -> Vec<u8> {
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        for (id, content) in sections {
            module.extend_from_slice(&[*id, content.len() as u8 + 1, 1]);
            module.extend_from_slice(content);
        }
        module
    }

    #[test]
    fn modules_of_another_shape_are_refused() {
        let start = b"\0asm\x01\0\0\0\x08\x01\x00".to_vec();
        // One global, i32, constant 0, not mutable.
        let constant = module(&[(6, &[0x7f, 0, 0x41, 0, 0x0b])]);
        for (module, why) in [(start, "runs code"), (constant, "mutable globals")] {
            let error = rewrite(&module, |_| true, None).unwrap_err();
            assert!(matches!(error, RewriteError::Shape(what) if what.contains(why)), "{error}");
        }
    }

    #[test]
    fn modules_without_state_are_no_images() {
        assert!(matches!(read_state(b"\0asm\x01\0\0\0"), Err(RewriteError::Shape("it has no roots or no dictionary"))));
        // A data segment that lies outside a memory of no pages.
        let outside = module(&[(5, &[0, 0]), (11, &[0, 0x41, 0, 0x0b, 1, 7])]);
        assert!(matches!(read_state(&outside), Err(RewriteError::Shape("its data lies outside memory"))));
        let huge = module(&[(5, &[0, 0x80, 0x80, 4])]);
        assert!(matches!(read_state(&huge), Err(RewriteError::Shape("its memory is too large"))));
    }

    #[test]
    fn memory_becomes_segments_and_memory_again() {
        let mut memory = vec![0; 2 * WASM_PAGE];
        memory[5000..5100].fill(1);
        memory[2 * WASM_PAGE - 1] = 2;
        let base = module(&[(5, &[0, 1]), (6, &[0x7f, 1, 0x41, 0, 0x0b])]);
        let state = State { memory: memory.clone(), roots: b"roots", dictionary: b"dictionary" };
        let image = rewrite(&base, |_| true, Some(state)).unwrap();
        let read = read_state(&image).unwrap();
        assert!(read.memory == memory);
        assert_eq!((read.roots, read.dictionary), (&b"roots"[..], &b"dictionary"[..]));
        assert!(image.len() < 3 * PAGE);
    }
}
