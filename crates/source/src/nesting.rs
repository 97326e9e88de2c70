//! How deep a text may nest, found by one pass over its characters before the parser sees it.
//!
//! The parser calls itself for every bracket and every prefix. A text of a megabyte can make it do so a million times, and no
//! stack is big enough for that; a parser that tries arrow functions and type arguments first and takes them back also reads
//! the inner parts again for every level. So both are bounded here: how deep a text can be, and the sum of the depths. The
//! numbers are upper bounds. Operators that are parsed by a loop, such as `+`, are not counted.
//!
//! Whether a `/` divides or begins a regular expression decides what is a string behind it. Where the characters before do not
//! tell, the parser is asked, with the text up to there: that is known not to be too deep.

use crate::Language;
use crate::prepare::on_deep_stack;
use crate::slash::{Slash, ask, is_unterminated};
use crate::words::{Word, word};

/// What the pass found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nesting {
    /// The stack of any thread will do.
    Shallow,
    /// Needs a stack of its own.
    Deep,
    /// Refused; it went too far at this byte.
    TooDeep(usize),
}

/// Up to here the caller's stack is used. A level takes at most 6 kB of it.
const SHALLOW: u32 = 64;

/// More levels than this are refused.
const DEEPEST: u32 = 2000;

/// Bounds what reading inner parts again can cost: about 100 ns and 30 bytes for each.
const GREATEST_SUM: u64 = 4_000_000;

/// How many bytes the parser is given at most to find out what a `/` means. Mostly it is not asked at all.
const MOST_ASKED: usize = 4 << 20;

/// Measures `source`.
pub(crate) fn nesting(source: &str, language: Language) -> Nesting {
    let mut scan = Scan::new(source, language);
    match scan.run() {
        Ok(()) if scan.deepest <= SHALLOW => Nesting::Shallow,
        Ok(()) => Nesting::Deep,
        Err(TooDeep) => Nesting::TooDeep(scan.at),
    }
}

struct TooDeep;

/// What stands between two brackets.
#[derive(Clone, Copy, Default)]
struct Level {
    kind: LevelKind,
    /// Prefixes that end at a comma: unary operators, `=`, `=>`, `?`, `:`.
    soft: u32,
    /// Prefixes that only end with the statement: `if (…)`, `else`, `<`.
    hard: u32,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum LevelKind {
    #[default]
    Bracket,
    /// `if (…)`, `while (…)`: a statement follows.
    Head,
    /// `${…}`: the template goes on behind it.
    Substitution,
}

/// The last token, as far as it decides what the next one means.
#[derive(Clone, Copy, PartialEq)]
enum Last {
    /// An operand may follow: a `/` begins a regular expression.
    Operator,
    /// An operand ended: a `/` divides.
    Operand,
    /// A block or an object ended.
    Brace,
    /// A dot: the next word is a name.
    Dot,
    /// `if`, `while`: the next parentheses are a head.
    HeadWord,
    /// A word that is an operator or a name, as the case may be.
    Either,
    /// `>`, which compares or ends a type.
    Angle,
    /// `;`
    Semicolon,
}

struct Scan<'a> {
    source: &'a str,
    bytes: &'a [u8],
    at: usize,
    typescript: bool,
    /// Bytes that the parser was given.
    asked: usize,
    levels: Vec<Level>,
    level: Level,
    depth: u32,
    deepest: u32,
    sum: u64,
    last: Last,
    /// Whether this is `namespace a.b.c`, where each dot nests.
    dotted: bool,
    /// Whether a line began since the last token.
    new_line: bool,
    /// Whether the statement is `break x` or the like, which no operator continues.
    jump: bool,
}

impl<'a> Scan<'a> {
    fn new(source: &'a str, language: Language) -> Self {
        Scan {
            source,
            bytes: source.as_bytes(),
            at: 0,
            typescript: language == Language::TypeScript,
            asked: 0,
            levels: Vec::new(),
            level: Level::default(),
            depth: 0,
            deepest: 0,
            sum: 0,
            last: Last::Operator,
            new_line: true,
            dotted: false,
            jump: false,
        }
    }

    fn run(&mut self) -> Result<(), TooDeep> {
        while let Some(byte) = self.bytes.get(self.at).copied() {
            match byte {
                b'\n' | b'\r' => {
                    self.new_line = true;
                    self.at += 1;
                }
                b' ' | b'\t' | 0x0b | 0x0c => self.at += 1,
                _ => self.token(byte)?,
            }
        }
        Ok(())
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn token(&mut self, byte: u8) -> Result<(), TooDeep> {
        match byte {
            b'/' if self.peek(1) == b'/' => return self.line_comment(),
            b'/' if self.peek(1) == b'*' => return self.block_comment(),
            b'<' if self.bytes[self.at..].starts_with(b"<!--") => return self.line_comment(),
            b'-' if self.new_line && self.bytes[self.at..].starts_with(b"-->") => return self.line_comment(),
            b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'$' | b'\\' | 0x80.. => return self.word(),
            _ => {}
        }
        if self.last == Last::Semicolon {
            self.end_statement();
        }
        let new_line = std::mem::take(&mut self.new_line);
        self.dotted &= byte == b'.';
        match byte {
            b'0'..=b'9' => self.number(),
            b'"' | b'\'' => self.string(byte),
            b'`' => return self.template(),
            b'/' => return self.slash(new_line),
            b'(' | b'[' | b'{' => {
                let head = byte == b'(' && self.last == Last::HeadWord;
                self.open(if head { LevelKind::Head } else { LevelKind::Bracket })?;
                self.step(1, Last::Operator);
            }
            b')' | b']' | b'}' => return self.close(byte),
            b';' => self.step(1, Last::Semicolon),
            b',' => {
                self.depth -= self.level.soft;
                self.level.soft = 0;
                self.step(1, Last::Operator);
            }
            b'.' => return self.dot(),
            b'#' | b'@' => self.step(1, Last::Dot),
            _ => return self.operator(byte, new_line),
        }
        Ok(())
    }

    fn operator(&mut self, byte: u8, new_line: bool) -> Result<(), TooDeep> {
        let next = self.peek(1);
        let postfix = match self.last {
            Last::Operand if !new_line => Last::Operand,
            Last::Brace | Last::Either | Last::Angle => Last::Either,
            _ => Last::Operator,
        };
        match (byte, next) {
            // None of these nests: they are parsed by a loop.
            (b'?', b'.') if !self.peek(2).is_ascii_digit() => self.step(2, Last::Dot),
            (b'?', b'?') | (b'=' | b'!' | b'<' | b'>', b'=') => {
                let length = 1 + self.bytes[self.at + 1..].iter().take_while(|byte| **byte == next).count();
                self.step(length, Last::Operator);
            }
            (b'>', _) if self.typescript => self.step(1, Last::Angle),
            (b'<', _) if self.typescript => {
                self.hard()?;
                self.step(1, Last::Operator);
            }
            (b'=', b'>') | (b'*', b'*') => {
                self.soft()?;
                self.step(2, Last::Operator);
            }
            (b'+' | b'-', _) if next == byte => {
                self.soft()?;
                self.step(2, postfix);
            }
            (b'!', _) if self.typescript && postfix == Last::Operand => self.step(1, postfix),
            (b'!', _) if self.typescript => {
                self.soft()?;
                self.step(1, postfix);
            }
            (b'+' | b'-', _) if self.last == Last::Operand => self.step(1, Last::Operator),
            (b'+' | b'-' | b'!' | b'~' | b'=' | b'?' | b':', _) => {
                self.soft()?;
                self.step(1, Last::Operator);
            }
            _ => self.step(1, Last::Operator),
        }
        Ok(())
    }

    fn step(&mut self, bytes: usize, last: Last) {
        self.at += bytes;
        self.last = last;
    }

    fn open(&mut self, kind: LevelKind) -> Result<(), TooDeep> {
        self.levels.push(std::mem::replace(&mut self.level, Level { kind, ..Level::default() }));
        self.deeper()
    }

    fn close(&mut self, byte: u8) -> Result<(), TooDeep> {
        let kind = self.level.kind;
        if let Some(outer) = self.levels.pop() {
            self.depth -= 1 + self.level.soft + self.level.hard;
            self.level = outer;
        }
        self.at += 1;
        match byte {
            b'}' if kind == LevelKind::Substitution => return self.template_rest(),
            b'}' => self.last = Last::Brace,
            b')' if kind == LevelKind::Head => self.last = Last::Operator,
            _ => self.last = Last::Operand,
        }
        Ok(())
    }

    fn soft(&mut self) -> Result<(), TooDeep> {
        self.level.soft += 1;
        self.deeper()
    }

    fn hard(&mut self) -> Result<(), TooDeep> {
        self.level.hard += 1;
        self.deeper()
    }

    fn deeper(&mut self) -> Result<(), TooDeep> {
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        self.sum += u64::from(self.depth);
        if self.depth > DEEPEST || self.sum > GREATEST_SUM { Err(TooDeep) } else { Ok(()) }
    }

    fn end_statement(&mut self) {
        self.depth -= self.level.soft + self.level.hard;
        self.level.soft = 0;
        self.level.hard = 0;
        self.jump = false;
    }

    fn line_comment(&mut self) -> Result<(), TooDeep> {
        let rest = &self.source[self.at..];
        self.at += rest.find(crate::position::is_line_break).unwrap_or(rest.len());
        Ok(())
    }

    fn block_comment(&mut self) -> Result<(), TooDeep> {
        let rest = &self.source[self.at + 2..];
        let length = rest.find("*/").map_or(rest.len(), |end| end + 2);
        self.new_line |= rest[..length].contains(crate::position::is_line_break);
        self.at += 2 + length;
        Ok(())
    }

    fn number(&mut self) {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        let length = self.bytes[self.at..].iter().take_while(|byte| is_part(byte)).count();
        self.step(length, Last::Operand);
    }

    fn string(&mut self, quote: u8) {
        self.at += 1;
        while let Some(byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' if self.bytes[self.at..].starts_with(b"\r\n") => self.at += 2,
                b'\\' => self.at += 1,
                b'\n' | b'\r' => break,
                byte if *byte == quote => break,
                _ => {}
            }
        }
        self.last = Last::Operand;
    }

    fn template(&mut self) -> Result<(), TooDeep> {
        self.at += 1;
        self.template_rest()
    }

    /// Up to the end of the template or into its next substitution.
    fn template_rest(&mut self) -> Result<(), TooDeep> {
        while let Some(byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'`' => break,
                b'$' if self.peek(0) == b'{' => {
                    self.step(1, Last::Operator);
                    return self.open(LevelKind::Substitution);
                }
                _ => {}
            }
        }
        self.last = Last::Operand;
        Ok(())
    }

    fn slash(&mut self, new_line: bool) -> Result<(), TooDeep> {
        let slash = match self.last {
            Last::Operator | Last::HeadWord | Last::Semicolon => Some(Slash::BeginsRegex),
            // `break x` and types end with their line, other operands go on.
            Last::Operand if new_line && (self.typescript || self.jump) => self.asked_slash(),
            Last::Operand | Last::Dot => Some(Slash::Divides),
            Last::Brace | Last::Either | Last::Angle => self.asked_slash(),
        };
        match slash {
            None => return self.uncertain(),
            Some(Slash::Divides) => {
                self.step(1, Last::Operator);
                return Ok(());
            }
            Some(Slash::BeginsRegex) => {}
        }
        self.at += 1;
        let mut in_class = false;
        while let Some(byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'\n' | b'\r' => break,
                b'[' => in_class = true,
                b']' => in_class = false,
                b'/' if !in_class => break,
                _ => {}
            }
        }
        self.last = Last::Operand;
        Ok(())
    }

    /// Asks the parser what the `/` here means, unless it was asked too often.
    fn asked_slash(&mut self) -> Option<Slash> {
        let (before, rest) = self.source.split_at(self.at);
        if is_unterminated(rest) {
            return Some(Slash::Divides);
        }
        self.asked += before.len();
        if self.asked > MOST_ASKED {
            return None;
        }
        let language = if self.typescript { Language::TypeScript } else { Language::JavaScript };
        match self.deepest <= SHALLOW {
            true => ask(before, language),
            false => on_deep_stack(|| ask(before, language)).flatten(),
        }
    }

    /// From here on it is not known what is a string, a comment or code, so everything counts and nothing is taken back.
    fn uncertain(&mut self) -> Result<(), TooDeep> {
        let rest = &self.source[self.at..];
        self.at = self.source.len();
        for text in rest.split(|c: char| !c.is_ascii_alphabetic()) {
            if !matches!(word(text), Word::Name | Word::Keyword | Word::Infix | Word::Continues) {
                self.deeper()?;
            }
        }
        for _ in rest.bytes().filter(|byte| b"([{<?=!~+-*:.".contains(byte)) {
            self.deeper()?;
        }
        Ok(())
    }

    fn dot(&mut self) -> Result<(), TooDeep> {
        if self.dotted {
            self.soft()?;
        }
        match self.peek(1) {
            b'0'..=b'9' => self.number(),
            b'.' => self.step(1, Last::Operator),
            _ if self.last == Last::Operator && self.at > 0 && self.bytes[self.at - 1] == b'.' => {
                self.step(1, Last::Operator)
            }
            _ => self.step(1, Last::Dot),
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), TooDeep> {
        let rest = &self.source[self.at..];
        let length = rest.find(|c: char| !is_word_part(c)).unwrap_or(rest.len());
        if length == 0 {
            return self.unusual(rest.chars().next().unwrap_or(' '));
        }
        let new_line = std::mem::take(&mut self.new_line);
        let after = self.last;
        self.at += length;
        self.last = Last::Operand;
        if after == Last::Dot {
            return Ok(());
        }
        self.dotted = self.typescript && matches!(&rest[..length], "namespace" | "module") || self.dotted;
        let text = &rest[..length];
        let word = word(text);
        let continues = matches!(word, Word::Continues | Word::Else | Word::Infix);
        let boundary = match after {
            Last::Semicolon => word != Word::Else,
            Last::Brace => !continues,
            Last::Operand => new_line && !continues,
            Last::Angle => new_line && matches!(word, Word::Name | Word::Keyword),
            Last::Operator | Last::HeadWord | Last::Dot | Last::Either => false,
        };
        if boundary {
            self.end_statement();
        }
        self.jump |= matches!(text, "break" | "continue" | "import" | "export");
        match word {
            Word::Name => {}
            Word::Keyword | Word::Infix => self.last = Last::Operator,
            Word::Continues => self.last = Last::Either,
            Word::Prefix => {
                self.last = Last::Operator;
                self.soft()?;
            }
            Word::EitherPrefix => {
                // `for await (…)` is a head as well.
                self.last = if after == Last::HeadWord { after } else { Last::Either };
                self.soft()?;
            }
            Word::Head => {
                self.last = Last::HeadWord;
                self.hard()?;
            }
            Word::Else => {
                self.last = if text == "while" { Last::HeadWord } else { Last::Operator };
                self.hard()?;
            }
        }
        Ok(())
    }

    /// A character above ASCII, or an escape, that is no part of a word.
    fn unusual(&mut self, c: char) -> Result<(), TooDeep> {
        self.new_line |= crate::position::is_line_break(c);
        self.at += c.len_utf8();
        Ok(())
    }
}

/// Escapes in names are taken with their braces; what is no character of a name and no space ends the parse anyway.
fn is_word_part(c: char) -> bool {
    match c {
        '_' | '$' | '\\' => true,
        c if c.is_ascii() => c.is_ascii_alphanumeric(),
        '\u{feff}' => false,
        c => !c.is_whitespace(),
    }
}
