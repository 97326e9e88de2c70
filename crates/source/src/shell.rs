//! Texts that are shell commands. A model that is given a tool for programs sometimes writes `ls -la` into it, and gets a better
//! answer than a syntax error or that `la` is not defined.

use oxc_ast::ast::{Expression, FunctionBody, Statement};

/// Commands whose names hardly anybody gives to a variable. One of them is enough for a text that is JavaScript as well.
const COMMANDS: [&str; 52] = [
    "apt",
    "apt-get",
    "awk",
    "bash",
    "brew",
    "bun",
    "cargo",
    "cat",
    "cd",
    "chmod",
    "chown",
    "cp",
    "curl",
    "df",
    "docker",
    "du",
    "egrep",
    "git",
    "grep",
    "kubectl",
    "ls",
    "mkdir",
    "mv",
    "netstat",
    "npm",
    "npx",
    "pip",
    "pip3",
    "pnpm",
    "printenv",
    "ps",
    "pwd",
    "pytest",
    "python",
    "python3",
    "rg",
    "rm",
    "rmdir",
    "rsync",
    "scp",
    "sed",
    "sh",
    "ssh",
    "sudo",
    "systemctl",
    "tar",
    "uname",
    "unzip",
    "wget",
    "whoami",
    "yarn",
    "zsh",
];

/// Commands whose names are also good names for variables. They count only in texts that do not parse.
const WORDS: [&str; 30] = [
    "clear", "date", "deno", "diff", "echo", "env", "file", "find", "go", "head", "java", "jq", "kill", "less", "ln",
    "make", "man", "more", "node", "printf", "ruby", "sort", "source", "tail", "tee", "test", "touch", "tree", "wc",
    "which",
];

/// The longest part of a command that is shown.
const SHOWN: usize = 80;

/// The command, if the whole text is one that happens to parse: `ls -la` subtracts, `pwd` is a name.
pub(crate) fn parsed_command(body: &FunctionBody<'_>, source: &str) -> Option<String> {
    if !begins_with(source.trim_start(), &COMMANDS) || !body.directives.is_empty() {
        return None;
    }
    let is_plain = |statement: &Statement<'_>| match statement {
        Statement::ExpressionStatement(statement) => is_made_of_names(&statement.expression),
        Statement::EmptyStatement(_) => true,
        _ => false,
    };
    body.statements.iter().all(is_plain).then(|| shown(source))
}

/// Whether there are only names, numbers and operators, so that nothing could come of it. No variable is declared in such a
/// program, so all of its names are unknown.
fn is_made_of_names(first: &Expression<'_>) -> bool {
    let mut left = vec![first];
    while let Some(expression) = left.pop() {
        match expression {
            Expression::Identifier(_) | Expression::NumericLiteral(_) => {}
            Expression::RegExpLiteral(_) | Expression::StringLiteral(_) => {}
            Expression::UnaryExpression(operator) if !operator.operator.is_keyword() => left.push(&operator.argument),
            Expression::UpdateExpression(operator) => {
                if operator.argument.get_identifier_name().is_none() {
                    return false;
                }
            }
            Expression::BinaryExpression(operator) if !operator.operator.is_keyword() => {
                left.extend([&operator.left, &operator.right]);
            }
            Expression::LogicalExpression(operator) => left.extend([&operator.left, &operator.right]),
            _ => return false,
        }
    }
    true
}

/// The command, if a text that does not parse begins with one.
pub(crate) fn unparsed_command(source: &str) -> Option<String> {
    if let Some(interpreter) = source.trim_start().strip_prefix("#!") {
        let program = interpreter.lines().next()?.split(['/', ' ']).filter(|part| !part.is_empty());
        let is_shell =
            |name: &str| matches!(name, "sh" | "bash" | "zsh" | "dash" | "fish") || name.starts_with("python");
        return program.into_iter().any(is_shell).then(|| shown(source));
    }
    // Comments of the shell and commands without anything behind them say nothing yet.
    let mut lone = false;
    for line in source.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("# ")) {
        match judge(line) {
            Judgement::Command => return Some(shown(source)),
            Judgement::Lone => lone = true,
            Judgement::Other => return None,
        }
    }
    lone.then(|| shown(source))
}

#[derive(PartialEq)]
enum Judgement {
    Command,
    Lone,
    Other,
}

fn judge(line: &str) -> Judgement {
    let line = line.strip_prefix("$ ").map_or(line, str::trim_start);
    if ["./", "../", "~/", "/bin/", "/usr/", "/opt/"].iter().any(|path| line.starts_with(path)) {
        return Judgement::Command;
    }
    let line = without_variables(line);
    let known = begins_with(line, &COMMANDS);
    if !known && !begins_with(line, &WORDS) {
        return Judgement::Other;
    }
    let rest = line.trim_start_matches(is_name);
    let arguments = rest.trim_start();
    match arguments.chars().next() {
        None => Judgement::Lone,
        // Directly behind the name, JavaScript has a bracket, a dot or a comma.
        Some(first) if rest == arguments => match first {
            ';' | '|' | '&' | '>' | '<' if known => Judgement::Command,
            _ => Judgement::Other,
        },
        Some('|' | '&' | ';' | '<' | '>') if known => Judgement::Command,
        Some('-') => match arguments.chars().nth(1) {
            Some(next) if next.is_alphabetic() || next == '-' => Judgement::Command,
            _ => Judgement::Other,
        },
        // Two operands in a row are never JavaScript, unless the second is an operator.
        Some(first) if first.is_alphanumeric() || matches!(first, '"' | '\'' | '.' | '/' | '~' | '$' | '@' | '_') => {
            let word: String = arguments.chars().take_while(|c| is_name(*c)).collect();
            match word.as_str() {
                "in" | "instanceof" | "of" | "as" | "satisfies" => Judgement::Other,
                _ if first == '/' && !known => Judgement::Other,
                _ => Judgement::Command,
            }
        }
        _ => Judgement::Other,
    }
}

/// Skips `NAME=value ` in front of a command.
fn without_variables(line: &str) -> &str {
    let mut rest = line;
    while let Some((word, behind)) = rest.split_once(' ') {
        let is_variable = word.split_once('=').is_some_and(|(name, value)| {
            !name.is_empty()
                && !value.is_empty()
                && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        });
        if !is_variable {
            break;
        }
        rest = behind.trim_start();
    }
    rest
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

fn begins_with(text: &str, commands: &[&str]) -> bool {
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let name = text[..end].trim_end_matches('-');
    commands.binary_search(&name).is_ok()
}

/// The first line that is no comment, shortened.
fn shown(source: &str) -> String {
    let line = source.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_can_be_searched() {
        assert!(COMMANDS.is_sorted() && WORDS.is_sorted());
    }
}
