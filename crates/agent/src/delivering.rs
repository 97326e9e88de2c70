//! The answers of runs on their way to the channels that their messages came by.

use pincer_config::Config;
use pincer_store::{
    AgentRun, AgentRunId, AgentRunState, AgentRuns, Clock, Deliveries, DeliveryId, DeliverySource, Millis, NewDelivery,
    Route, StoreError,
};
use pincer_store_sqlite::SqliteStore;
use uuid::Uuid;

use crate::claimed::Claimed;
use crate::ending::STALLED_KIND;
use crate::inner::Inner;
use crate::obeying::is_of;
use crate::outcome::{Payload, PayloadKind, RunOutcome};
use crate::replies::{BlockSettings, Blocks, Said, Shaping, payloads};
use crate::request::{Reasoning, Request};
use crate::settings::blocks;

/// The part of a run that is its answer at the end.
const ANSWER: &str = "answer";

/// The notice for a message that gave way.
const LEFT_OUT: &str =
    "Too many messages are waiting here, and yours gave way to a newer one. Send it again if it still matters.";

/// The notice for a message whose run another sender has stopped.
const STOPPED: &str = "This conversation was stopped by somebody else before your message was answered. Send it again if it still matters.";

/// A text that a run has sent by a call of the `message` tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentText {
    /// Where it was sent to.
    pub route: Route,
    /// The text, as the model wrote it.
    pub text: String,
}

/// Returns the texts that a run has sent by calls of the `message` tool, whichever process made them.
pub(crate) async fn sent_texts(store: &SqliteStore, run: &AgentRunId) -> Result<Vec<SentText>, StoreError> {
    let deliveries = store.deliveries_of_run(run).await?;
    let by_tool = deliveries.into_iter().filter(|delivery| delivery.source == DeliverySource::Tool);
    let text = |delivery: pincer_store::Delivery| SentText {
        route: delivery.route,
        text: delivery.original.unwrap_or(delivery.text),
    };
    Ok(by_tool.map(text).collect())
}

impl Claimed {
    /// Returns the texts of the run for the channel that its message came by, as far as a reply that is stored now is told before the
    /// run has ended. They are counted as told, which is stored with them.
    pub(crate) async fn blocks_for_channel(&self) -> Vec<NewDelivery> {
        let Some(settings) = self.blocks().filter(|_| self.request.route.is_some()) else { return Vec::new() };
        self.know_sent().await;
        let mut state = self.state();
        let told = state.detail.told;
        // A summary of a call is told with the text behind it.
        let Some(last) = state.said.iter().rposition(Said::is_the_models) else { return Vec::new() };
        let new = untold(&state.said[..=last], told);
        let shaping = Shaping {
            said: new,
            sent: &state.detail.sent,
            failure: None,
            shows_thinking: state.telling.reasoning == Reasoning::On,
        };
        let texts = cut(payloads(&shaping), Some(&settings));
        state.detail.told = told + new.iter().filter(|said| said.is_the_models()).count();
        drop(state);
        self.letters(&format!("said/{told}"), texts)
    }

    /// Returns the texts for that channel that are left when the run has come to this. A run that was stopped has nothing to say.
    pub(crate) fn rest_for_channel(&self, end: AgentRunState, outcome: &RunOutcome) -> Vec<NewDelivery> {
        if self.request.route.is_none() || end == AgentRunState::Aborted {
            return Vec::new();
        }
        let texts = {
            let state = self.state();
            let shaping = Shaping {
                said: untold(&state.said, state.detail.told),
                sent: &state.detail.sent,
                failure: None,
                shows_thinking: state.telling.reasoning == Reasoning::On,
            };
            cut(payloads(&shaping), self.blocks().as_ref())
        };
        let errors =
            outcome.result.payloads.iter().filter(|payload| payload.is_error).map(|payload| payload.text.clone());
        // The error of a run that was stopped here is no part of its answer.
        let was_stopped = end == AgentRunState::TimedOut || outcome.error_kind.as_deref() == Some(STALLED_KIND);
        let late = outcome.error.clone().filter(|_| was_stopped);
        self.letters(ANSWER, texts.into_iter().chain(errors).chain(late))
    }

    fn blocks(&self) -> Option<BlockSettings> {
        blocks(self.agent.runtime.config(), self.request.agent.as_deref())
    }

    fn letters(&self, part: &str, texts: impl IntoIterator<Item = String>) -> Vec<NewDelivery> {
        let about = Letters { config: self.agent.runtime.config(), user: &self.run.user, run: &self.run.id, part };
        about.of(&self.request, texts, self.lane.now())
    }
}

/// Returns the answer of a run that never began to work, for the channel that its message came by: an error, or what a command says.
pub(crate) fn bare_answer(
    config: &Config,
    user: &str,
    request: &Request,
    outcome: &RunOutcome,
    now: Millis,
) -> Vec<NewDelivery> {
    let texts = outcome.result.payloads.iter().map(|payload| payload.text.clone());
    Letters { config, user, run: &outcome.run_id, part: ANSWER }.of(request, texts, now)
}

impl Inner {
    /// Tells the sender of a run that another one has stopped it.
    pub(crate) async fn tell_stopped(&self, user: &str, by: &Request, run: &AgentRun) {
        let stopped = Request::parse(&run.request).unwrap_or_default();
        if is_of(run, by) {
            return;
        }
        self.notify(user, &stopped, &run.id, "stopped", STOPPED).await;
    }

    /// Stores a notice about a run for the channel that its message came by.
    async fn notify(&self, user: &str, of: &Request, run: &AgentRunId, part: &str, text: &str) {
        let letters = Letters { config: self.runtime.config(), user, run, part };
        for notice in letters.of(of, [text.to_owned()], self.store.now()) {
            if let Err(error) = self.store.enqueue(notice).await {
                tracing::warn!(%run, "its sender is not told that it was {part}: {error}");
            }
        }
    }

    /// Tells the senders of messages that gave way in a full queue, as far as no run with their rights will.
    pub(crate) async fn tell_left_out(&self, user: &str, newer: &Request, dropped: &[AgentRunId]) {
        for id in dropped {
            let Ok(run) = self.store.agent_run(id).await else { continue };
            let left_out = Request::parse(&run.request).unwrap_or_default();
            if run.state == AgentRunState::Summarized && newer.may_be_joined_by(&left_out) {
                continue;
            }
            self.notify(user, &left_out, id, "left out", LEFT_OUT).await;
        }
    }
}

/// Texts of a run as they are stored for its channel.
struct Letters<'a> {
    config: &'a Config,
    user: &'a str,
    run: &'a AgentRunId,
    /// The part of the run that they are. Each text has a key of its own within it.
    part: &'a str,
}

impl Letters<'_> {
    fn of(&self, request: &Request, texts: impl IntoIterator<Item = String>, now: Millis) -> Vec<NewDelivery> {
        let Some(route) = &request.route else { return Vec::new() };
        let expires_at = now.checked_add(self.config.delivery_lifetime_ms(&route.channel));
        let letter = |(text, number): (String, u32)| NewDelivery {
            id: DeliveryId::from(format!("dl_{}", Uuid::now_v7())),
            user: self.user.to_owned(),
            run: Some(self.run.clone()),
            source: DeliverySource::Answer,
            key: format!("{}/{}/{number}", self.run, self.part),
            route: route.clone(),
            reply_to: request.reply_to.clone(),
            text: text.into(),
            expires_at,
            now,
        };
        texts.into_iter().filter(|text| !text.trim().is_empty()).zip(1..).map(letter).collect()
    }
}

/// Returns the part of what a run said that its channel was not told, if it was told so many texts and thoughts of the model.
fn untold(said: &[Said], told: usize) -> &[Said] {
    let last_told = told.checked_sub(1).and_then(|last| {
        said.iter().enumerate().filter(|(_, said)| said.is_the_models()).nth(last).map(|(index, _)| index)
    });
    last_told.map_or(said, |last| &said[last + 1..])
}

/// Returns the texts of payloads, those of the model in blocks if there are settings for that.
fn cut(payloads: Vec<Payload>, settings: Option<&BlockSettings>) -> Vec<String> {
    let texts = payloads.into_iter().flat_map(|payload| match settings.filter(|_| payload.kind == PayloadKind::Text) {
        Some(settings) => Blocks::new(settings.clone()).cut(&payload.text),
        None => vec![payload.text],
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Status, Summary};

    #[test]
    fn an_answer_is_sent_where_its_message_came_from() {
        let route = Route { channel: "irc".into(), to: "ann".into(), ..Route::default() };
        let request = Request { route: Some(route), reply_to: Some("m1".into()), ..Request::new("Hi.") };
        let mut outcome = RunOutcome::new("ar_1".into(), "main".into(), None, Status::Ok, Summary::Completed);
        for text in ["One.", "  ", "Two."] {
            outcome.result.payloads.push(Payload { text: text.into(), ..Payload::default() });
        }
        let sent = |request: &Request| bare_answer(&Config::default(), "me", request, &outcome, 10);
        let texts: Vec<String> = sent(&request).iter().map(|letter| letter.text.to_string()).collect();
        assert_eq!(texts, ["One.", "Two."]);
        assert_eq!(sent(&Request::new("Hi.")).len(), 0);
        let first = sent(&request).remove(0);
        assert_eq!((first.key.as_str(), first.reply_to.as_deref()), ("ar_1/answer/1", Some("m1")));
        assert_eq!(first.expires_at, Some(10 + 24 * 3_600_000));
    }

    #[test]
    fn what_was_told_is_counted_without_the_summaries_of_calls() {
        let said = |text: &str| match text.split_once(' ') {
            Some(("tool", text)) => Said::Tool(text.into()),
            Some(("hm", text)) => Said::Thinking(text.into()),
            _ => Said::Text(text.into()),
        };
        let all = ["One.", "tool a", "hm b", "Two.", "tool c"].map(said);
        let rest = |told| untold(&all, told).len();
        assert_eq!([0, 1, 2, 3, 4].map(rest), [5, 4, 2, 1, 5]);
    }
}
