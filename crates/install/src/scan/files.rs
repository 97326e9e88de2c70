//! Findings about files as a whole: their kinds, and files that cannot be looked at.

use crate::digest::TreeFile;
use crate::scan::MOST_TEXT_BYTES;
use crate::scan::findings::{Finding, Findings, Severity};

/// The beginnings of programs for a machine.
const PROGRAMS: [(&[u8], &str); 10] = [
    (b"\x7fELF", "a program for Linux (ELF)"),
    (b"MZ", "a program for Windows (PE)"),
    (b"\xfe\xed\xfa\xce", "a program for macOS (Mach-O)"),
    (b"\xfe\xed\xfa\xcf", "a program for macOS (Mach-O)"),
    (b"\xce\xfa\xed\xfe", "a program for macOS (Mach-O)"),
    (b"\xcf\xfa\xed\xfe", "a program for macOS (Mach-O)"),
    (b"\xca\xfe\xba\xbe", "a program for macOS or Java (Mach-O, class file)"),
    (b"\0asm", "a WebAssembly module"),
    (b"!<arch>\n", "a library of compiled code"),
    (b"\xa7\x0d\x0d\x0a", "compiled Python"),
];
/// Files with things packed in them that nothing here looks at.
const PACKED: [(&[u8], &str); 6] = [
    (b"PK\x03\x04", "an archive (zip)"),
    (b"\x1f\x8b", "compressed (gzip)"),
    (b"BZh", "compressed (bzip2)"),
    (b"\xfd7zXZ\0", "compressed (xz)"),
    (b"\x28\xb5\x2f\xfd", "compressed (zstd)"),
    (b"7z\xbc\xaf\x27\x1c", "an archive (7z)"),
];
/// Files that look as they do in any project.
const USUAL_HIDDEN: [&str; 6] =
    [".gitignore", ".gitattributes", ".editorconfig", ".prettierrc", ".dockerignore", ".gitkeep"];

/// Looks at a file, of which `bytes` are the beginning. Returns its text, if it is one.
pub(super) fn look_at<'b>(path: &str, file: &TreeFile, bytes: &'b [u8], findings: &mut Findings) -> Option<&'b str> {
    let mut add = |severity, rule, message: &str| findings.add(Finding::new(severity, rule, message).at(path, None));
    let hidden = path.split('/').find(|part| part.starts_with('.'));
    if let Some(name) = hidden.filter(|name| !USUAL_HIDDEN.contains(name)) {
        add(Severity::Warning, "hidden-file", &format!("`{name}` is not shown by file managers and `ls`"));
    }
    let kind = |table: &[(&[u8], &'static str)]| {
        table.iter().find(|(beginning, _)| bytes.starts_with(beginning)).map(|(_, kind)| *kind)
    };
    if let Some(kind) = kind(&PROGRAMS) {
        let message = format!("it is {kind}: nothing here can tell what it does");
        add(Severity::Warning, "compiled-program", &message);
        return None;
    }
    if let Some(kind) = kind(&PACKED) {
        add(Severity::Warning, "packed-file", &format!("it is {kind}: nothing here looks into it"));
        return None;
    }
    let ends_late = file.bytes > MOST_TEXT_BYTES;
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // The last character of what was read may be cut in two.
        Err(error) if ends_late && bytes.len() - error.valid_up_to() < 4 => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    let text = text.filter(|text| !text.contains('\0'));
    match text {
        None if file.executable => {
            add(Severity::Warning, "unreadable-program", "it may be started, and is no text that could be looked at");
        }
        None => add(Severity::Info, "no-text", "it is no text, so nothing here has looked at it"),
        Some(_) if ends_late => {
            let message = format!("only its first {} MiB were looked at", MOST_TEXT_BYTES >> 20);
            add(Severity::Warning, "long-text", &message);
        }
        Some(_) => {}
    }
    text
}
