//! Plugins, good and bad: one program for all tests that can be beside others. Linking takes longer than most of them.

mod manifests;
mod processes;
