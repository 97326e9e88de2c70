//! The word to a model that answered without a tool although tools fit what it was asked.

use pincer_store::EntryKind;
use pincer_tool_search::{Mode, strong_matches};
use serde_json::json;

use crate::lane::{Lost, Step};
use crate::surface::Style;
use crate::turn::Turn;

/// The most tools that are named.
const MOST: usize = 4;
/// The first words of the hint.
pub(crate) const HINT: &str =
    "The message before this one was answered without a tool, although these tools fit its words: ";

impl Turn {
    /// Tells the model of tools that fit the message before this one, if it answered that without any tool.
    pub(crate) async fn hint(&self) -> Result<(), Lost> {
        let Style::Search(mode) = self.surface.style else { return Ok(()) };
        if self.is_recovered || !self.scope.tool_search().is_some_and(|settings| settings.hints) {
            return Ok(());
        }
        let asked = {
            let state = self.state();
            match state.detail.spent.model_calls {
                0 => state.transcript.answered_without_tools(),
                _ => None,
            }
        };
        let Some(asked) = asked else { return Ok(()) };
        let tools = self.tools_now();
        let (catalog, index) = tools.searched();
        let fitting: Vec<String> = strong_matches(index, &asked, MOST)
            .iter()
            .map(|entry| match catalog.find(entry.id.name()) {
                Ok(_) => entry.id.name().to_owned(),
                Err(_) => entry.id.to_string(),
            })
            .collect();
        if fitting.is_empty() {
            return Ok(());
        }
        let how = match mode {
            Mode::Code => "openclaw.tools.describe and openclaw.tools.call in tool_search_code",
            Mode::Tools | Mode::Directory => "tool_describe and tool_call",
        };
        let hint = format!("{HINT}{}. If one of them is of use, reach it with {how}.", fitting.join(", "));
        let body = json!({ "customType": "pincer.tool-hint", "content": hint, "display": false }).to_string();
        let entry = self.lane.entry(EntryKind::CustomMessage, body);
        let detail = {
            let mut state = self.state();
            state.detail.tools.hints += 1;
            state.detail.to_json()
        };
        let step = Step { entries: vec![entry], detail: Some(detail.into()), ..Step::default() };
        self.lane.commit(step, &self.stop.token).await?;
        self.state().transcript.push_text(hint);
        Ok(())
    }
}
