//! Has a model write the summary of a conversation, in parts if all of it does not fit.

use pincer_model::{ErrorKind, ModelError, Part, Plan, Reply, Stop, Usage};
use pincer_store::{Clock, Totals};
use tokio_util::sync::CancellationToken;

use super::branch::both_ends;
use super::estimate;
use super::request::{Open, Wanted};
use crate::hooks::RunHooks;
use crate::inner::Inner;
use crate::lane::Lane;
use crate::record;
use crate::reply::{Asked, Voice, ask};
use crate::telemetry::Weight;

/// The most attempts at the summary of one part, if the first is of no use.
const MOST_TRIES: u32 = 2;
/// The tokens around the texts of a request.
const AROUND: u64 = 400;
/// The tokens of a part of a conversation, at least.
const LEAST_PART: u64 = 300;

/// Writes summaries.
pub(crate) struct Summarizer<'a> {
    pub agent: &'a Inner,
    pub hooks: &'a RunHooks,
    pub plan: Plan,
    pub lane: &'a Lane,
    pub stop: &'a CancellationToken,
    pub instructions: Option<&'a str>,
    /// The most tokens of a summary.
    pub most: u64,
    /// The window of the model, if it is known.
    pub window: Option<u64>,
}

/// The requests and tokens that a summary took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spent {
    /// The weight of the instructions of each request, and the tokens that the provider had in its cache.
    pub requests: Vec<(Weight, u64)>,
    pub usage: Usage,
}

/// The outcome of asking for a summary.
pub(crate) enum Written {
    Summary(String),
    /// The model wrote nothing that could be used, for this reason.
    Useless(&'static str),
    Failed(ModelError),
    Stopped,
}

enum Answer {
    Text(String),
    Other(Written),
    TooLong(ModelError),
}

impl Spent {
    fn add(&mut self, instructions: Weight, usage: &Usage) {
        let sum = &mut self.usage;
        self.requests.push((instructions, usage.cache_read));
        sum.input = sum.input.saturating_add(usage.input);
        sum.output = sum.output.saturating_add(usage.output);
        sum.cache_read = sum.cache_read.saturating_add(usage.cache_read);
        sum.cache_write = sum.cache_write.saturating_add(usage.cache_write);
    }

    /// Returns it as part of the figures of a session.
    pub(crate) fn totals(&self) -> Totals {
        let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        Totals {
            input: count(self.usage.input),
            output: count(self.usage.output),
            cache_read: count(self.usage.cache_read),
            cache_write: count(self.usage.cache_write),
            ..Totals::default()
        }
    }
}

impl Summarizer<'_> {
    /// Returns the summary of a conversation that begins with another summary.
    pub(crate) async fn write(&self, before: &str, texts: &[&str], spent: &mut Spent) -> Written {
        let mut open = Open::new(texts);
        let mut summary = before.to_owned();
        // Each time a part is too long all the same, the parts are halved.
        let mut divided = 1;
        loop {
            let room = self.room(&summary, texts) / divided;
            let Some(part) = open.take(room.max(LEAST_PART)) else { return Written::Summary(summary) };
            match self.part(&summary, &part.text(), spent).await {
                Answer::Text(text) => summary = both_ends(&text, self.most_bytes()),
                Answer::TooLong(_) if room > LEAST_PART => {
                    divided *= 2;
                    open.put_back(part);
                }
                Answer::TooLong(error) => return Written::Failed(error),
                Answer::Other(written) => return written,
            }
        }
    }

    /// Returns the most tokens of a part that follows a summary.
    fn room(&self, summary: &str, texts: &[&str]) -> u64 {
        match self.window {
            // An estimate may be lower than the provider's count.
            Some(window) => (window / 20 * 19).saturating_sub(self.most + estimate::text(summary) + AROUND),
            None => texts.iter().map(|text| estimate::text(text) + 1).sum(),
        }
    }

    fn most_bytes(&self) -> usize {
        usize::try_from(self.most.saturating_mul(4)).unwrap_or(usize::MAX)
    }

    async fn part(&self, before: &str, conversation: &str, spent: &mut Spent) -> Answer {
        let known = self.plan.targets.iter().filter_map(pincer_model::Target::most_reply_tokens).min();
        // Thoughts that a model cannot leave out count too.
        let room = u32::try_from(self.most.saturating_mul(2).saturating_add(AROUND)).unwrap_or(u32::MAX);
        let most_reply = known.map(|known| known.min(room));
        let wanted = Wanted { before, conversation, instructions: self.instructions, most: self.most, most_reply };
        let mut useless = "";
        for _ in 0..MOST_TRIES {
            let request = wanted.request();
            let target = self.plan.targets.first();
            let target = target.map_or(("", ""), |target| (target.provider.id.as_str(), target.model.id.as_str()));
            self.hooks.tell_input(self.agent, "", target, &request);
            let instructions = Weight::of_texts(&request.system);
            let models = self.agent.models.models();
            let asked = ask(models, self.plan.clone(), request, self.lane, Voice::Silent, self.stop).await;
            match asked {
                Asked::Reply(reply) => {
                    spent.add(instructions, &reply.usage);
                    let stored = record::assistant(&reply, self.lane.store.now());
                    self.hooks.tell_output(self.agent, target, &reply, &stored);
                    match usable(&reply) {
                        Ok(text) => return Answer::Text(text),
                        Err(reason) => useless = reason,
                    }
                }
                Asked::Failed(error) => match error.kind {
                    ErrorKind::ContextOverflow { .. } => return Answer::TooLong(error),
                    ErrorKind::Refusal => useless = "it declined",
                    _ => return Answer::Other(Written::Failed(error)),
                },
                Asked::Stopped(_) => return Answer::Other(Written::Stopped),
            }
        }
        Answer::Other(Written::Useless(useless))
    }
}

/// Returns the summary of a reply, or why it is none.
fn usable(reply: &Reply) -> Result<String, &'static str> {
    let text = reply.message.text();
    let is_refused = reply.message.parts.iter().any(|part| matches!(part, Part::Refusal { .. }));
    match reply.stop {
        Stop::Refusal => Err("it declined"),
        _ if is_refused => Err("it declined"),
        Stop::Length | Stop::Window => Err("its summary was cut off"),
        _ if text.trim().is_empty() => Err("its summary was empty"),
        _ => Ok(text.trim().to_owned()),
    }
}

/// Returns a list that stands for a summary if no model writes one.
pub(crate) fn plain<'t>(before: &str, requests: impl Iterator<Item = &'t str>, most: u64) -> String {
    const HEAD: &str =
        "No summary could be written. The requests of the user in this part, the latest last, each shortened:";
    const LINE: usize = 300;
    let mut lines = Vec::new();
    let mut left = most / 2;
    for request in requests {
        let line = format!("- {}", both_ends(&request.replace('\n', " "), LINE));
        let size = estimate::text(&line);
        if size > left {
            break;
        }
        left -= size;
        lines.push(line);
    }
    lines.push(HEAD.to_owned());
    if !before.trim().is_empty() {
        lines.push(both_ends(before, usize::try_from(most.saturating_mul(2)).unwrap_or(usize::MAX)));
    }
    lines.reverse();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_list_keeps_the_latest_requests_and_the_summary_before() {
        let requests: Vec<String> = (0..100).map(|number| format!("request {number} {}", "x".repeat(1_000))).collect();
        let text = plain("They met.", requests.iter().rev().map(String::as_str), 1_000);
        assert!(text.starts_with("They met.\nNo summary"), "{text}");
        assert!(text.contains("request 99") && !text.contains("request 1 "), "{text}");
        assert!(estimate::text(&text) < 1_000);
        let (last, before) = (text.find("request 99"), text.find("request 98"));
        assert!(before < last);
    }
}
