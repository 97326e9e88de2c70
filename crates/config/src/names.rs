//! Checks that a schema cannot express: names of tools, patterns, lists that exclude each other.

use pincer_catalog::Selector;
use regex::Regex;

use crate::{Config, Problem};

pub(crate) fn check(config: &Config, problems: &mut Vec<Problem>) {
    let mut wrong = |error: &dyn std::fmt::Display| {
        // These messages begin with the path already.
        let text = error.to_string();
        let (path, message) = text.split_once(": ").unwrap_or(("", &text));
        problems.push(Problem::new(path, message));
    };
    for (at, rules) in config.all_rules() {
        if let Err(error) = pincer_catalog::Layer::new(at, &rules) {
            wrong(&error);
        }
    }
    for (index, hook) in config.hooks.before_tool_call.iter().enumerate() {
        let at = format!("hooks.before_tool_call[{index}]");
        selectors(&format!("{at}.matcher"), hook.matcher.names(), &mut wrong);
        if hook.command.is_empty() {
            wrong(&format!("{at}.command: there is no command to run"));
        }
    }
    for (index, rule) in config.approvals.rules.iter().enumerate() {
        selectors(&format!("approvals.rules[{index}].match"), rule.matches.names(), &mut wrong);
    }
    if !config.tools.exec.network && !config.tools.exec.confine {
        wrong(&"tools.exec.network: `false` needs `confine: true` beside it");
    }
    let globs =
        [("tools.exec.allow", &config.tools.exec.allow), ("tools.web.allowHosts", &config.tools.web.allow_hosts)];
    for (at, patterns) in globs {
        for (index, pattern) in patterns.iter().enumerate() {
            if let Some(reason) = glob_problem(pattern) {
                wrong(&format!("{at}[{index}]: `{pattern}` is not a glob: {reason}"));
            }
        }
    }
    for (index, pattern) in config.logging.redact_patterns.iter().enumerate() {
        if let Err(error) = Regex::new(pattern) {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            wrong(&format!("logging.redactPatterns[{index}]: `{pattern}` is not a regular expression: {reason}"));
        }
    }
}

/// What is wrong with a glob. Deeply nested braces would exhaust the compiler of globs.
fn glob_problem(pattern: &str) -> Option<String> {
    const MOST_BRACES: usize = 8;
    if pattern.trim().is_empty() {
        return Some("it is empty".into());
    }
    if pattern.contains(char::is_whitespace) {
        return Some("it has a space in it: name one program or host, without arguments".into());
    }
    if pattern.matches('{').count() > MOST_BRACES || pattern.len() > 1000 {
        return Some(format!("it is too long, or has more than {MOST_BRACES} braces"));
    }
    globset::Glob::new(pattern).err().map(|error| error.kind().to_string())
}

fn selectors(at: &str, names: &[String], wrong: &mut impl FnMut(&dyn std::fmt::Display)) {
    for (index, name) in names.iter().enumerate() {
        let at = if names.len() == 1 { at.to_owned() } else { format!("{at}[{index}]") };
        if let Err(error) = Selector::parse(&at, name) {
            wrong(&error);
        }
    }
}
