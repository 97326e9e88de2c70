//! One module per command.

pub(crate) mod bench;
pub(crate) mod demo;
pub(crate) mod exec;
