//! The configs of MCP clients: one program for all tests that can be beside others. Linking takes longer than most of them.

mod files;
mod home;
mod hostile;
mod import;
mod install;
mod places;
mod together;
