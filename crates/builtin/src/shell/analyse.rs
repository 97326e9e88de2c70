//! What a shell command runs, if that can be told without running it.
//!
//! This reads the plain part of the shell's language: words, quotes, and commands joined by `&&`, `||`, `;`, `|`, `&` and line
//! breaks. Everything that could run something else (substitutions, here-documents, groups, keywords), or write a file, makes
//! the command opaque: then no list can match it. Erring here only means asking once more.

use super::programs::Argument;

/// A command as far as it can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Analysis {
    /// The words of each command in the chain.
    Segments(Vec<Vec<Argument>>),
    /// It cannot be told what it runs.
    Opaque(OpaqueReason),
}

/// The reason why it cannot be told what a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OpaqueReason {
    #[error("it is empty")]
    Empty,
    #[error("it has a subshell")]
    Subshell,
    #[error("it has a comment")]
    Comment,
    #[error("it writes to a file")]
    WritesFile,
    #[error("it has a case")]
    Case,
    #[error("it redirects in an unusual way")]
    UnusualRedirection,
    #[error("it has a here-document")]
    HereDocument,
    #[error("it has a process substitution")]
    ProcessSubstitution,
    #[error("it redirects to a file")]
    FileRedirection,
    #[error("a quote is not closed")]
    OpenQuote,
    #[error("it ends with a backslash")]
    TrailingBackslash,
    #[error("it has a command substitution")]
    CommandSubstitution,
    #[error("it has a control character")]
    ControlCharacter,
    #[error("it has an expansion that may do more")]
    Expansion,
    #[error("it has an unusual quote")]
    UnusualQuote,
    #[error("what it runs depends on an expansion")]
    ExpandedProgram,
    #[error("it has a keyword of the shell")]
    Keyword,
    #[error("it sets variables")]
    Assignment,
    /// The shell joins such lines before it reads them: `$`, a continuation and `(` are a substitution.
    #[error("a line is continued on the next")]
    ContinuedLine,
}

/// Words that change how the words after them are read.
const KEYWORDS: [&str; 20] = [
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function",
    "time", "coproc", "[[", "!", "{", "}",
];
/// Targets that output may go to without a question.
const HARMLESS_TARGETS: [&str; 3] = ["/dev/null", "&1", "&2"];

pub(super) fn analyse(command: &str) -> Analysis {
    match Reader::new(command).segments() {
        Ok(segments) if segments.is_empty() => Analysis::Opaque(OpaqueReason::Empty),
        Ok(segments) => Analysis::Segments(segments),
        Err(reason) => Analysis::Opaque(reason),
    }
}

/// Returns the words of a command that a shell would run just as they are: one program, nothing joined, redirected or expanded.
pub(crate) fn literal_words(command: &str) -> Option<Vec<String>> {
    let mut reader = Reader::new(command.trim_matches([' ', '\t', '\n']));
    let mut segments = reader.segments().ok()?;
    if reader.has_operators || segments.len() != 1 {
        return None;
    }
    let words = segments.pop()?;
    let is_literal = words.iter().all(|word| !word.changes);
    is_literal.then(|| words.into_iter().map(|word| word.text).collect())
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    /// Something is joined or redirected.
    has_operators: bool,
}

/// A word and whether the shell would change it.
#[derive(Default)]
struct Word {
    text: String,
    /// It has a quote, so that it is a word even if it is empty.
    quoted: bool,
    /// It has an expansion or a glob: what it becomes is not known.
    changes: bool,
}

impl Reader {
    fn new(command: &str) -> Self {
        Self { chars: command.chars().collect(), at: 0, has_operators: false }
    }

    fn segments(&mut self) -> Result<Vec<Vec<Argument>>, OpaqueReason> {
        let mut segments = Vec::new();
        let mut words: Vec<Argument> = Vec::new();
        loop {
            while self.peek().is_some_and(|c| c == ' ' || c == '\t') {
                self.at += 1;
            }
            match self.peek() {
                None => break,
                Some('\n' | ';' | '|' | '&') => {
                    self.operator()?;
                    if !words.is_empty() {
                        segments.push(std::mem::take(&mut words));
                    }
                }
                Some('>' | '<') => self.redirection()?,
                Some('(' | ')') => return Err(OpaqueReason::Subshell),
                Some('#') => return Err(OpaqueReason::Comment),
                Some(_) => {
                    let word = self.word()?;
                    let number = word.text.len() == 1 && word.text.chars().all(|c| c.is_ascii_digit()) && !word.quoted;
                    if number && matches!(self.peek(), Some('>' | '<')) {
                        self.redirection()?;
                        continue;
                    }
                    if word.text.is_empty() && !word.quoted {
                        continue;
                    }
                    if words.is_empty() {
                        first(&word)?;
                    }
                    words.push(Argument { text: word.text, changes: word.changes });
                }
            }
        }
        if !words.is_empty() {
            segments.push(words);
        }
        Ok(segments)
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn operator(&mut self) -> Result<(), OpaqueReason> {
        self.has_operators = true;
        let first = self.peek();
        self.at += 1;
        let second = self.peek();
        match (first, second) {
            (Some('&'), Some('&')) | (Some('|'), Some('|')) => self.at += 1,
            (Some('&'), Some('>')) => return Err(OpaqueReason::WritesFile),
            (Some(';'), Some(';' | '&')) => return Err(OpaqueReason::Case),
            (Some('|'), Some('&')) => return Err(OpaqueReason::UnusualRedirection),
            _ => {}
        }
        Ok(())
    }

    /// `>/dev/null`, `2>&1` and `</dev/null`; nothing else.
    fn redirection(&mut self) -> Result<(), OpaqueReason> {
        self.has_operators = true;
        let sign = self.peek();
        self.at += 1;
        match (sign, self.peek()) {
            (Some('<'), Some('<')) => return Err(OpaqueReason::HereDocument),
            (_, Some('(')) => return Err(OpaqueReason::ProcessSubstitution),
            (Some('>'), Some('>')) => self.at += 1,
            (_, Some('>' | '<' | '|')) => return Err(OpaqueReason::UnusualRedirection),
            _ => {}
        }
        let target = if self.peek() == Some('&') {
            self.at += 1;
            format!("&{}", self.word()?.text)
        } else {
            while self.peek() == Some(' ') {
                self.at += 1;
            }
            let word = self.word()?;
            if word.changes {
                return Err(OpaqueReason::FileRedirection);
            }
            word.text
        };
        if HARMLESS_TARGETS.contains(&target.as_str()) { Ok(()) } else { Err(OpaqueReason::FileRedirection) }
    }

    fn word(&mut self) -> Result<Word, OpaqueReason> {
        let mut word = Word::default();
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')' => break,
                '\'' => {
                    self.at += 1;
                    word.quoted = true;
                    loop {
                        match self.peek() {
                            None => return Err(OpaqueReason::OpenQuote),
                            Some('\'') => break,
                            Some(c) => word.text.push(c),
                        }
                        self.at += 1;
                    }
                    self.at += 1;
                }
                '"' => self.double_quoted(&mut word)?,
                '\\' => {
                    self.at += 1;
                    word.quoted = true;
                    match self.peek() {
                        None => return Err(OpaqueReason::TrailingBackslash),
                        Some('\n') => return Err(OpaqueReason::ContinuedLine),
                        Some(c) => word.text.push(c),
                    }
                    self.at += 1;
                }
                '`' => return Err(OpaqueReason::CommandSubstitution),
                '$' => self.expansion(&mut word)?,
                '\0' | '\r' => return Err(OpaqueReason::ControlCharacter),
                '*' | '?' | '[' | '{' | '~' => {
                    word.changes = true;
                    word.text.push(c);
                    self.at += 1;
                }
                c => {
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
        Ok(word)
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), OpaqueReason> {
        self.at += 1;
        word.quoted = true;
        loop {
            match self.peek() {
                None => return Err(OpaqueReason::OpenQuote),
                Some('"') => break,
                Some('`') => return Err(OpaqueReason::CommandSubstitution),
                Some('$') => {
                    self.expansion(word)?;
                    continue;
                }
                Some('\\') => {
                    self.at += 1;
                    match self.peek() {
                        None => return Err(OpaqueReason::OpenQuote),
                        Some('\n') => return Err(OpaqueReason::ContinuedLine),
                        Some(c @ ('"' | '\\' | '$' | '`')) => word.text.push(c),
                        Some(c) => word.text.extend(['\\', c]),
                    }
                }
                Some(c) => word.text.push(c),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    /// `$NAME` and `${NAME}` stand for a value; everything else behind `$` can run something.
    fn expansion(&mut self, word: &mut Word) -> Result<(), OpaqueReason> {
        self.at += 1;
        match self.peek() {
            Some('(') => Err(OpaqueReason::CommandSubstitution),
            // Some shells compute what follows, and what is computed can run something.
            Some('[') => Err(OpaqueReason::Expansion),
            Some('\'' | '"') => Err(OpaqueReason::UnusualQuote),
            Some('{') => {
                let rest: String = self.chars[self.at + 1..].iter().take_while(|c| **c != '}').collect();
                let plain = !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                if !plain {
                    return Err(OpaqueReason::Expansion);
                }
                word.changes = true;
                word.text.push('$');
                self.at += rest.len() + 2;
                Ok(())
            }
            Some(c) if c.is_ascii_alphanumeric() || "_@*#?$!-".contains(c) => {
                word.changes = true;
                word.text.push('$');
                Ok(())
            }
            _ => {
                word.text.push('$');
                Ok(())
            }
        }
    }
}

/// Checks that the first word, which is run, is plain.
fn first(word: &Word) -> Result<(), OpaqueReason> {
    if word.changes {
        return Err(OpaqueReason::ExpandedProgram);
    }
    if !word.quoted && KEYWORDS.contains(&word.text.as_str()) {
        return Err(OpaqueReason::Keyword);
    }
    let assigned = word.text.split_once('=').is_some_and(|(name, _)| {
        let name = name.trim_end_matches('+');
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    });
    if assigned { Err(OpaqueReason::Assignment) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_commands_are_read() {
        let segments = |command: &str| match analyse(command) {
            Analysis::Segments(segments) => segments
                .iter()
                .map(|words| words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join("|"))
                .collect::<Vec<_>>()
                .join(" + "),
            Analysis::Opaque(why) => format!("opaque: {why}"),
        };
        for (command, expected) in [
            ("ls -la", "ls|-la"),
            ("git add . && git commit -m 'a; b && c'", "git|add|. + git|commit|-m|a; b && c"),
            ("a | b || c ; d & e\nf", "a + b + c + d + e + f"),
            ("echo \"it's \\\"$HOME\\\"\"", "echo|it's \"$HOME\""),
            ("echo a\\ b 'c'\"d\"", "echo|a b|cd"),
            ("ls 2>&1 >/dev/null < /dev/null", "ls"),
            ("ls *.rs ${X} $1", "ls|*.rs|$|$1"),
            ("l\"s\" -l", "ls|-l"),
            ("\\2>/dev/null ls", "2|ls"),
            ("echo ''", "echo|"),
            ("echo a#b", "echo|a#b"),
        ] {
            assert_eq!(segments(command), expected, "{command}");
        }
    }

    #[test]
    fn what_could_run_something_else_is_opaque() {
        for command in [
            "",
            "   ",
            "echo $(id)",
            "echo `id`",
            "echo \"$(id)\"",
            "echo \"`id`\"",
            "cat <(id)",
            "cat <<E\nx\nE",
            "ls > out",
            "ls >> out",
            "ls &> out",
            "ls 2> err",
            "(ls)",
            "{ ls; }",
            "if true; then ls; fi",
            "for x in a; do ls; done",
            "X=1 ls",
            "PATH=. ls",
            "$CMD",
            "${CMD} x",
            "l? -a",
            "/bin/l*",
            "~/x",
            "echo ${X:-$(id)}",
            "echo $((1+1))",
            "echo $'a'",
            "echo $[a[1]]",
            "echo \"$[a[1]]\"",
            "! ls",
            "ls # x",
            "[[ a ]]",
            "echo 'open",
            "echo \"open",
            "ls \\",
            "while :; do :; done",
            "f() { ls; }",
            "{ls,-la}",
            "ls |& cat",
            "a ;; b",
            "x+=1 ls",
            "ls >| f",
            "ls > $F",
            "echo a\0b",
            "time ls",
            "function f { :; }",
            "coproc ls",
            "ls >&f",
            "echo \"$\\\n(id)\"",
            "ls \\\n#'\nid\n#'",
            "l\\\ns",
            "echo $\\\n(id)",
            "cat < /etc/passwd",
        ] {
            assert!(matches!(analyse(command), Analysis::Opaque(_)), "{command}: {:?}", analyse(command));
        }
    }

    /// Literal words must be just those words to a real shell, also to one that knows more than others.
    #[test]
    fn shells_read_literal_words_the_same() {
        use std::process::{Command, Stdio};
        const PIECES: [&str; 36] = [
            "a", "b", "-v", "=", " ", " ", "\t", "'", "'", "\"", "\"", "\\", "$", "`", "{", "}", ",", "[", "]", "*",
            "?", "~", ";", "|", "&", "<", ">", "(", ")", "#", "!", "\n", "^", "%", "a=b", "é",
        ];
        let directory = tempfile::tempdir().expect("a directory");
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |most: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % most as u64) as usize
        };
        let mut compared = 0;
        while compared < 300 {
            let length = 1 + random(9);
            let command = format!("x {}", (0..length).map(|_| PIECES[random(PIECES.len())]).collect::<String>());
            let Some(words) = literal_words(&command) else { continue };
            compared += 1;
            let expected: String = words.iter().map(|word| format!("{word}\0")).collect();
            for shell in ["sh", "bash"] {
                let script = format!("x() {{ printf '%s\\0' x \"$@\"; }}\n{command}\n");
                let run = Command::new(shell)
                    .args(["-c", &script])
                    .current_dir(directory.path())
                    .stdin(Stdio::null())
                    .output();
                let Ok(run) = run else { continue };
                assert_eq!(String::from_utf8_lossy(&run.stdout), expected, "{shell}: {command:?} {run:?}");
            }
        }
    }
}
