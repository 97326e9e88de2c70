//! The settings of Tool Search.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The bounds of the time that a program may compute, in milliseconds.
pub const CODE_TIMEOUT_MS: RangeInclusive<u64> = 1_000..=60_000;

/// The tools that a model sees in place of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One that runs programs.
    Code,
    /// Those that search, describe and call.
    Tools,
    /// The same three, and a list of all tools in the instructions.
    Directory,
}

impl Mode {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Tools => "tools",
            Self::Directory => "directory",
        }
    }
}

/// How a model finds its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The tools that it sees.
    pub mode: Mode,
    /// The numbers of results.
    pub limits: Limits,
    /// The time that a program may compute.
    pub code_timeout: Duration,
    /// Whether a model that used no tool is told which ones fit.
    pub hints: bool,
}

impl Settings {
    /// Returns the usual settings of a mode.
    pub fn new(mode: Mode) -> Self {
        Self { mode, limits: Limits::default(), code_timeout: Duration::from_secs(10), hints: mode != Mode::Code }
    }
}

/// The numbers of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The results of a search that names no limit.
    pub usual: usize,
    /// The most that a search may ask for.
    pub most: usize,
}

impl Limits {
    /// Returns limits that hold: `most` between 1 and 50, `usual` between 1 and `most`.
    pub fn new(usual: usize, most: usize) -> Self {
        let most = most.clamp(1, 50);
        Self { usual: usual.clamp(1, most), most }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { usual: 8, most: 20 }
    }
}
