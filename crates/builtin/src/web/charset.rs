//! Text in whatever encoding it says it has.

use encoding_rs::{Encoding, UTF_8};

/// Text in the encoding that its type names, or that it names itself near its beginning; otherwise UTF-8.
pub(super) fn decode(bytes: &[u8], content_type: &str) -> String {
    let label = parameter(content_type, "charset").or_else(|| declared(bytes));
    let encoding = label.and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(UTF_8);
    encoding.decode(bytes).0.into_owned()
}

fn parameter(content_type: &str, name: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|part| {
        let (key, value) = part.split_once('=')?;
        key.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"').to_owned())
    })
}

/// `<meta charset=…>`.
fn declared(bytes: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(2048)]).to_ascii_lowercase();
    let (_, rest) = head.split_once("charset=")?;
    let rest = rest.trim_start_matches(['"', '\'']);
    let label: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).collect();
    (!label.is_empty()).then_some(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_understood() {
        assert_eq!(decode(b"caf\xe9", "text/html; charset=ISO-8859-1"), "café");
        let declared = decode(b"<meta charset=\"windows-1252\">caf\xe9", "text/html");
        assert_eq!(declared, "<meta charset=\"windows-1252\">café");
        assert_eq!(decode("café".as_bytes(), "text/plain"), "café");
        assert_eq!(decode(b"\xff", "text/plain; charset=nonsense"), "\u{fffd}");
    }
}
