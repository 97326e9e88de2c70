//! What words of JavaScript and TypeScript do to the words around them.

/// The part that a word plays, as far as it can be told without parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// A name, or a keyword that stands for a value.
    Name,
    /// A keyword behind which an operand or a statement begins.
    Keyword,
    /// A keyword that belongs before an operand: `typeof`.
    Prefix,
    /// The same, but it can be a name as well: `await`.
    EitherPrefix,
    /// A keyword before a head in parentheses: `if`.
    Head,
    /// A keyword that carries a statement on: `else`, `do`, and `while`, which is also before a head.
    Else,
    /// A keyword between two operands.
    Infix,
    /// A word that carries on what stands before it, or is a name.
    Continues,
}

/// Judges a word that is not behind a dot.
pub(crate) fn word(text: &str) -> Word {
    match text {
        "if" | "for" | "with" => Word::Head,
        "else" | "do" | "while" => Word::Else,
        "typeof" | "void" | "delete" | "new" | "class" => Word::Prefix,
        "await" | "yield" | "keyof" | "infer" | "readonly" | "unique" | "asserts" | "abstract" | "of" => {
            Word::EitherPrefix
        }
        "in" | "instanceof" | "extends" => Word::Infix,
        "as" | "satisfies" | "is" | "implements" | "from" => Word::Continues,
        "catch" | "finally" => Word::Infix,
        "return" | "case" | "throw" | "default" | "break" | "continue" | "debugger" | "var" | "const" | "function"
        | "import" | "export" | "switch" | "try" | "enum" => Word::Keyword,
        _ => Word::Name,
    }
}

/// Whether a word cannot be the name of a variable everywhere, in sloppy and in strict code.
pub(crate) fn is_reserved(text: &str) -> bool {
    !matches!(word(text), Word::Name | Word::Continues)
        && !matches!(text, "keyof" | "infer" | "readonly" | "unique" | "asserts" | "abstract" | "of")
        || matches!(
            text,
            "arguments"
                | "eval"
                | "false"
                | "implements"
                | "interface"
                | "let"
                | "null"
                | "package"
                | "private"
                | "protected"
                | "public"
                | "static"
                | "super"
                | "this"
                | "true"
        )
}
