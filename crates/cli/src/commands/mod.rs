//! One module per command.

pub(crate) mod agent;
pub(crate) mod approvals;
pub(crate) mod backup;
pub(crate) mod bench_calls;
pub(crate) mod bench_cells;
pub(crate) mod bench_fair;
pub(crate) mod bench_load;
pub(crate) mod bench_mcp;
pub(crate) mod bench_memory;
pub(crate) mod bench_memory_server;
pub(crate) mod bench_model;
pub(crate) mod bench_search;
mod bench_suspended;
pub(crate) mod bench_trivial;
pub(crate) mod call;
pub(crate) mod config;
pub(crate) mod confine;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod init;
pub(crate) mod mcp;
pub(crate) mod models;
pub(crate) mod plugins;
pub(crate) mod runs;
pub(crate) mod secrets;
pub(crate) mod tools;
