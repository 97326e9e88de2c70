//! The stored form of cells: one program for all tests that can be beside others. Linking takes longer than most of them.

mod cell;
mod chain;
mod format;
mod patches;
