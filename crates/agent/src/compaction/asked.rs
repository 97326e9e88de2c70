//! Compacts a conversation because the user wants it, and tells the user what came of it.

use super::planned::{LEAST_SUMMARIZED, Short, Size, Trigger};
use super::request::SYSTEM;
use super::run::Done;
use crate::claimed::Left;
use crate::hooks::{Author, messages};
use crate::lane::Lost;
use crate::replies::Said;
use crate::turn::Turn;

impl Short {
    /// Returns what the user is told.
    fn told(&self) -> String {
        let Size { messages, tokens } = self.all;
        let stays = match self.before {
            _ if messages == 0 => "the conversation has no messages".to_owned(),
            Some(before) => format!(
                "the conversation has {} of about {tokens} tokens, and all of it stays as it is. Only what comes before the latest turn \
                 can give way to a summary. That is {} of about {} tokens, and a summary of less than {LEAST_SUMMARIZED} may be longer",
                counted(messages),
                counted(before.messages),
                before.tokens,
            ),
            None => {
                let reason = match self.is_open {
                    true => "a program that is suspended belongs to the beginning of it",
                    false => "the latest turn stays, and nothing comes before it",
                };
                format!(
                    "the conversation has {} of about {tokens} tokens, and all of it stays as it is: {reason}",
                    counted(messages)
                )
            }
        };
        format!("There is nothing to compact yet: {stays}.")
    }
}

fn counted(messages: usize) -> String {
    let end = if messages == 1 { "" } else { "s" };
    format!("{messages} message{end}")
}

impl Turn {
    /// Compacts the conversation because the user wants it, and ends the run with that.
    pub(crate) async fn compact_as_asked(&self, instructions: &str) -> Result<Left, Lost> {
        let planned = match self.plan_compaction(Trigger::Asked).await? {
            Ok(planned) => planned,
            Err(short) => return self.end_with(short.told()).await,
        };
        // The gate of a run let its messages through to a model. This run has none, and sends those of all others.
        if planned.cut.is_some() {
            let conversation = || messages(&self.state().transcript);
            if let Err(message) = self.hooks.may_run(&self.request.message, conversation, &[SYSTEM.to_owned()]).await {
                return self.blocked(message).await.map(|()| Left::Ended);
            }
        }
        let instructions = self.hooks.written_text(Author::User, instructions.to_owned()).await;
        match self.compact(planned, Some(&instructions)).await? {
            Done::Compacted { before, after } => {
                self.end_with(format!("The conversation is compacted: about {before} tokens became about {after}."))
                    .await
            }
            Done::Longer { summary, replaced } => {
                let told = format!(
                    "The conversation stays as it is: the model wrote a summary of about {summary} tokens, and it would replace about \
                     {replaced}."
                );
                self.end_with(told).await
            }
            Done::Stopped => self.stopped(None).await,
            Done::Failed(error) => self.failed(&error).await.map(|()| Left::Ended),
        }
    }

    async fn end_with(&self, told: String) -> Result<Left, Lost> {
        self.state().said.push(Said::Text(told));
        self.finish(None).await.map(|()| Left::Ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_told_how_much_stays_and_why() {
        let size = |messages, tokens| Size { messages, tokens };
        let short = |all, before, is_open| Short { all, before, is_open }.told();
        let check = |told: String, words: &[&str]| {
            assert!(words.iter().all(|word| told.contains(word)), "{told}");
        };
        check(short(size(0, 0), None, false), &["nothing to compact yet", "has no messages."]);
        check(short(size(1, 10), None, false), &["has 1 message of about 10 tokens", "nothing comes before it."]);
        check(short(size(4, 80), None, true), &["has 4 messages of about 80 tokens", "a program that is suspended"]);
        check(
            short(size(4, 80), Some(size(2, 40)), false),
            &["4 messages of about 80 tokens", "2 messages of about 40 tokens", "less than 500 may be longer."],
        );
    }
}
