//! What the user asked last and before that, and whether a tool was used for it.

use pincer_sessions::{Message, Role};

use super::hints::HINT;

/// The most characters that are kept of a question.
const MOST: usize = 2_000;

/// The last two exchanges of a conversation. Texts that the system adds in the user's place are no questions.
#[derive(Default)]
pub(crate) struct Exchanges {
    now: Exchange,
    before: Option<String>,
}

#[derive(Default)]
struct Exchange {
    asked: String,
    is_answered: bool,
    has_calls: bool,
}

impl Exchanges {
    /// Adds a message of the user or the model.
    pub(crate) fn add(&mut self, message: &Message) {
        match message.role {
            Role::User => {
                if self.now.is_answered {
                    let Exchange { asked, has_calls, .. } = std::mem::take(&mut self.now);
                    self.before = (!has_calls && !asked.is_empty()).then_some(asked);
                }
                for text in message.content.iter().filter_map(|block| block.text.as_deref()) {
                    let room = MOST.saturating_sub(self.now.asked.chars().count());
                    self.now.asked.extend(text.chars().take(room));
                    self.now.asked.push('\n');
                }
            }
            Role::Assistant => {
                let has_calls = message.content.iter().any(|block| block.kind == "toolCall");
                self.now.has_calls |= has_calls;
                self.now.is_answered = !has_calls && message.stop_reason.as_deref() == Some("stop");
            }
            _ => {}
        }
    }

    /// Notes that a text of this kind was added in the user's place.
    pub(crate) fn told(&mut self, kind: &str) {
        if kind == HINT {
            self.before = None;
        }
    }

    /// Returns the question before the last one, if it was answered without a tool and the model was not told of that.
    pub(crate) fn unaided(&self) -> Option<&str> {
        self.before.as_deref().filter(|_| !self.now.is_answered && !self.now.has_calls)
    }
}

#[cfg(test)]
mod tests {
    use pincer_sessions::Block;

    use super::*;

    fn unaided(steps: &[&str]) -> Option<String> {
        let mut exchanges = Exchanges::default();
        for step in steps {
            let message = |role, content, stop: Option<&str>| Message {
                role,
                content: vec![content],
                stop_reason: stop.map(str::to_owned),
                ..Message::default()
            };
            let call = Block { kind: "toolCall".into(), ..Block::default() };
            match *step {
                "answer" => exchanges.add(&message(Role::Assistant, Block::text("So."), Some("stop"))),
                "broken off" => exchanges.add(&message(Role::Assistant, Block::text("So"), Some("aborted"))),
                "call" => exchanges.add(&message(Role::Assistant, call, Some("toolUse"))),
                "hint" => exchanges.told(HINT),
                asked => exchanges.add(&message(Role::User, Block::text(asked), None)),
            }
        }
        exchanges.unaided().map(|asked| asked.trim().to_owned())
    }

    #[test]
    fn a_question_counts_once_if_it_was_answered_without_a_tool() {
        let check =
            |steps: &[&str], expected: Option<&str>| assert_eq!(unaided(steps).as_deref(), expected, "{steps:?}");
        check(&["a"], None);
        check(&["a", "answer"], None);
        check(&["a", "answer", "b"], Some("a"));
        check(&["a", "call", "answer", "b"], None);
        check(&["a", "broken off", "b"], None);
        check(&["a", "answer", "b", "hint"], None);
        // A run that failed after the hint: the next message is no second reason.
        check(&["a", "answer", "b", "hint", "c"], None);
        check(&["a", "answer", "b", "c"], Some("a"));
        check(&["a", "more", "answer", "b"], Some("a\nmore"));
        check(&["a", "answer", "b", "answer", "c"], Some("b"));
        check(&["a", "answer", "b", "call"], None);
    }
}
