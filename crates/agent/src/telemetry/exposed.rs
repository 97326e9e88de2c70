//! The tools and the instructions of a run, as its model sees them, and as it would see them with direct exposure.

use pincer_codemode::{RunTools, Sources};
use pincer_tool_search::Mode;
use serde::{Deserialize, Serialize};

use super::weight::Weight;
use crate::prompt::Prompt;
use crate::surface::{Style, Surface};

/// The name of the surface of runs whose requests had several.
pub(super) const MIXED: &str = "mixed";
const CODE_MODE: &str = "codeMode";

/// The size of what each request of a run carries, and what it would carry with direct exposure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Exposed {
    pub surface: String,
    pub tools: Weight,
    pub prompt: Weight,
    pub direct: Weight,
    pub direct_prompt: Weight,
    pub catalog_size: usize,
    pub sources: Sources,
    pub schemas_shown: usize,
}

impl Exposed {
    /// Weighs a surface and its instructions. `instructions` returns those of another surface.
    pub(crate) fn new(
        surface: &Surface,
        prompt: &Prompt,
        tools: &RunTools,
        instructions: impl FnOnce(&Surface) -> Prompt,
    ) -> Self {
        let shown = Self {
            surface: name(surface.style).to_owned(),
            tools: Weight::of_tools(&surface.tools),
            prompt: Weight::of_texts(&prompt.texts()),
            schemas_shown: surface.tools.len(),
            ..Self::default()
        };
        let shown = Self { direct: shown.tools, direct_prompt: shown.prompt, ..shown };
        let all =
            Self { catalog_size: tools.catalog().len(), sources: Sources::from(tools.catalog()), ..shown.clone() };
        match surface.style {
            // A run without tools would not have them directly either.
            Style::Nothing => shown,
            Style::Direct => all,
            Style::CodeMode | Style::Search(_) => {
                let direct = Surface::direct(tools);
                let direct_prompt = Weight::of_texts(&instructions(&direct).texts());
                Self { direct: Weight::of_tools(&direct.tools), direct_prompt, ..all }
            }
        }
    }

    pub(crate) fn is_code_mode(&self) -> bool {
        self.surface == CODE_MODE
    }

    /// Returns the weight of what each request carries.
    pub(super) fn sent(&self) -> Weight {
        self.tools + self.prompt
    }

    /// Returns the weight of what each request would carry with direct exposure.
    pub(super) fn sent_directly(&self) -> Weight {
        self.direct + self.direct_prompt
    }
}

fn name(style: Style) -> &'static str {
    match style {
        Style::Nothing => "none",
        Style::Direct => "direct",
        Style::CodeMode => CODE_MODE,
        Style::Search(Mode::Code) => "code",
        Style::Search(Mode::Tools) => "tools",
        Style::Search(Mode::Directory) => "directory",
    }
}
