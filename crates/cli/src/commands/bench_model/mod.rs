//! `pincer bench model`: streams of models, from the socket to our events, in all three formats; and OpenAI's own client on the
//! same streams in the same run.
//!
//! The client that is measured for memory and processor time runs in a process of its own, with the server in another, so that neither
//! counts for the other.

mod client;
mod delivery;
mod peer;
mod script;

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use pincer_model::{Api, Event, Origin, replay};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub(crate) use client::read;
pub(crate) use script::serve;

use crate::cells::Outcome;
use crate::measure::{Summary, progress, reported, summary};
use crate::print::{bytes, chain, line};
use crate::usage_bench::{ModelArguments, StreamFormat};
use script::{Pace, Script};

/// How often the way of an event is measured, over a connection each time.
const TURNS: usize = 10;
/// Words of the long reply. Each is an event.
const LONG: usize = 10_000;
/// How often the long reply is read.
const ROUNDS: usize = 7;
/// Replies at once, and the words of each: five seconds of 100 words.
const STREAMS: usize = 200;
const STREAM_WORDS: usize = 500;

impl StreamFormat {
    const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Messages => "messages",
        }
    }

    fn api(self) -> Api {
        match self {
            Self::Chat => Api::ChatCompletions,
            Self::Responses => Api::Responses,
            Self::Messages => Api::Messages,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    peer: &'static str,
    formats: Vec<OfFormat>,
    /// OpenAI's own client, Chat Completions.
    openai: Option<OfPeer>,
    /// Why there are no figures of it.
    openai_left_out: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfFormat {
    format: &'static str,
    /// From `write()` on the server's socket to our event.
    event_us: Summary,
    /// From such a `write()` to a bare `read()` of the same bytes: the part of the system.
    bare_read_us: Summary,
    /// One event through decoder and parser, without a socket.
    parse_us: Summary,
    one: One,
    many: Many,
    /// The share of one processor that the events of `many` take in decoder and parser, by `parse_us`.
    many_parse_percent: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfPeer {
    version: &'static str,
    one: One,
    many: Many,
}

/// One long reply, sent as fast as it is read.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct One {
    us_per_event: Summary,
    cpu_us_per_event: f64,
}

/// Many replies at once, sent word by word.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Many {
    streams: usize,
    complete: usize,
    /// Words per second of each.
    rate: f64,
    /// Processor time of the client's whole process, in percent of one processor.
    cpu_percent: f64,
    /// The most that the client's memory grew, for each stream.
    peak_bytes_per_stream: usize,
}

/// The report of a client: ours, and the peer's.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Consumed {
    /// The time of each round.
    round_ms: Vec<f64>,
    cpu_ms: f64,
    /// Replies whose text was what the script says.
    complete: usize,
    peak_growth_bytes: usize,
}

pub(crate) fn run(arguments: &ModelArguments) -> u8 {
    reported(arguments.json, measure(), show)
}

async fn measure() -> Outcome<Report> {
    let directory = tempfile::tempdir()?;
    let mut formats = Vec::new();
    for format in StreamFormat::ALL {
        formats.push(of_format(directory.path(), format).await?);
    }
    progress("OpenAI's client");
    let (openai, openai_left_out) = match of_peer(directory.path()).await {
        Ok(figures) => (Some(figures), None),
        Err(error) => (None, Some(chain(error.as_ref()))),
    };
    progress("");
    Ok(Report { peer: "pincer", formats, openai, openai_left_out })
}

async fn of_format(directory: &Path, format: StreamFormat) -> Outcome<OfFormat> {
    let name = format.name();
    progress(&format!("{name}, from the socket to our events"));
    let short = script::recorded(format, delivery::WORDS).await?;
    let (mut bare_reads, mut events) = (Vec::new(), Vec::new());
    // Taken in turns: the way depends on the processors that the system puts both ends on, and each turn has new threads.
    for _ in 0..TURNS {
        bare_reads.extend(delivery::to_bare_read(format, &short).await?);
        events.extend(delivery::to_event(format, &short).await?);
    }
    let (event_us, bare_read_us) = (summary(events, microseconds), summary(bare_reads, microseconds));
    progress(&format!("{name}, parsing"));
    let long = script::recorded(format, LONG).await?;
    let parse_us = summary(parsed(format, &long)?, microseconds);
    progress(&format!("{name}, one long reply"));
    let ours = |url: &str, script: &Script, streams: usize, rounds: usize| {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "model-client", name, url]).arg(&script.text);
        command.args([streams.to_string(), rounds.to_string()]);
        Ok(command)
    };
    let one = one(directory, format, ours).await?;
    progress(&format!("{name}, {STREAMS} replies at once"));
    let many = many(directory, format, ours).await?;
    let many_parse_percent = many.rate * many.streams as f64 * parse_us.p50 / 1e4;
    Ok(OfFormat { format: name, event_us, bare_read_us, parse_us, one, many, many_parse_percent })
}

async fn of_peer(directory: &Path) -> Outcome<OfPeer> {
    let peer = peer::Peer::install(directory).await?;
    let theirs = |url: &str, script: &Script, streams: usize, rounds: usize| {
        Ok(peer.command(url, &script.text, streams, rounds))
    };
    progress("OpenAI's client, one long reply");
    let one = one(directory, StreamFormat::Chat, theirs).await?;
    progress(&format!("OpenAI's client, {STREAMS} replies at once"));
    Ok(OfPeer { version: peer::VERSION, one, many: many(directory, StreamFormat::Chat, theirs).await? })
}

/// Parses a recorded reply again and again: the time for each event.
fn parsed(format: StreamFormat, body: &[u8]) -> Outcome<Vec<Duration>> {
    let origin = Origin { provider: "bench".into(), api: format.api(), model: "scripted".into() };
    let count = script::events(body).len() as u32;
    let mut took = Vec::new();
    for _ in 0..ROUNDS * 3 {
        let began = Instant::now();
        let events = replay(&origin, body)?;
        took.push(began.elapsed() / count);
        let words = events.iter().filter(|event| matches!(event, Event::Text(_))).count();
        if words != LONG {
            return Err(format!("{words} of {LONG} words were read").into());
        }
    }
    Ok(took)
}

async fn one(
    directory: &Path,
    format: StreamFormat,
    client: impl Fn(&str, &Script, usize, usize) -> Outcome<Command>,
) -> Outcome<One> {
    let script = Script::write(directory, format, LONG, Pace::AtOnce).await?;
    let Consumed { round_ms, cpu_ms, complete, .. } = consumed(&script, client, 1, ROUNDS).await?;
    if complete != ROUNDS {
        return Err(format!("{complete} of {ROUNDS} long replies were complete").into());
    }
    let each = round_ms.iter().map(|ms| Duration::from_secs_f64(ms / 1e3 / LONG as f64)).collect();
    Ok(One { us_per_event: summary(each, microseconds), cpu_us_per_event: cpu_ms * 1e3 / (ROUNDS * LONG) as f64 })
}

async fn many(
    directory: &Path,
    format: StreamFormat,
    client: impl Fn(&str, &Script, usize, usize) -> Outcome<Command>,
) -> Outcome<Many> {
    let script = Script::write(directory, format, STREAM_WORDS, Pace::HundredPerSecond).await?;
    let consumed = consumed(&script, client, STREAMS, 1).await?;
    let ms: f64 = consumed.round_ms.iter().sum();
    Ok(Many {
        streams: STREAMS,
        complete: consumed.complete,
        rate: STREAM_WORDS as f64 / ms * 1e3,
        cpu_percent: 100.0 * consumed.cpu_ms / ms,
        peak_bytes_per_stream: consumed.peak_growth_bytes / STREAMS,
    })
}

/// Starts a server and a client, each as a process, and returns what the client prints.
async fn consumed(
    script: &Script,
    client: impl Fn(&str, &Script, usize, usize) -> Outcome<Command>,
    streams: usize,
    rounds: usize,
) -> Outcome<Consumed> {
    let (url, mut server) = served(&script.file).await?;
    let output = client(&url, script, streams, rounds)?.stdin(Stdio::null()).kill_on_drop(true).output().await?;
    server.kill().await?;
    let figures = serde_json::from_slice(&output.stdout);
    figures.map_err(|_| format!("the client failed: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

/// Starts a process that serves a script. Returns its address, and the process: it ends when that is dropped.
pub(super) async fn served(script: &Path) -> Outcome<(String, Child)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["bench", "model-server"]).arg(script);
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let stdout = server.stdout.take().ok_or("the server has no output")?;
    let url = BufReader::new(stdout).lines().next_line().await?.ok_or("the server did not start")?;
    Ok((url, server))
}

fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

fn show(report: &Report) {
    let head: String = report.formats.iter().map(|of| format!("{:>18}", of.format)).collect();
    let peer = report.openai.as_ref().map(|peer| format!("openai {}", peer.version)).unwrap_or_default();
    line(&format!("{:<52}{head}{peer:>18}", ""));
    let row = |name: &str, ours: &dyn Fn(&OfFormat) -> String, theirs: &dyn Fn(&OfPeer) -> String| {
        let ours: String = report.formats.iter().map(|of| format!("{:>18}", ours(of))).collect();
        let theirs = report.openai.as_ref().map(theirs).unwrap_or_default();
        line(&format!("{name:<52}{ours}{theirs:>18}"));
    };
    let none = |_: &OfPeer| String::new();
    let us = |Summary { p50, p95 }: Summary| format!("{p50:.1} ({p95:.1}) µs");
    row("from write() on the server's socket to our event", &|of| us(of.event_us), &none);
    row("  from such a write() to a bare read()", &|of| us(of.bare_read_us), &none);
    row("decoder and parser, for each event", &|of| us(of.parse_us), &none);
    let long = format!("a reply of {LONG} events, for each event");
    row(&long, &|of| us(of.one.us_per_event), &|of| us(of.one.us_per_event));
    let cpu = |one: &One| format!("{:.1} µs", one.cpu_us_per_event);
    row("  and processor time", &|of| cpu(&of.one), &|of| cpu(&of.one));
    let complete = |many: &Many| format!("{} of {}", many.complete, many.streams);
    row(&format!("{STREAMS} replies at once: complete"), &|of| complete(&of.many), &|of| complete(&of.many));
    let rate = |many: &Many| format!("{:.0} /s", many.rate);
    row("  events of each", &|of| rate(&of.many), &|of| rate(&of.many));
    let percent = |percent: f64| format!("{percent:.1} %");
    row("  the client's share of one processor", &|of| percent(of.many.cpu_percent), &|of| {
        percent(of.many.cpu_percent)
    });
    row("  of that in decoder and parser", &|of| percent(of.many_parse_percent), &none);
    let memory = |many: &Many| bytes(many.peak_bytes_per_stream);
    row("  peak memory for each", &|of| memory(&of.many), &|of| memory(&of.many));
    line("Times are p50 (p95). The sender, the system and the reader share the processors of this machine.");
    if let Some(reason) = &report.openai_left_out {
        line(&format!("OpenAI's own client is left out: {reason}"));
    }
}
