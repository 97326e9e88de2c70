//! One text parsed as what it will be: the body of an async function.

use oxc_allocator::Allocator;
use oxc_ast::Comment;
use oxc_ast::ast::{FunctionBody, Statement};
use oxc_parser::{Parser, ParserReturn};
use oxc_span::{GetSpan, SourceType};

use crate::{Diagnostic, Language};

/// What stands before the program when it is parsed. It ends the line, so that `-->` begins a comment as it does in the
/// engine's wrapper.
const PREFIX: &str = "async function _() {\n";
const SUFFIX: &str = "\n}";

/// A program in the text that the parser is given.
pub(crate) struct Wrapped {
    text: String,
}

impl Wrapped {
    pub(crate) fn new(source: &str) -> Wrapped {
        Wrapped { text: [PREFIX, source, SUFFIX].concat() }
    }

    /// The text that spans refer to.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn source(&self) -> &str {
        &self.text[PREFIX.len()..self.text.len() - SUFFIX.len()]
    }

    /// Where the program begins and ends in [`Wrapped::text`].
    pub(crate) fn range(&self) -> (u32, u32) {
        (PREFIX.len() as u32, (self.text.len() - SUFFIX.len()) as u32)
    }

    /// Where the program begins in [`Wrapped::text`].
    pub(crate) fn start(&self) -> u32 {
        self.range().0
    }

    /// From an offset of a span to one of the program; what lies beyond its end means the end.
    pub(crate) fn offset(&self, at: u32) -> usize {
        (at as usize).saturating_sub(PREFIX.len()).min(self.source().len())
    }

    pub(crate) fn diagnostic(&self, at: u32, message: impl Into<String>) -> Diagnostic {
        Diagnostic::at(self.source(), self.offset(at), message)
    }

    /// Parses. The tree can be there although the diagnostics are not empty.
    pub(crate) fn parse<'a>(&'a self, allocator: &'a Allocator, language: Language) -> Parsed<'a> {
        let source_type = match language {
            Language::JavaScript => SourceType::script(),
            Language::TypeScript => SourceType::ts().with_script(true),
        };
        Parsed { wrapped: self, result: Parser::new(allocator, &self.text, source_type).parse() }
    }

    /// Checks that a program that was made from another one is JavaScript.
    #[cfg(debug_assertions)]
    pub(crate) fn is_javascript(&self) -> Result<(), NotJavaScript> {
        let allocator = Allocator::default();
        let parsed = self.parse(&allocator, Language::JavaScript);
        match parsed.body() {
            Some(_) if parsed.result.diagnostics.is_empty() => Ok(()),
            _ => Err(NotJavaScript(parsed.result.diagnostics.first().map(|first| first.message.to_string()))),
        }
    }
}

/// The first error of a program that was made from another one.
#[cfg(debug_assertions)]
#[derive(Debug, thiserror::Error)]
#[error("{0:?}")]
pub(crate) struct NotJavaScript(Option<String>);

/// What the parser made of a program.
pub(crate) struct Parsed<'a> {
    wrapped: &'a Wrapped,
    result: ParserReturn<'a>,
}

impl<'a> Parsed<'a> {
    /// The body of the one function that there must be. `None` also if the program closes the function it stands in.
    pub(crate) fn body(&self) -> Option<&FunctionBody<'a>> {
        match self.result.program.body.as_slice() {
            [Statement::FunctionDeclaration(function)]
                if function.span.end as usize == self.wrapped.text.len() && !self.result.panicked =>
            {
                function.body.as_deref()
            }
            _ => None,
        }
    }

    /// The comments in the order of the text.
    pub(crate) fn comments(&self) -> &[Comment] {
        &self.result.program.comments
    }

    /// The first error, if there is one.
    pub(crate) fn error(&self) -> Option<Diagnostic> {
        if let Some(first) = self.result.diagnostics.errors().next() {
            return Some(self.diagnostic(&first.message, first.labels.first().map(|label| label.span().start)));
        }
        if self.body().is_some() {
            return None;
        }
        // Not one function: the program has a `}` that closes it.
        let end = self.result.program.body.first().map_or(0, |statement| statement.span().end);
        Some(self.wrapped.diagnostic(end.saturating_sub(1), "unexpected `}`"))
    }

    /// The first position that each error names, in the text that spans refer to.
    pub(crate) fn error_places(&self) -> impl Iterator<Item = u32> {
        self.result.diagnostics.errors().filter_map(|error| Some(error.labels.first()?.span().start))
    }

    /// `import.meta` is an error for the parser, but we have better words for it.
    pub(crate) fn import_meta(&self) -> Option<u32> {
        let span = self.result.diagnostics.errors().next()?.labels.first()?.span();
        let text = self.wrapped.text.get(span.start as usize..span.end as usize)?;
        (text.starts_with("import") && text.ends_with("meta")).then_some(span.start)
    }

    /// In our words, and with a position in the program.
    fn diagnostic(&self, message: &str, label: Option<u32>) -> Diagnostic {
        let message = one_line(message);
        let Some(at) = label else {
            return Diagnostic { message, position: None, excerpt: String::new() };
        };
        let message = match at >= self.wrapped.range().1 {
            // What was found there is ours.
            true if message == "unexpected token" => "unexpected end of the program".to_owned(),
            true => message.replace("found `}`", "found the end of the program"),
            false => message,
        };
        self.wrapped.diagnostic(at, message)
    }
}

/// Messages here begin with a small letter, unless the first word is a name.
fn one_line(message: &str) -> String {
    let mut line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let plain = line.chars().nth(1).is_some_and(|second| second.is_ascii_lowercase() || second == ' ');
    if let Some(first) = line.get_mut(..1).filter(|_| plain) {
        first.make_ascii_lowercase();
    }
    line
}
