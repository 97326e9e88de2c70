//! Language models over their own wires: a request of ours in, a stream of events of ours out.
//!
//! Three formats are spoken: OpenAI Chat Completions, OpenAI Responses and Anthropic Messages. The crate knows nothing of tools,
//! sessions or agents. The body of a request is built once, as text; before it is sent, the tools in it are compared with those
//! that the run may show, and a difference ends the run.
//!
//! ```no_run
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//!
//! use futures_util::StreamExt;
//! use pincer_model::{Api, Debug, Event, Keys, Message, Models, Plan, Profile, Provider, Request, Target};
//!
//! # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
//! let provider = Arc::new(Provider {
//!     id: "local".into(),
//!     base_url: "http://127.0.0.1:8080/v1".parse()?,
//!     api: Api::ChatCompletions,
//!     headers: BTreeMap::new(),
//!     timeout: None,
//!     models: Vec::new(),
//! });
//! let keys = Keys::new(BTreeMap::from([("local".into(), vec![Profile { id: "local".into(), find: None }])]));
//! let models = Models::new(keys, Debug::default(), None);
//! let request = Request { messages: vec![Message::user("Say hello.")], ..Request::default() };
//! let mut reply = models.ask(Plan::new(Target::new(&provider, "small")), request);
//! while let Some(event) = reply.next().await {
//!     if let Event::Text(text) = event? {
//!         print!("{text}");
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod attempt;
mod body;
mod debug;
mod draft;
mod error;
mod event;
mod failure;
mod gate;
mod keys;
mod known;
mod limits;
mod listing;
mod message;
mod models;
mod record;
mod replay;
mod request;
mod settings;
mod thinking;
mod timeouts;
mod wire;

pub use debug::{Debug, Events, Payload};
pub use error::{ErrorKind, ModelError, Retry};
pub use event::{Event, Reply, Stop, Usage};
pub use keys::{Find, Keys, Profile, Secret};
pub use known::{PRESETS, Preset, known_provider};
pub use message::{Api, Assistant, Content, Image, Message, Origin, Part, ToolCall, ToolResult};
pub use models::{Models, Plan, Replying};
pub use record::Recorder;
pub use replay::replay;
pub use request::{Cache, Choice, Request, Surface, Tool};
pub use settings::{Cost, Model, Provider, Target};
pub use thinking::{Level, Reasoning};
pub use timeouts::Idle;
