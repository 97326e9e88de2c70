//! Which servers a program talks about. Only to decide what to wait for: nothing is parsed, and a wrong guess costs time.

use pincer_catalog::names::camel_names;

/// What a program talks about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mention<'n> {
    /// No server.
    None,
    /// These.
    Some(Vec<&'n str>),
    /// All of them, or one that cannot be told.
    All,
}

/// Names of servers in a program: `MCP.name`, `MCP["name"]`, `"mcp/name.d.ts"`.
pub(crate) fn mentioned<'n>(code: &str, servers: &[&'n str]) -> Mention<'n> {
    let guest_names = camel_names(servers, &["$api"]);
    let by = |said: &str, names: &[String]| names.iter().position(|name| name == said).map(|index| servers[index]);
    let files: Vec<String> = servers.iter().map(|name| (*name).to_owned()).collect();
    let mut found = Vec::new();
    for (global, rest) in words(code).filter(|(word, _)| matches!(*word, "MCP" | "API")) {
        let named = match global {
            "MCP" => member(rest).and_then(|said| by(said, &guest_names)),
            _ => file(rest).and_then(|said| by(said, &guest_names).or_else(|| by(said, &files))),
        };
        match named {
            Some(name) => found.push(name),
            None => return Mention::All,
        }
    }
    if found.is_empty() { Mention::None } else { Mention::Some(found) }
}

/// The words of a text, each with what follows it.
fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = &rest[rest.find(is_word)?..];
        let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        Some((word, behind))
    })
}

/// `.name`, `?.name`, `["name"]` at the beginning.
fn member(rest: &str) -> Option<&str> {
    let rest = rest.trim_start();
    if let Some(index) = rest.strip_prefix("?.").unwrap_or(rest).strip_prefix('[') {
        return quoted(index);
    }
    let name = rest.strip_prefix("?.").or_else(|| rest.strip_prefix('.'))?.trim_start();
    words(name).next().map(|(word, _)| word).filter(|word| name.starts_with(word))
}

/// The server in `.read("mcp/name.d.ts")` at the beginning.
fn file(rest: &str) -> Option<&str> {
    let argument =
        rest.trim_start().strip_prefix('.')?.trim_start().strip_prefix("read")?.trim_start().strip_prefix('(')?;
    let name = quoted(argument)?.strip_prefix("mcp/")?.strip_suffix(".d.ts")?;
    (name != "index").then_some(name)
}

fn quoted(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    let inner = &text[1..];
    inner.find(quote).map(|end| &inner[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_found_by_what_programs_call_them() {
        let servers = ["chrome-devtools", "github", "time"];
        for (code, expected) in [
            ("return 1", Mention::None),
            ("tools.read({ path: 'MCP.md' })", Mention::All),
            ("await MCP.time.now({})", Mention::Some(vec!["time"])),
            ("MCP.chromeDevtools.click(); MCP ?.github.x()", Mention::Some(vec!["chrome-devtools", "github"])),
            ("MCP['github'].x()", Mention::Some(vec!["github"])),
            ("MCP[name].x()", Mention::All),
            ("const { time } = MCP", Mention::All),
            ("MCP.$api()", Mention::All),
            ("API.list('mcp')", Mention::All),
            ("API.read('mcp/github.d.ts')", Mention::Some(vec!["github"])),
            ("API.read(\"mcp/index.d.ts\")", Mention::All),
            ("MCP.unknown.x()", Mention::All),
            ("const MCPS = 1, xAPI = 2", Mention::None),
        ] {
            assert_eq!(mentioned(code, &servers), expected, "{code}");
        }
    }
}
