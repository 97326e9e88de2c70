//! What came over the web, made readable.

use std::collections::HashMap;

use dom_query::{Document, NodeId};
use dom_smoothie::{Config, Readability, TextMode};
use encoding_rs::{Encoding, UTF_8};

/// A page that nests deeper is not parsed: some of what is done with it takes a stack as deep, or the square of the time.
const MOST_DEPTH: usize = 256;
/// How many elements a page may come to.
const MOST_ELEMENTS: usize = 300_000;
/// What an article must have to be taken for the whole page.
const LEAST_ARTICLE_CHARS: usize = 200;

/// A page as text.
pub(super) struct Readable {
    pub title: Option<String>,
    pub markdown: String,
}

/// Text in whatever encoding it says it has.
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

/// `<meta charset=…>` near the beginning.
fn declared(bytes: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(2048)]).to_ascii_lowercase();
    let (_, rest) = head.split_once("charset=")?;
    let label: String = rest
        .trim_start_matches(['"', '\''])
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || "-_".contains(*c))
        .collect();
    (!label.is_empty()).then_some(label)
}

/// HTML as Markdown: the article if there is one, else all of it.
pub(super) fn readable(html: &str, url: &str) -> Readable {
    if !is_tame(html) {
        return Readable { title: None, markdown: without_tags(html) };
    }
    let document = Document::from(html);
    let title = document.select("title").text().trim().to_owned();
    let title = (!title.is_empty()).then_some(title);
    if depth(&document) > MOST_DEPTH {
        return Readable { title, markdown: without_tags(html) };
    }
    let config = Config { text_mode: TextMode::Markdown, ..Config::default() };
    let article =
        Readability::with_document(document.clone(), Some(url), Some(config)).and_then(|mut page| page.parse());
    if let Ok(article) = article {
        let text = article.text_content.trim();
        if text.chars().count() >= LEAST_ARTICLE_CHARS {
            return Readable {
                title: Some(article.title).filter(|title| !title.is_empty()).or(title),
                markdown: text.to_owned(),
            };
        }
    }
    document.select("script, style, noscript, template, svg, iframe, head").remove();
    Readable { title, markdown: document.md(None).trim().to_owned() }
}

/// Elements without an end, or whose end is usually left out.
const UNCLOSED: [&str; 28] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
    "!doctype", "p", "li", "dt", "dd", "tr", "td", "th", "option", "thead", "tbody", "tfoot", "colgroup", "rp",
];
/// Elements that the parser opens again in every block until they are closed.
const FORMATTING: [&str; 14] =
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];

/// Whether a page can be parsed without harm. A few kilobytes can stand for millions of elements, or for a very deep tree.
fn is_tame(html: &str) -> bool {
    let (mut depth, mut formatting, mut elements) = (0_usize, 0_usize, 0_usize);
    for piece in html.split('<').skip(1) {
        let (closes, rest) = piece.strip_prefix('/').map_or((false, piece), |rest| (true, rest));
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '!').unwrap_or(rest.len());
        let name = rest[..end].to_ascii_lowercase();
        if name.is_empty() || UNCLOSED.contains(&name.as_str()) {
            elements += 1 + formatting;
        } else if closes {
            depth = depth.saturating_sub(1);
            formatting = formatting.saturating_sub(usize::from(FORMATTING.contains(&name.as_str())));
        } else {
            depth += 1;
            elements += 1 + formatting;
            formatting += usize::from(FORMATTING.contains(&name.as_str()));
        }
        if depth > MOST_DEPTH || elements > MOST_ELEMENTS {
            return false;
        }
    }
    true
}

/// How deep elements nest.
fn depth(document: &Document) -> usize {
    let mut depths: HashMap<NodeId, usize> = HashMap::new();
    let mut most = 0;
    for node in document.root().descendants_it() {
        let above = node.parent().and_then(|parent| depths.get(&parent.id).copied()).unwrap_or_default();
        most = most.max(above + 1);
        depths.insert(node.id, above + 1);
    }
    most
}

/// The text between the tags.
fn without_tags(html: &str) -> String {
    let mut text = String::new();
    for piece in html.split('<') {
        let between = piece.split_once('>').map_or("", |(_, between)| between);
        if !between.trim().is_empty() {
            text.push_str(between.trim());
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_become_markdown() {
        let html = "<html><head><title>T</title><script>bad()</script></head><body><nav><a href=/x>menu</a></nav><h1>Head</h1>\
                    <p>A <b>bold</b> <a href='/there'>link</a>.</p><ul><li>one</li></ul></body></html>";
        let Readable { title, markdown } = readable(html, "https://example.com/a/");
        assert_eq!(title.as_deref(), Some("T"));
        assert!(
            markdown.contains("# Head") && markdown.contains("**bold**") && markdown.contains("[link]"),
            "{markdown}"
        );
        assert!(!markdown.contains("bad()"), "{markdown}");
    }

    #[test]
    fn an_article_is_found_in_its_page() {
        let prose = "This is a sentence of the article, which has something to say. ".repeat(20);
        let html = format!(
            "<title>News</title><body><div class=sidebar><a href=/ad>Buy now</a></div><article><h2>Part</h2><p>{prose}</p><p>{prose}</p></article></body>"
        );
        let Readable { markdown, .. } = readable(&html, "https://example.com/");
        assert!(markdown.contains("something to say") && !markdown.contains("Buy now"), "{markdown}");
    }

    #[test]
    fn a_page_that_nests_without_end_is_read_all_the_same() {
        for tag in ["div", "b", "blockquote", "ul><li", "table><tr><td", "b id=1><p"] {
            for count in [200, 60_000] {
                let html = format!("{}deep{}", format!("<{tag}>").repeat(count), "</x>".repeat(1000));
                assert!(readable(&html, "https://example.com/").markdown.contains("deep"), "{tag}");
            }
        }
    }

    #[test]
    fn encodings_are_understood() {
        assert_eq!(decode(b"caf\xe9", "text/html; charset=ISO-8859-1"), "café");
        assert_eq!(
            decode(b"<meta charset=\"windows-1252\">caf\xe9", "text/html"),
            "<meta charset=\"windows-1252\">café"
        );
        assert_eq!(decode("café".as_bytes(), "text/plain"), "café");
        assert_eq!(decode(b"\xff", "text/plain; charset=nonsense"), "\u{fffd}");
    }
}
