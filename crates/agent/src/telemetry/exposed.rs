//! The tools and the instructions of a run, as its model sees them, and as it would see them with direct exposure.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use pincer_codemode::{RunTools, Sources};
use pincer_tool_search::Mode;
use serde::{Deserialize, Serialize};

use super::weight::Weight;
use crate::prompt::Prompt;
use crate::surface::{Style, Surface};

/// The name of the surface of runs whose requests had several.
pub(super) const MIXED: &str = "mixed";
const CODE_MODE: &str = "codeMode";

/// The weights of catalogs, were all of their tools shown. Runs share a catalog until it changes, and weighing one of thousands of tools
/// takes longer than all else that a run begins with.
#[derive(Default)]
pub(crate) struct DirectWeights(Mutex<Vec<(Weak<RunTools>, Weight)>>);

impl DirectWeights {
    fn of(&self, tools: &Arc<RunTools>) -> Weight {
        let known = |weights: &[(Weak<RunTools>, Weight)]| {
            let is_it = |(other, _): &&(Weak<RunTools>, Weight)| std::ptr::eq(other.as_ptr(), Arc::as_ptr(tools));
            weights.iter().find(is_it).map(|(_, weight)| *weight)
        };
        let found = known(&self.0.lock().unwrap_or_else(PoisonError::into_inner));
        found.unwrap_or_else(|| {
            let weight = Surface::direct_weight(tools);
            let mut weights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            weights.retain(|(other, _)| other.strong_count() > 0);
            weights.push((Arc::downgrade(tools), weight));
            weight
        })
    }
}

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
        tools: &Arc<RunTools>,
        known: &DirectWeights,
        instructions: impl FnOnce(&Surface) -> Prompt,
    ) -> Self {
        let shown = Self {
            surface: style_name(surface.style).to_owned(),
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
                let direct_prompt = Weight::of_texts(&instructions(&Surface::direct_names(tools)).texts());
                Self { direct: known.of(tools), direct_prompt, ..all }
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

/// Returns the word for the way in which a model reaches its tools.
pub(crate) fn style_name(style: Style) -> &'static str {
    match style {
        Style::Nothing => "none",
        Style::Direct => "direct",
        Style::CodeMode => CODE_MODE,
        Style::Search(Mode::Code) => "code",
        Style::Search(Mode::Tools) => "tools",
        Style::Search(Mode::Directory) => "directory",
    }
}
