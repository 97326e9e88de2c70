//! Asks the model, and tells its reply piece by piece.

use std::time::Duration;

use futures_util::StreamExt;
use pincer_model::{ErrorKind, Event, ModelError, Models, Plan, Reply, Request, Retry};
use pincer_store::Clock;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::event::{Happening, Stream};
use crate::lane::Lane;
use crate::replies::{BlockSettings, BlockTeller, shown, visible};

/// Pieces of a reply that come within this time are told together.
const PACE: Duration = Duration::from_millis(40);

/// The wait before a model is asked again whose reply broke, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What came of a request to a model.
pub(crate) enum Asked {
    Reply(Box<Reply>),
    Failed(ModelError),
    /// The run was stopped. This much of the reply had been told.
    Stopped(String),
}

/// The share of a reply that is told while it comes in.
pub(crate) struct Shown {
    pub blocks: Option<BlockSettings>,
    pub thinking: bool,
}

/// The pieces of one kind that wait to be told.
struct Pieces {
    stream: Stream,
    text: String,
    /// The length of the text that was told, of the part that may be shown.
    told: usize,
    last: Option<Instant>,
}

impl Pieces {
    fn new(stream: Stream) -> Self {
        Self { stream, text: String::new(), told: 0, last: None }
    }

    /// Returns what may be shown of it by now.
    fn shown(&self) -> &str {
        match self.stream {
            Stream::Assistant => shown(&self.text),
            _ => &self.text,
        }
    }

    /// Tells the rest of a text that has ended.
    fn end(&mut self, lane: &Lane) {
        if self.stream == Stream::Assistant {
            let whole = visible(&self.text).to_owned();
            self.tell_shown(&whole, lane);
        } else {
            self.tell(lane);
        }
    }

    fn add(&mut self, piece: &str, lane: &Lane) {
        self.text.push_str(piece);
        if self.last.is_none_or(|last| last.elapsed() >= PACE) {
            self.tell(lane);
        }
    }

    /// Tells what was not told yet.
    fn tell(&mut self, lane: &Lane) {
        let shown = self.shown().to_owned();
        self.tell_shown(&shown, lane);
    }

    fn tell_shown(&mut self, shown: &str, lane: &Lane) {
        let Some(delta) = shown.get(self.told..).filter(|delta| !delta.is_empty()) else { return };
        let data = json!({ "text": shown, "delta": delta });
        lane.feed.tell(Happening::new(self.stream, data), lane.store.now());
        (self.told, self.last) = (shown.len(), Some(Instant::now()));
    }

    fn is_due(&self) -> bool {
        self.told < self.shown().len()
    }
}

/// Whether a reply is told while it comes.
pub(crate) enum Voice {
    Aloud(Shown),
    Silent,
}

/// Asks the model for a reply.
pub(crate) async fn ask(
    models: &Models,
    plan: Plan,
    request: Request,
    lane: &Lane,
    voice: Voice,
    stop: &CancellationToken,
) -> Asked {
    let activity = lane.feed.activity();
    activity.asks();
    let asked = heard(models, plan, request, lane, voice, stop).await;
    activity.answered();
    asked
}

async fn heard(
    models: &Models,
    plan: Plan,
    request: Request,
    lane: &Lane,
    voice: Voice,
    stop: &CancellationToken,
) -> Asked {
    let mut replying = models.ask(plan, request);
    let (mut text, mut thoughts) = (Pieces::new(Stream::Assistant), Pieces::new(Stream::Thinking));
    let (is_silent, how) = match voice {
        Voice::Aloud(how) => (false, how),
        Voice::Silent => (true, Shown { blocks: None, thinking: false }),
    };
    let mut blocks = BlockTeller::new(how.blocks);
    loop {
        let is_due = text.is_due() || thoughts.is_due();
        let event = tokio::select! {
            biased;
            () = stop.cancelled() => {
                text.end(lane);
                return Asked::Stopped(text.text);
            }
            event = replying.next() => event,
            () = tokio::time::sleep(PACE), if is_due => {
                thoughts.tell(lane);
                text.tell(lane);
                continue;
            }
            () = blocks.is_due() => {
                blocks.tell_waiting(lane);
                continue;
            }
        };
        note(event.as_ref(), lane);
        match event {
            Some(Ok(Event::Text(_) | Event::Refusal(_) | Event::Thinking(_))) if is_silent => {}
            Some(Ok(Event::Text(piece) | Event::Refusal(piece))) => {
                thoughts.tell(lane);
                text.add(&piece, lane);
                blocks.add(text.shown(), lane);
            }
            Some(Ok(Event::Thinking(_))) if !how.thinking => {}
            Some(Ok(Event::Thinking(piece))) => thoughts.add(&piece, lane),
            Some(Ok(Event::Retrying { error, after, attempt })) => {
                tracing::info!(run = %lane.run, attempt, "the model is asked again in {after:?}: {error}");
            }
            Some(Ok(Event::FallingBack { error, to })) => {
                tracing::info!(run = %lane.run, "{to} is asked instead: {error}");
            }
            Some(Ok(Event::Adjusted { asked, given })) => {
                tracing::debug!(run = %lane.run, "thinks {} instead of {}", given.name(), asked.name());
            }
            Some(Ok(Event::Began { .. } | Event::CallBegan { .. } | Event::CallArguments { .. })) => {}
            Some(Ok(Event::Done(reply))) => {
                thoughts.tell(lane);
                text.end(lane);
                blocks.end(visible(&text.text), lane);
                return Asked::Reply(reply);
            }
            Some(Err(error)) => {
                thoughts.tell(lane);
                text.end(lane);
                return Asked::Failed(error);
            }
            None => return Asked::Failed(ended()),
        }
    }
}

/// Notes what an event says about the progress of the run.
fn note(event: Option<&Result<Event, ModelError>>, lane: &Lane) {
    let activity = lane.feed.activity();
    match event {
        Some(Ok(Event::Retrying { after, .. })) => {
            let pause = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
            activity.pauses(lane.now().saturating_add(pause));
        }
        Some(Ok(Event::FallingBack { .. })) => activity.asks(),
        Some(Ok(Event::Adjusted { .. }) | Err(_)) | None => {}
        Some(Ok(_)) => activity.heard(lane.now()),
    }
}

/// Voids what was told of a reply that did not come to its end. The next reply takes its place.
pub(crate) fn void(lane: &Lane) {
    lane.feed.tell(nothing_said(Void::BrokenOff), lane.store.now());
}

/// The reason for which a reply does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Void {
    /// It broke off, or its conversation was too long.
    BrokenOff,
    /// A hook has the model revise it.
    Revised,
    /// Another process wrote it, and is gone.
    TakenOver,
}

/// Tells that what was told of a reply does not count.
pub(crate) fn nothing_said(void: Void) -> Happening {
    let reason = match void {
        Void::BrokenOff => "broken-off",
        Void::Revised => "revised",
        Void::TakenOver => "taken-over",
    };
    Happening::new(Stream::Assistant, json!({ "text": "", "delta": "", "replace": true, "reason": reason }))
}

/// Returns how long to wait before a model is asked again whose reply broke for the `count`-th time in a row.
pub(crate) fn pause(error: &ModelError, count: u32) -> Duration {
    match error.retry {
        Retry::After(after) => after.min(LONGEST_PAUSE),
        // The model is at fault, not the way to it.
        Retry::No | Retry::Backoff if error.kind == ErrorKind::Malformed => Duration::ZERO,
        Retry::No | Retry::Backoff => FIRST_PAUSE.saturating_mul(1 << count.min(6)).min(LONGEST_PAUSE),
    }
}

fn ended() -> ModelError {
    ModelError::new(ErrorKind::CutOff, "the reply ended without an end")
}
