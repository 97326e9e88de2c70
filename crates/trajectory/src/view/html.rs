//! A bundle as one page that needs nothing else: no server, no other file, no network.
//!
//! Texts of the bundle are escaped wherever they stand, and none stands in a script, a style or an attribute but for numbers of ours. The
//! policy of the page allows our one style and our one script, by their digests, and nothing else.

use std::io::{self, Write};

use base64::Engine;
use sha2::{Digest, Sha256};

use super::{Shown, State, Tone, Viewed};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The most marks of the time line.
const MOST_MARKS: usize = 3000;
/// Its width and height.
const WIDTH: f64 = 1000.0;
const HEIGHT: u32 = 44;

/// Writes the page of a bundle.
pub fn write_page(viewed: &Viewed, out: &mut impl Write) -> io::Result<()> {
    let manifest = viewed.manifest.clone().unwrap_or_default();
    let title = match manifest.session_key.as_deref() {
        Some(key) if !key.is_empty() => format!("Trajectory of {key}"),
        _ => "Trajectory".to_owned(),
    };
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        digest(STYLE),
        digest(SCRIPT)
    );
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"referrer\" content=\"no-referrer\">\
         <title>{}</title><style>{STYLE}</style></head><body>\n",
        escaped(&title)
    )?;
    head(viewed, &title, &manifest, out)?;
    time_line(&viewed.shown, out)?;
    write!(
        out,
        "<div class=\"tools\" role=\"search\"><input id=\"find\" type=\"search\" placeholder=\"Search\" aria-label=\"Search\">\
         <button id=\"open\" type=\"button\">Open all</button><button id=\"close\" type=\"button\">Close all</button>\
         <span id=\"count\" aria-live=\"polite\"></span></div>\n<main>\n"
    )?;
    for shown in &viewed.shown {
        event(shown, out)?;
    }
    writeln!(out, "</main><script>{SCRIPT}</script></body></html>")
}

fn digest(text: &str) -> String {
    format!("sha256-{}", base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text.as_bytes())))
}

fn head(viewed: &Viewed, title: &str, manifest: &crate::Manifest, out: &mut impl Write) -> io::Result<()> {
    let state = match viewed.state {
        State::Whole => "whole: every file is as it was written",
        State::Cut => "cut: its end is missing",
        State::Damaged => "damaged: a part of it was changed or cannot be read",
    };
    let counts = &manifest.counts;
    write!(
        out,
        "<header><h1>{}</h1><p class=\"state {}\">This bundle is {state}.</p><p class=\"meta\">session {} · {} · {} · {} · {} · \
         written {}</p>",
        escaped(title),
        viewed.state.as_str(),
        escaped(&manifest.session_id),
        counted(viewed.events, "event"),
        counted(counts.runs, "run"),
        counted(counts.nested_calls, "nested call"),
        counted(counts.approvals, "question"),
        escaped(&manifest.generated_at),
    )?;
    let remarks = viewed.findings.iter().map(|finding| &finding.text).chain(&manifest.warnings);
    let remarks: Vec<String> = remarks.take(500).map(|text| format!("<li>{}</li>", escaped(text))).collect();
    if !remarks.is_empty() {
        let open = if viewed.state == State::Whole { "" } else { " open" };
        write!(
            out,
            "<details class=\"remarks\"{open}><summary>{}</summary><ul>{}</ul></details>",
            counted(remarks.len() as u64, "remark"),
            remarks.concat()
        )?;
    }
    writeln!(out, "</header>")
}

fn counted(count: u64, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// Writes when things happened: a bar for each call, a mark for everything else.
fn time_line(all: &[Shown], out: &mut impl Write) -> io::Result<()> {
    let timed: Vec<(&Shown, i64)> = all.iter().filter_map(|shown| Some((shown, shown.at?))).collect();
    let end = |(shown, at): &(&Shown, i64)| at.saturating_add(shown.took_ms.unwrap_or(0));
    // The export itself is no part of what happened.
    let timed: Vec<(&Shown, i64)> = timed.into_iter().filter(|(shown, _)| shown.title != "end").collect();
    let (Some(first), Some(last)) = (timed.iter().map(|(_, at)| *at).min(), timed.iter().map(end).max()) else {
        return Ok(());
    };
    let span = last.saturating_sub(first).max(1) as f64;
    let step = timed.len().div_ceil(MOST_MARKS).max(1);
    write!(
        out,
        "<svg class=\"line\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Time line\">"
    )?;
    for (shown, at) in timed.iter().step_by(step) {
        let x = at.saturating_sub(first) as f64 / span * (WIDTH - 3.0);
        let width = (shown.took_ms.unwrap_or(0) as f64 / span * WIDTH).clamp(2.0, (WIDTH - x).max(2.0));
        let (y, height) = match shown.tone {
            Tone::User | Tone::Model => (2, 10),
            Tone::Call => (14, 8),
            Tone::Nested => (24, 8),
            Tone::Wait | Tone::Bad | Tone::Note => (34, 8),
        };
        write!(
            out,
            "<a href=\"#e{}\"><rect class=\"{}\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\"><title>{} {}</title></rect></a>",
            shown.seq,
            tone(shown),
            escaped(&shown.title),
            escaped(&shown.time),
        )?;
    }
    writeln!(out, "</svg>")
}

fn tone(shown: &Shown) -> &'static str {
    if shown.has_failed { Tone::Bad.as_str() } else { shown.tone.as_str() }
}

fn event(shown: &Shown, out: &mut impl Write) -> io::Result<()> {
    write!(
        out,
        "<article id=\"e{}\" class=\"e {} d{}\"><div class=\"h\"><b>{}</b>",
        shown.seq,
        tone(shown),
        shown.depth.min(6),
        escaped(&shown.title)
    )?;
    for fact in &shown.facts {
        write!(out, " <span>{}</span>", escaped(fact))?;
    }
    write!(
        out,
        "<time>{}</time><a class=\"n\" href=\"#e{}\">{}</a></div>",
        escaped(&shown.time),
        shown.seq,
        shown.seq
    )?;
    let is_said = matches!(shown.tone, Tone::User | Tone::Model);
    for (number, (name, text)) in shown.texts.iter().enumerate() {
        let lines = text.lines().count();
        if number == 0 && (is_said || name == "program" || text.len() <= 200 && lines <= 3) {
            write!(out, "<pre class=\"{}\">{}</pre>", if is_said { "said" } else { "code" }, escaped(text))?;
        } else {
            let first: String = text.lines().next().unwrap_or_default().chars().take(100).collect();
            write!(
                out,
                "<details><summary>{} <i>{}</i></summary><pre>{}</pre></details>",
                escaped(name),
                escaped(&first),
                escaped(text)
            )?;
        }
    }
    writeln!(out, "</article>")
}

/// Returns a text as it may stand in a page. Characters that turn text around or hide in it are shown by their numbers.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() || is_turning(c) => safe.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => safe.push(c),
        }
    }
    safe
}

fn is_turning(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}
