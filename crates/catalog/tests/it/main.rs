//! Entries, and what is asked of them: one program for all tests that can be beside others. Linking takes longer than most of them.

mod declarations;
mod policy;
mod search;
