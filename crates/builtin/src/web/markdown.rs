//! Markdown, written as elements open and close.

/// No page is this long.
const MOST_BYTES: usize = 16 << 20;
/// How deep lists and quotes are shown.
const MOST_DEPTH: usize = 8;

/// A text that is being written.
#[derive(Default)]
pub(super) struct Markdown {
    out: String,
    /// Line breaks that are due before the next text.
    due: usize,
    /// A space that is due, if it does not begin a line.
    space: bool,
    /// Open lists: the number of the next item of an ordered one.
    lists: Vec<Option<u32>>,
    quotes: usize,
    preformatted: bool,
    /// The open link: where its text begins, and where it leads.
    link: Option<(usize, Option<String>)>,
    /// Markers of open emphasis that nothing has followed yet.
    marks: String,
    /// The cells of this row so far, and whether it is the first of its table.
    cells: usize,
    first_row: bool,
    in_row: bool,
}

impl Markdown {
    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.out.len() > MOST_BYTES
    }

    pub(super) fn finished(mut self) -> String {
        self.close_link();
        self.end_row();
        if self.preformatted {
            self.out.push_str("\n```");
        }
        self.out
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.preformatted {
            let prefix = format!("\n{}", self.prefix());
            self.begin();
            self.out.push_str(&text.replace('\n', &prefix));
            return;
        }
        if text.starts_with(|c: char| c.is_whitespace()) {
            self.space = true;
        }
        for (index, word) in text.split_whitespace().enumerate() {
            self.space |= index > 0;
            self.begin();
            self.out.push_str(word);
        }
        if !text.trim().is_empty() && text.ends_with(|c: char| c.is_whitespace()) {
            self.space = true;
        }
    }

    /// Puts in place what is due before a word.
    fn begin(&mut self) {
        if self.due > 0 {
            if !self.out.is_empty() {
                let prefix = self.prefix();
                for index in 0..self.due {
                    let last = index + 1 == self.due;
                    self.out.push('\n');
                    self.out.push_str(if last { &prefix } else { prefix.trim_end() });
                }
            } else {
                let prefix = self.prefix();
                self.out.push_str(&prefix);
            }
            self.due = 0;
        } else if self.space && !self.out.is_empty() && !self.out.ends_with([' ', '\n', '[']) {
            self.out.push(' ');
        } else if self.out.is_empty() {
            let prefix = self.prefix();
            self.out.push_str(&prefix);
        }
        self.space = false;
        let marks = std::mem::take(&mut self.marks);
        self.out.push_str(&marks);
    }

    /// What a line begins with.
    fn prefix(&self) -> String {
        "> ".repeat(self.quotes.min(MOST_DEPTH))
    }

    fn block(&mut self, breaks: usize) {
        // Within a cell there is one line only.
        if self.in_row {
            self.space = true;
            return;
        }
        self.due = self.due.max(breaks);
        self.space = false;
    }

    pub(super) fn open(&mut self, name: &str) {
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.block(2);
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.mark(&format!("{} ", "#".repeat(level)));
            }
            "br" if self.preformatted => self.out.push('\n'),
            "br" => self.block(1),
            "hr" => {
                self.block(2);
                self.begin();
                self.out.push_str("---");
                self.block(2);
            }
            "b" | "strong" => self.mark("**"),
            "i" | "em" => self.mark("*"),
            "code" | "kbd" | "samp" if !self.preformatted => self.mark("`"),
            "pre" if !self.preformatted => {
                self.block(2);
                self.begin();
                self.out.push_str("```\n");
                let prefix = self.prefix();
                self.out.push_str(&prefix);
                self.preformatted = true;
            }
            "blockquote" => {
                self.block(2);
                self.quotes += 1;
            }
            "ul" | "menu" => self.list(None),
            "ol" => self.list(Some(1)),
            "li" => self.item(),
            "table" => {
                self.block(2);
                self.first_row = true;
            }
            "tr" => self.row(),
            "td" | "th" => self.cell(),
            "dt" | "dd" | "option" => self.block(1),
            name if is_block(name) => self.block(2),
            _ => {}
        }
    }

    pub(super) fn close(&mut self, name: &str) {
        match name {
            "b" | "strong" => self.unmark("**"),
            "i" | "em" => self.unmark("*"),
            "code" | "kbd" | "samp" if !self.preformatted => self.unmark("`"),
            "pre" if self.preformatted => {
                self.preformatted = false;
                let prefix = self.prefix();
                let end = if self.out.ends_with('\n') { String::new() } else { format!("\n{prefix}") };
                self.out.push_str(&format!("{end}```"));
                self.block(2);
            }
            "blockquote" => {
                self.quotes = self.quotes.saturating_sub(1);
                self.block(2);
            }
            "ul" | "ol" | "menu" => {
                self.lists.pop();
                self.block(if self.lists.is_empty() { 2 } else { 1 });
            }
            "table" => {
                self.end_row();
                self.block(2);
            }
            "tr" => self.end_row(),
            "li" | "td" | "th" => {}
            "dt" | "dd" => self.block(1),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.marks.clear();
                self.block(2);
            }
            name if is_block(name) => self.block(2),
            _ => {}
        }
    }

    /// A marker that is written with the first word behind it, and not at all if there is none.
    fn mark(&mut self, mark: &str) {
        if self.marks.len() < 64 {
            self.marks.push_str(mark);
        }
    }

    fn unmark(&mut self, mark: &str) {
        match self.marks.strip_suffix(mark) {
            Some(rest) => self.marks.truncate(rest.len()),
            None => self.out.push_str(mark),
        }
    }

    pub(super) fn open_link(&mut self, target: Option<String>) {
        self.close_link();
        self.link = Some((self.out.len(), target));
        if self.link.as_ref().is_some_and(|(_, target)| target.is_some()) {
            self.mark("[");
        }
    }

    pub(super) fn close_link(&mut self) {
        let Some((_, Some(target))) = self.link.take() else { return };
        if self.marks.ends_with('[') {
            self.marks.pop();
            return;
        }
        self.out.push_str(&format!("]({target})"));
    }

    pub(super) fn image(&mut self, alt: &str, source: &str) {
        self.begin();
        let alt = alt.split_whitespace().collect::<Vec<_>>().join(" ");
        self.out.push_str(&format!("![{alt}]({source})"));
    }

    fn list(&mut self, number: Option<u32>) {
        self.block(if self.lists.is_empty() { 2 } else { 1 });
        if self.lists.len() < 1000 {
            self.lists.push(number);
        }
    }

    fn item(&mut self) {
        self.block(1);
        let indent = "  ".repeat(self.lists.len().saturating_sub(1).min(MOST_DEPTH));
        let bullet = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{indent}{}. ", *number - 1)
            }
            _ => format!("{indent}- "),
        };
        self.marks.clear();
        self.mark(&bullet);
    }

    fn row(&mut self) {
        self.end_row();
        self.block(1);
        self.in_row = true;
        self.cells = 0;
    }

    fn cell(&mut self) {
        if !self.in_row {
            self.row();
        }
        if self.cells == 0 {
            self.in_row = false;
            self.begin();
            self.in_row = true;
            self.out.push('|');
        } else {
            self.out.push_str(" |");
        }
        self.cells += 1;
        self.space = true;
    }

    fn end_row(&mut self) {
        if !std::mem::take(&mut self.in_row) || self.cells == 0 {
            return;
        }
        self.out.push_str(" |");
        if std::mem::take(&mut self.first_row) {
            let line = format!("\n{}|{}", self.prefix(), "---|".repeat(self.cells.min(200)));
            self.out.push_str(&line);
        }
        self.cells = 0;
        self.space = false;
    }
}

fn is_block(name: &str) -> bool {
    const BLOCKS: [&str; 18] = [
        "address",
        "article",
        "body",
        "center",
        "details",
        "div",
        "dl",
        "fieldset",
        "figcaption",
        "figure",
        "form",
        "header",
        "html",
        "main",
        "p",
        "section",
        "summary",
        "caption",
    ];
    BLOCKS.contains(&name)
}
