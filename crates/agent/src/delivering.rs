//! The answers of runs on their way to the channels that their messages came by.

use pincer_config::Config;
use pincer_store::{
    AgentRunId, AgentRunState, Deliveries, DeliveryId, DeliverySource, Millis, NewDelivery, Route, StoreError,
};
use pincer_store_sqlite::SqliteStore;
use uuid::Uuid;

use crate::outcome::RunOutcome;
use crate::request::Request;

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

/// Returns what is sent to the channel that the message of a run came by, now that the run has come to this. It is stored in the commit
/// that ends the run. A run that was stopped has nothing to say.
pub(crate) fn deliveries(
    config: &Config,
    user: &str,
    request: &Request,
    state: AgentRunState,
    outcome: &RunOutcome,
    now: Millis,
) -> Vec<NewDelivery> {
    let Some(route) = &request.route else { return Vec::new() };
    if state == AgentRunState::Aborted {
        return Vec::new();
    }
    let payloads = outcome.result.payloads.iter().map(|payload| payload.text.as_str());
    let late = outcome.error.as_deref().filter(|_| state == AgentRunState::TimedOut);
    let texts = payloads.chain(late).filter(|text| !text.trim().is_empty());
    let expires_at = now.checked_add(config.delivery_lifetime_ms(&route.channel));
    let delivery = |(text, number): (&str, u32)| NewDelivery {
        id: DeliveryId::from(format!("dl_{}", Uuid::now_v7())),
        user: user.to_owned(),
        run: Some(outcome.run_id.clone()),
        source: DeliverySource::Answer,
        key: format!("{}/answer/{number}", outcome.run_id),
        route: route.clone(),
        reply_to: request.reply_to.clone(),
        text: text.into(),
        expires_at,
        now,
    };
    texts.zip(1..).map(delivery).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Payload, Status, Summary};

    #[test]
    fn an_answer_is_sent_where_its_message_came_from() {
        let route = Route { channel: "irc".into(), to: "ann".into(), ..Route::default() };
        let request = Request { route: Some(route), reply_to: Some("m1".into()), ..Request::new("Hi.") };
        let mut outcome = RunOutcome::new("ar_1".into(), "main".into(), None, Status::Ok, Summary::Completed);
        for text in ["One.", "  ", "Two."] {
            outcome.result.payloads.push(Payload { text: text.into(), ..Payload::default() });
        }
        outcome.error = Some("it took too long".into());
        let sent = |request: &Request, state| {
            let all = deliveries(&Config::default(), "me", request, state, &outcome, 10);
            all.iter().map(|delivery| delivery.text.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(sent(&request, AgentRunState::Done), ["One.", "Two."]);
        assert_eq!(sent(&request, AgentRunState::TimedOut), ["One.", "Two.", "it took too long"]);
        assert_eq!(sent(&request, AgentRunState::Aborted), [""; 0]);
        assert_eq!(sent(&Request::new("Hi."), AgentRunState::Done), [""; 0]);
        let first = deliveries(&Config::default(), "me", &request, AgentRunState::Done, &outcome, 10).remove(0);
        assert_eq!((first.key.as_str(), first.reply_to.as_deref()), ("ar_1/answer/1", Some("m1")));
        assert_eq!(first.expires_at, Some(10 + 24 * 3_600_000));
    }
}
