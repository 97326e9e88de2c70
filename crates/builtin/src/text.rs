//! Files as text: what is binary, how lines end, what changed.

use std::time::Duration;

use similar::TextDiff;

/// How much of a file decides whether it is text.
const LOOKED_AT: usize = 8192;
/// How much of a diff is shown.
const MOST_DIFF_CHARS: usize = 30_000;

/// How the lines of a text end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnds {
    /// With a line feed.
    Lf,
    /// With a carriage return and a line feed, all of them.
    CrLf,
}

impl LineEnds {
    pub(crate) fn of(text: &str) -> Self {
        let all = text.matches('\n').count();
        let with_return = text.matches("\r\n").count();
        if all > 0 && all == with_return { Self::CrLf } else { Self::Lf }
    }

    /// A text with line feeds, as it is stored.
    pub(crate) fn apply(self, text: &str) -> String {
        match self {
            Self::Lf => text.to_owned(),
            Self::CrLf => text.replace("\r\n", "\n").replace('\n', "\r\n"),
        }
    }

    /// The same text with line feeds only, if it had returns all through.
    pub(crate) fn plain(self, text: &str) -> String {
        match self {
            Self::Lf => text.to_owned(),
            Self::CrLf => text.replace("\r\n", "\n"),
        }
    }
}

/// What a file is, if it is not text.
pub(crate) fn binary_kind(bytes: &[u8]) -> Option<&'static str> {
    const KINDS: [(&[u8], &str); 20] = [
        (b"\x89PNG", "a PNG image"),
        (b"\xff\xd8\xff", "a JPEG image"),
        (b"GIF8", "a GIF image"),
        (b"%PDF", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive or office document"),
        (b"\x1f\x8b", "gzip data"),
        (b"\x28\xb5\x2f\xfd", "zstd data"),
        (b"BZh", "bzip2 data"),
        (b"\xfd7zXZ", "xz data"),
        (b"7z\xbc\xaf", "a 7z archive"),
        (b"\x7fELF", "a Linux program"),
        (b"\xcf\xfa\xed\xfe", "a macOS program"),
        (b"MZ", "a Windows program"),
        (b"\0asm", "a WebAssembly module"),
        (b"SQLite format 3\0", "an SQLite database"),
        (b"OggS", "Ogg audio or video"),
        (b"ID3", "MP3 audio"),
        (b"RIFF", "RIFF data (WebP, WAV or AVI)"),
        (b"\xff\xfe", "UTF-16 text"),
        (b"\xfe\xff", "UTF-16 text"),
    ];
    let head = &bytes[..bytes.len().min(LOOKED_AT)];
    let text = match std::str::from_utf8(head) {
        Ok(_) => true,
        // A character may be cut in two at the end of what is looked at.
        Err(error) => error.error_len().is_none() && head.len() == LOOKED_AT,
    };
    if text && !head.contains(&0) {
        return None;
    }
    let known = KINDS.iter().find(|(start, _)| head.starts_with(start)).map(|(_, kind)| *kind);
    Some(known.unwrap_or(if head.contains(&0) { "binary data" } else { "text that is not UTF-8" }))
}

/// What changed, as a unified diff.
pub(crate) fn diff(path: &str, before: &str, after: &str) -> String {
    // Of texts that have nothing in common, a rough diff does.
    let text = TextDiff::configure().timeout(Duration::from_millis(500)).diff_lines(before, after);
    let diff = text.unified_diff().context_radius(3).header(&format!("a/{path}"), &format!("b/{path}")).to_string();
    match diff.char_indices().nth(MOST_DIFF_CHARS) {
        Some((at, _)) => format!("{}\n… ({} more characters)\n", &diff[..at], diff.len() - at),
        None => diff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_kept() {
        assert_eq!(LineEnds::of("a\r\nb\r\n"), LineEnds::CrLf);
        assert_eq!(LineEnds::of("a\r\nb\n"), LineEnds::Lf);
        assert_eq!(LineEnds::of("a"), LineEnds::Lf);
        assert_eq!(LineEnds::CrLf.apply("a\nb\r\nc"), "a\r\nb\r\nc");
    }

    #[test]
    fn what_is_not_text_is_told() {
        assert_eq!(binary_kind("täxt".as_bytes()), None);
        assert_eq!(binary_kind(b"\x89PNG\r\n\x1a\n\0"), Some("a PNG image"));
        assert_eq!(binary_kind(b"a\0b"), Some("binary data"));
        assert_eq!(binary_kind(b"caf\xe9 au lait"), Some("text that is not UTF-8"));
        let mut cut = vec![b'a'; LOOKED_AT - 1];
        cut.extend("ä".as_bytes());
        assert_eq!(binary_kind(&cut), None);
    }
}
