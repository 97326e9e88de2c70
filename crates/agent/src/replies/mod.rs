//! From what a model says to what its user is told: silence, blocks while a reply comes in, and the payloads of an answer.

mod blocks;
mod payloads;
mod silence;
mod telling;

use crate::request::{Reasoning, Verbose};

pub(crate) use blocks::{BlockBreak, BlockSettings, Blocks, Preference};
pub(crate) use payloads::{Said, Shaping, ToolFailure, failed_with, payloads, said_in, summary};
pub(crate) use silence::{shown, visible};
pub(crate) use telling::BlockTeller;

/// The share of its calls and thoughts that the user of a run is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Telling {
    pub verbose: Verbose,
    pub reasoning: Reasoning,
}
