//! The program `pincer`, as people and scripts use it: one program for all tests that can be beside others.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod agent;
mod attacks;
mod backup;
mod channels;
mod cli;
mod codemode;
#[path = "../common/mod.rs"]
mod common;
mod config;
mod cron;
mod docs;
mod doctor;
mod doctor_work;
mod init;
mod installs;
mod layers;
mod log;
mod mcp;
mod mcp_hidden;
mod mcp_import;
mod mcp_serve;
mod mcp_starting;
mod mcp_variables;
mod models;
mod plugins;
mod replay;
mod sandboxes;
mod savings;
mod schedule;
mod secrets;
mod seed_code_mode;
mod seed_tool_search;
mod sessions;
mod sessions_import;
mod sessions_runs;
mod skills;
mod starts;
mod tools;
mod trajectory;
mod trust;
mod users;
