//! How much a model thinks, in the words of each format.

use serde::{Deserialize, Serialize};

/// How much a model is to think before it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Not at all.
    #[default]
    Off,
    /// As little as possible.
    Minimal,
    /// Little.
    Low,
    /// Usual.
    Medium,
    /// Much.
    High,
    /// Very much.
    XHigh,
    /// As much as the model finds right.
    Adaptive,
    /// As much as it can.
    Max,
}

impl Level {
    /// All of them, from the least to the most; `Adaptive` stands apart.
    pub const ALL: [Self; 8] =
        [Self::Off, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Adaptive, Self::Max];

    /// Returns the level's name in a config and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Adaptive => "adaptive",
            Self::Max => "max",
        }
    }

    /// Returns how much it is, for comparison. `Adaptive` is as much as usual.
    fn amount(self) -> i32 {
        match self {
            Self::Off => 0,
            Self::Minimal => 1,
            Self::Low => 2,
            Self::Medium | Self::Adaptive => 3,
            Self::High => 4,
            Self::XHigh => 5,
            Self::Max => 6,
        }
    }

    /// Returns the nearest of `levels`: of two that are as near, the lesser. `Off` if there are none.
    pub(crate) fn nearest(self, levels: &[Self]) -> Self {
        if levels.contains(&self) {
            return self;
        }
        let distance = |level: &&Self| {
            // Thinking a little is not the same as not thinking: thinking that was asked for is not switched off.
            let switched = i32::from((**level == Self::Off) != (self == Self::Off)) * 10;
            // An amount is nearer to an amount than a model's own choice is.
            let chosen = i32::from(**level == Self::Adaptive);
            ((level.amount() - self.amount()).abs() * 2 + switched + chosen, level.amount())
        };
        levels.iter().min_by_key(distance).copied().unwrap_or(Self::Off)
    }
}

/// How a model thinks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reasoning {
    /// It does not, or not that one could say how much.
    #[default]
    None,
    /// By a word: these levels can be sent.
    Effort(Vec<Level>),
    /// By a number of tokens.
    Budget,
    /// As much as it finds right, with one of these words beside it.
    Adaptive(Vec<Level>),
}

impl Reasoning {
    /// Returns the levels that a model of this kind has.
    pub fn levels(&self) -> Vec<Level> {
        use Level::{Adaptive, High, Low, Max, Medium, Minimal, Off};
        match self {
            Self::None => vec![Off],
            Self::Effort(levels) => levels.clone(),
            Self::Budget => vec![Off, Minimal, Low, Medium, High, Max],
            Self::Adaptive(levels) => levels.iter().copied().chain([Off, Adaptive]).collect(),
        }
    }
}

/// Returns the tokens that a level means, of `most` for a whole reply. The rest is for the answer.
pub(crate) fn budget(level: Level, most: u32) -> u32 {
    /// Providers refuse less.
    const LEAST: u32 = 1024;
    let wanted = match level {
        Level::Off => return 0,
        Level::Minimal => LEAST,
        Level::Low => 4_096,
        Level::Medium | Level::Adaptive => 10_240,
        Level::High => 20_480,
        Level::XHigh => 32_768,
        Level::Max => u32::MAX,
    };
    wanted.min(most.saturating_sub(most / 4)).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_a_model_lacks_is_the_nearest_it_has() {
        use Level::{Adaptive, High, Low, Max, Medium, Minimal, Off, XHigh};
        let nearest = |level: Level, levels: &[Level]| level.nearest(levels);
        assert_eq!(nearest(Minimal, &[Off, Low, Medium, High]), Low, "asked to think, it thinks");
        assert_eq!(nearest(Off, &[Minimal, Low, Medium]), Minimal);
        assert_eq!(nearest(XHigh, &[Low, Medium, High]), High);
        assert_eq!(nearest(Max, &[Off, Low, XHigh]), XHigh);
        assert_eq!(nearest(Adaptive, &[Off, Low, Medium, High]), Medium);
        assert_eq!(nearest(High, &[Off, Adaptive]), Adaptive);
        assert_eq!(nearest(High, &[Off]), Off);
        assert_eq!(nearest(High, &[]), Off);
        for level in Level::ALL {
            assert_eq!(level.nearest(&Level::ALL), level);
        }
    }

    #[test]
    fn a_budget_leaves_room_for_the_answer() {
        assert_eq!(budget(Level::Off, 8192), 0);
        assert_eq!(budget(Level::Max, 8192), 6144);
        assert_eq!(budget(Level::Low, 64_000), 4096);
        assert_eq!(budget(Level::High, 2048), 1536);
        assert!(budget(Level::Medium, 100) >= 1024, "a provider refuses less");
    }
}
