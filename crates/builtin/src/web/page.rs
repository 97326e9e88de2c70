//! What came over the web, made readable: HTML to Markdown in one pass over its tokens.
//!
//! No tree is built. A few kilobytes of HTML can stand for millions of elements, or for a tree so deep that walking it takes the
//! square of the time or all of the stack; a pass over the tokens takes as long as the page is long, whatever it means to be.

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use reqwest::Url;

use super::markdown::Markdown;

/// What an article must have to be taken for the whole page.
const LEAST_ARTICLE_CHARS: usize = 200;
/// Elements of which nothing is shown.
const LEFT_OUT: [&str; 16] = [
    "script", "style", "noscript", "template", "svg", "iframe", "nav", "footer", "aside", "select", "button",
    "textarea", "object", "canvas", "dialog", "math",
];
/// Elements that hold what a page is about.
const CONTENT: [&str; 2] = ["article", "main"];

/// A page as text.
pub(super) struct Readable {
    pub title: Option<String>,
    pub markdown: String,
}

/// HTML as Markdown: the article if there is one, else all of it.
pub(super) fn readable(html: &str, url: &str) -> Readable {
    let mut page = Page { base: Url::parse(url).ok(), ..Page::default() };
    let mut emitter = DefaultEmitter::<()>::default();
    // Scripts and styles are one text each, whatever stands in them.
    emitter.naively_switch_states(true);
    for Ok(token) in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Token::StartTag(tag) => page.start(&tag),
            Token::EndTag(tag) => page.end(&String::from_utf8_lossy(&tag.name)),
            Token::String(text) => page.text(&String::from_utf8_lossy(&text.value)),
            _ => {}
        }
        if page.markdown.is_full() {
            break;
        }
    }
    page.done()
}

#[derive(Default)]
struct Page {
    base: Option<Url>,
    title: String,
    in_title: bool,
    /// The element that is being left out, and how often it is open.
    left_out: Option<(String, usize)>,
    markdown: Markdown,
    /// Where open content elements began.
    begun: Vec<usize>,
    /// The longest content element so far: from where to where.
    content: (usize, usize),
}

impl Page {
    fn start(&mut self, tag: &StartTag<()>) {
        let name = String::from_utf8_lossy(&tag.name).into_owned();
        if let Some((left_out, depth)) = &mut self.left_out {
            *depth += usize::from(*left_out == name && !tag.self_closing);
            return;
        }
        if LEFT_OUT.contains(&name.as_str()) {
            self.left_out = (!tag.self_closing).then_some((name, 1));
            return;
        }
        if CONTENT.contains(&name.as_str()) && self.begun.len() < 64 {
            self.begun.push(self.markdown.len());
        }
        self.in_title = name == "title" && self.title.is_empty();
        let attribute = |wanted: &str| {
            let value = tag.attributes.get(wanted.as_bytes())?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        match name.as_str() {
            "a" => {
                let target = attribute("href").and_then(|href| self.address(&href));
                self.markdown.open_link(target);
            }
            "img" => {
                let (alt, source) = (attribute("alt").unwrap_or_default(), attribute("src"));
                if let Some(source) = source.filter(|_| !alt.trim().is_empty()).and_then(|source| self.address(&source))
                {
                    self.markdown.image(&alt, &source);
                }
            }
            name => self.markdown.open(name),
        }
    }

    fn end(&mut self, name: &str) {
        if let Some((left_out, depth)) = &mut self.left_out {
            *depth -= usize::from(left_out == name);
            if *depth == 0 {
                self.left_out = None;
            }
            return;
        }
        self.in_title = false;
        if CONTENT.contains(&name)
            && let Some(begun) = self.begun.pop()
        {
            let (from, to) = self.content;
            if self.markdown.len() - begun > to - from {
                self.content = (begun, self.markdown.len());
            }
        }
        match name {
            "a" => self.markdown.close_link(),
            name => self.markdown.close(name),
        }
    }

    fn text(&mut self, text: &str) {
        if self.left_out.is_some() {
            return;
        }
        if self.in_title {
            self.title.push_str(text);
            return;
        }
        self.markdown.text(text);
    }

    /// Where a link leads; nothing for those that lead nowhere, or run something.
    fn address(&self, link: &str) -> Option<String> {
        let url = match &self.base {
            Some(base) => base.join(link).ok()?,
            None => Url::parse(link).ok()?,
        };
        matches!(url.scheme(), "http" | "https" | "mailto").then(|| url.to_string())
    }

    fn done(self) -> Readable {
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let all = self.markdown.finished();
        let content = all.get(self.content.0..self.content.1.min(all.len())).unwrap_or_default().trim();
        let markdown = if content.chars().count() >= LEAST_ARTICLE_CHARS { content } else { all.trim() };
        Readable { title: (!title.is_empty()).then_some(title), markdown: markdown.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn markdown(html: &str) -> String {
        readable(html, "https://example.com/a/").markdown
    }

    #[test]
    fn pages_become_markdown() {
        for (html, expected) in [
            (
                "<h1>Head</h1><p>A <b>bold</b> and <em>soft</em> <a href='/there'>link</a>.",
                "# Head\n\nA **bold** and *soft* [link](https://example.com/there).",
            ),
            ("<ul><li>one<li>two<ol><li>deep</ol></ul>after", "- one\n- two\n  1. deep\n\nafter"),
            ("<p>a\n  b</p>\n<p>c", "a b\n\nc"),
            ("a<br>b<hr>c", "a\nb\n\n---\n\nc"),
            ("<pre><code>x  =\n 1</code></pre>", "```\nx  =\n 1\n```"),
            ("use <code>a b</code>", "use `a b`"),
            ("<blockquote><p>said<p>more</blockquote>", "> said\n>\n> more"),
            ("<table><tr><th>A<th>B<tr><td>1<td>2</table>", "| A | B |\n|---|---|\n| 1 | 2 |"),
            ("<script>if (a < b) { '</p>' }</script><style>p{}</style>text", "text"),
            ("&lt;b&gt; &amp; &eacute;", "<b> & é"),
            (
                "<a href='javascript:x()'>run</a> <img src=x.png alt=pic><img src=y.png>",
                "run ![pic](https://example.com/a/x.png)",
            ),
            ("<nav><a href=/x>menu</a></nav>text<footer>foot</footer>", "text"),
            ("<b></b><a href=/x></a>empty", "empty"),
        ] {
            assert_eq!(markdown(html), expected, "{html}");
        }
        let page = readable("<title> A  title </title><svg><title>no</title></svg>x", "https://example.com/");
        assert_eq!(page.title.as_deref(), Some("A title"));
    }

    #[test]
    fn an_article_is_found_in_its_page() {
        let prose = "This is a sentence of the article, which has something to say. ".repeat(20);
        let html = format!(
            "<body><div class=ad><a href=/ad>Buy now</a></div><main><h2>Part</h2><p>{prose}</p></main>Buy more</body>"
        );
        let text = markdown(&html);
        assert!(text.starts_with("## Part") && text.contains("something to say") && !text.contains("Buy"), "{text}");
        assert_eq!(markdown("<article>short</article><p>the rest"), "short\n\nthe rest");
    }

    /// Pages that make a parser build millions of elements, or walk them again and again.
    #[test]
    fn a_page_takes_as_long_as_it_is_long() {
        let numbered = |count: usize, tag: fn(usize) -> String| (0..count).map(tag).collect::<String>();
        for html in [
            "<div>".repeat(400_000) + "deep",
            "<b>".repeat(400_000) + "deep",
            "<blockquote>".repeat(200_000) + "deep",
            "<ul><li>".repeat(200_000) + "deep",
            "<table><tr><td>".repeat(100_000) + "deep",
            numbered(50_000, |n| format!("<b id={n}></i>")) + &"<p>x".repeat(200_000) + "deep",
            "<rp>".repeat(300_000) + "deep",
            "<div></x>".repeat(200_000) + "deep",
            format!("<p {}>deep", numbered(100_000, |n| format!("a{n}=1 "))),
            "x &amp; y ".repeat(200_000) + "deep",
            "&".repeat(2_000_000) + "deep",
            format!("<title>{}</title>{}deep", "t ".repeat(100_000), "<h1>t</h1>".repeat(100_000)),
            "<a href=/x>".repeat(200_000) + "deep",
            "<article>".repeat(200_000) + "deep",
            "<".repeat(2_000_000) + ">deep",
        ] {
            let text = markdown(&html);
            assert!(text.contains("deep"), "{}", &html[..40]);
        }
    }
}
