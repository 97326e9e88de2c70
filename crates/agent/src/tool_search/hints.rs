//! The word to a model that answered without a tool although tools fit what it was asked.

use pincer_store::EntryKind;
use pincer_tool_search::{Mode, strong_matches};
use serde_json::json;

use crate::lane::{Lost, Step};
use crate::surface::{ShownName, Style};
use crate::turn::Turn;

/// The most tools that are named.
const MOST: usize = 4;
/// The kind of the entry.
pub(super) const HINT: &str = "pincer.tool-hint";

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
                0 => state.transcript.answered_without_tools().map(str::to_owned),
                _ => None,
            }
        };
        let Some(asked) = asked else { return Ok(()) };
        let tools = self.tools_now();
        let (_, index) = tools.searched();
        let (mut fitting, mut all_shown) = (Vec::new(), true);
        for entry in strong_matches(index, &asked, MOST) {
            let name = self.surface.name_of(&entry);
            all_shown &= matches!(name, Some(ShownName::Shown(_)));
            fitting.push(match name {
                Some(ShownName::Shown(name) | ShownName::Listed(name)) => name,
                None => entry.id.to_string(),
            });
        }
        if fitting.is_empty() {
            return Ok(());
        }
        let how = match mode {
            _ if all_shown => "call it",
            Mode::Code => "reach it with openclaw.tools.describe and openclaw.tools.call in tool_search_code",
            Mode::Tools | Mode::Directory => "reach it with tool_describe and tool_call",
        };
        let hint = format!(
            "The message before this one was answered without a tool, although these tools fit its words: {}. If one of them is of use, {how}.",
            fitting.join(", ")
        );
        let body = json!({ "customType": HINT, "content": hint, "display": false }).to_string();
        let entry = self.lane.entry(EntryKind::CustomMessage, body);
        let detail = {
            let mut state = self.state();
            state.detail.tools.hints += 1;
            state.detail.to_json()
        };
        let step = Step { entries: vec![entry], detail: Some(detail.into()), ..Step::default() };
        self.lane.commit(step, &self.stop.token).await?;
        let mut state = self.state();
        state.transcript.push_text(hint);
        state.transcript.told(HINT);
        Ok(())
    }
}
