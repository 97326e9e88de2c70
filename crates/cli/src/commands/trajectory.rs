//! `pincer trajectory view`: a bundle on the terminal, and as one page.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use console::{StyledObject, style};
use pincer_trajectory::{Shown, State, Tone, Viewed, read, write_page};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::print::{chain, count, harmless, line, note, prepared};
use crate::refused::Refused;
use crate::usage_trajectory::{TrajectoryArguments, TrajectoryCommand};
use crate::{DONE, FAILED, WRONG_USAGE};

use super::sessions::page::Page;

/// The page in the folder of a bundle.
const PAGE: &str = "trajectory.html";

pub(crate) fn run(arguments: &TrajectoryArguments) -> u8 {
    let TrajectoryCommand::View { dir, html, no_html, full } = &arguments.command;
    let viewed = match read(dir) {
        Ok(viewed) => viewed,
        Err(error) => return Refused(WRONG_USAGE, chain(&error)).tell(),
    };
    let html = match (no_html, html) {
        (true, _) => None,
        (false, Some(file)) => Some(file.clone()),
        (false, None) => Some(dir.join(PAGE)),
    };
    if arguments.json {
        line(&document(&viewed, html.as_deref()).to_string());
    } else {
        let mut page = Page::new(*full);
        Drawing::default().all(&mut page, &viewed.shown);
        prepared(page.text());
        verdict(&viewed);
    }
    if let Some(file) = &html {
        match write(&viewed, file) {
            Ok(()) if !arguments.json => note(&format!("the page is {}", file.display())),
            Ok(()) => {}
            Err(error) => {
                let remedy = "name another place with --html FILE, or pass --no-html";
                return Refused(FAILED, format!("{} cannot be written: {error}: {remedy}", file.display())).tell();
            }
        }
    }
    if viewed.state == State::Whole { DONE } else { FAILED }
}

/// Writes the page beside its place, and puts it there when it is complete. A link in its place is replaced, not followed.
fn write(viewed: &Viewed, file: &Path) -> io::Result<()> {
    let folder = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = NamedTempFile::new_in(folder)?;
    let mut out = BufWriter::new(new.as_file_mut());
    write_page(viewed, &mut out)?;
    out.flush()?;
    drop(out);
    new.persist(file).map_err(|error| error.error)?;
    Ok(())
}

fn document(viewed: &Viewed, html: Option<&Path>) -> Value {
    let findings =
        viewed.findings.iter().map(|finding| json!({ "state": finding.state.as_str(), "text": finding.text }));
    json!({
        "state": viewed.state.as_str(),
        "findings": findings.collect::<Vec<_>>(),
        "events": viewed.events,
        "brokenLines": viewed.broken_lines,
        "shown": viewed.shown.len(),
        "html": html.map(PathBuf::from),
        "manifest": viewed.manifest,
    })
}

/// Says whether the bundle is whole, and what could be kept of it.
fn verdict(viewed: &Viewed) {
    for finding in &viewed.findings {
        note(&format!(
            "{}: {}",
            if finding.state == State::Whole { "note" } else { finding.state.as_str() },
            harmless(&finding.text)
        ));
    }
    let warnings = viewed.manifest.iter().flat_map(|manifest| &manifest.warnings);
    warnings.take(10).for_each(|warning| note(&format!("when it was written: {}", harmless(warning))));
    let events = count(usize::try_from(viewed.events).unwrap_or(usize::MAX), "event");
    note(&match viewed.state {
        State::Whole => format!("the bundle is whole: {events}"),
        state => format!("the bundle is {}: {events} could be read", state.as_str()),
    });
}

fn word(page: &Page, shown: &Shown) -> StyledObject<String> {
    let word = style(page.value(&shown.title));
    match shown.tone {
        _ if shown.has_failed => word.red(),
        Tone::User => word.green().bold(),
        Tone::Model => word.cyan().bold(),
        Tone::Call => word.yellow(),
        Tone::Nested => word.dim(),
        Tone::Wait => word.yellow().bold(),
        Tone::Bad => word.red(),
        Tone::Note => word.magenta(),
    }
}

/// The calls whose results are drawn behind the calls of their programs.
#[derive(Default)]
struct Drawing<'v>(Vec<&'v Shown>);

impl<'v> Drawing<'v> {
    fn all(mut self, page: &mut Page, all: &'v [Shown]) {
        for shown in all {
            self.results(page, shown.depth);
            head(page, shown);
            self.0.push(shown);
        }
        self.results(page, 0);
    }

    /// Draws the results of the calls that have no more calls below them.
    fn results(&mut self, page: &mut Page, depth: usize) {
        while let Some(shown) = self.0.pop_if(|shown| shown.depth >= depth) {
            shown
                .texts
                .iter()
                .filter(|(name, _)| is_result(name))
                .for_each(|(name, text)| result(page, shown, name, text));
        }
    }
}

fn is_result(name: &str) -> bool {
    name == "result" || name == "error"
}

fn result(page: &mut Page, shown: &Shown, name: &str, text: &str) {
    let mark = if name == "error" { style("failed").red() } else { style("→").green() };
    if page.is_full() && text.contains('\n') {
        page.line(shown.depth + 1, &mark, &[]);
        page.block(shown.depth + 2, text);
    } else {
        let text = page.value(text.trim_end());
        page.line(shown.depth + 1, &mark, &[&text]);
    }
}

/// Draws an event, without what came of it.
fn head(page: &mut Page, shown: &Shown) {
    let depth = shown.depth;
    let mut facts: Vec<String> = shown.facts.iter().map(|fact| page.value(fact)).collect();
    let is_call = matches!(shown.tone, Tone::Call | Tone::Nested);
    if matches!(shown.tone, Tone::User | Tone::Model) {
        page.gap();
    }
    if !is_call {
        facts.push(page.value(&shown.time));
        facts.push(format!("#{}", shown.seq));
    }
    let is_short = |name: &str| is_call && name == "arguments";
    if let Some((_, text)) = shown.texts.iter().find(|(name, _)| is_short(name)) {
        facts.push(page.value(text));
    }
    let facts: Vec<&str> = facts.iter().map(String::as_str).collect();
    let word = word(page, shown);
    page.line(depth, &word, &facts);
    for (name, text) in shown.texts.iter().filter(|(name, _)| !is_short(name) && !is_result(name)) {
        match name.as_str() {
            "program" => page.code(depth + 1, text),
            "text" | "summary" | "message" => page.block(depth + 1, text),
            // Long, and seldom what is looked for.
            "instructions" | "at their end" | "tools" | "thinking" if !page.is_full() => {}
            name => {
                let name = page.value(name);
                page.line(depth + 1, &style(name).dim(), &[]);
                page.block(depth + 2, text);
            }
        }
    }
}
