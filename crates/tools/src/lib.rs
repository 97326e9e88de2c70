//! The one door: there is exactly one function through which any tool runs, [`Door::call`].
//!
//! Direct calls, nested calls of programs, calls over HTTP and MCP all come through here, and all are treated alike: the tool
//! is looked up in the caller's own view, the input is checked, hooks and rules and people have their say, the call is
//! journalled, the tool runs under a deadline and can be aborted, its value is checked, and everybody who should know is told.
//! A second way to a tool would be a security bug.
//!
//! This crate decides and records; what there is to call comes from others as [`Tool`]s under [`pincer_catalog::Entry`]s, and
//! what must survive goes to a [`pincer_store`].

mod approval_request;
mod approvals;
mod asking;
mod catch_panic;
mod client;
mod context;
mod control;
mod door;
mod escape;
mod events;
mod fingerprint;
pub mod hooks;
mod hub;
mod journal;
mod matcher;
mod namespace;
mod outcome;
mod plugin;
mod register;
mod registry;
mod run_owner;
mod running;
mod schema;
mod server;
mod site;
mod telling;
mod tool;
mod under_way;
mod values;

pub use pincer_hooks::BoxFuture;
pub use pincer_json::{Json, JsonError, Payload};

pub use approval_request::ApprovalRequest;
pub use approvals::{Answer, ApprovalRule, RuleDecision, call_digest};
pub use asking::answer_question;
pub use catch_panic::CatchPanic;
pub use client::{ClientToolError, client_result};
pub use context::{Context, Nesting};
pub use control::{Admission, Asking, ControlCall};
pub use door::{Call, Door, DoorStore};
pub use escape::{is_hidden, one_line};
pub use events::{Event, EventKind, EventSink};
pub use fingerprint::{Fingerprint, fingerprint};
pub use hub::{Filter, Hub, Subscription, Told};
pub use matcher::Matcher;
pub use namespace::{
    Arguments, Namespace, NamespaceError, NamespaceFunction, NamespacePart, NamespaceSource, PATH_SEPARATOR,
    TooManyArguments,
};
pub use outcome::{CallError, ErrorCode, Outcome, recorded};
pub use pincer_secrecy::Redactor;
pub use plugin::{Plugin, PluginError};
pub use register::{DoorBuilder, RunCatalog};
pub use registry::RegisterError;
pub use run_owner::{RunOwner, SyncNext};
pub use schema::{SchemaError, check_schema};
pub use server::{Server, ServerState};
pub use site::{ReadableFolder, Site, WorkspaceChoice};
pub use tool::{Effect, FnTool, Maker, Request, Tool, ToolCall, ToolError, UpdateSink};
