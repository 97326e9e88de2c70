//! The client that is measured, in a process of its own.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use pincer_model::{Event, Models};
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;

use super::Consumed;
use super::script::{ask, models};
use crate::cells::Outcome;
use crate::measure::{forget_peak_of, milliseconds, peak_bytes_of, reported, resident_bytes};
use crate::usage_bench::{ModelClientArguments, StreamFormat};

/// Reads replies, so many at once and so often, and prints what that took.
pub(crate) fn read(arguments: &ModelClientArguments) -> u8 {
    reported(true, consume(arguments), |_| {})
}

async fn consume(arguments: &ModelClientArguments) -> Outcome<Consumed> {
    let ModelClientArguments { format, url, text, streams, rounds } = arguments;
    let (text, models) = (std::fs::read_to_string(text)?, models(None));
    // Code that is loaded for the first time is no growth, and no time of an event.
    said(*format, url, &models).await?;
    let before = resident_bytes();
    // Where the system refuses, the peak is that of the whole process, which is never less.
    let _ = forget_peak_of(std::process::id());
    let (cpu_before, mut round_ms, mut complete) = (cpu(), Vec::new(), 0);
    for _ in 0..*rounds {
        let (began, mut reading) = (Instant::now(), JoinSet::new());
        for _ in 0..*streams {
            let (format, url, models) = (*format, url.clone(), models.clone());
            reading.spawn(async move { said(format, &url, &models).await.map_err(|error| error.to_string()) });
        }
        while let Some(read) = reading.join_next().await {
            complete += usize::from(read? == Ok((text.clone(), text.clone())));
        }
        round_ms.push(milliseconds(began.elapsed()));
    }
    let cpu_ms = milliseconds(cpu() - cpu_before);
    let peak_growth_bytes = peak_bytes_of(std::process::id()).saturating_sub(before);
    Ok(Consumed { round_ms, cpu_ms, complete, peak_growth_bytes })
}

/// Returns the text of a reply, as its events said it and as the whole reply has it.
async fn said(format: StreamFormat, url: &str, models: &Models) -> Outcome<(String, String)> {
    let mut reply = ask(format, url, models)?;
    let (mut text, mut whole) = (String::new(), String::new());
    while let Some(event) = reply.next().await {
        match event? {
            Event::Text(more) => text.push_str(&more),
            Event::Done(reply) => whole = reply.message.text(),
            _ => {}
        }
    }
    Ok((text, whole))
}

/// The processor time of this process so far.
fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}
