//! `ask URL MODEL [OPTION…]`: asks a model over one of the three wire formats, and tells how the reply came in.
//!
//! `interop/run models` runs it against a real server. By hand:
//! `cargo run -p pincer-model --example ask -- http://127.0.0.1:8080/v1 small --api openai-responses --json`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that talks to the person or suite that started it"
)]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use futures_util::StreamExt;
use pincer_model::{
    Api, Debug, ErrorKind, Event, Keys, Message, ModelError, Models, Plan, Profile, Provider, Recorder, Reply, Request,
    Target,
};
use serde_json::{Value, json};

const USAGE: &str = "\
usage: ask URL MODEL [OPTION…]
  --api FORMAT         openai-completions (default), openai-responses or anthropic-messages
  --prompt TEXT        the question (default: What is 2+2?)
  --repeat-prompt N    asks it N times in one message
  --turns N            asks it in N turns of one conversation
  --max-tokens N       the most tokens of a reply
  --cancel-after N     drops the first reply after N events
  --list               lists the provider's models instead
  --record DIRECTORY   records the exchanges
  --json               prints a line per kind of event and one for the end, instead of the text";

struct Options {
    url: String,
    model: String,
    api: Api,
    prompt: String,
    repeat: usize,
    turns: usize,
    max_tokens: Option<u32>,
    cancel_after: Option<usize>,
    is_listing: bool,
    record: Option<PathBuf>,
    is_json: bool,
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let mut options = Self {
            url: arguments.next()?,
            model: arguments.next()?,
            api: Api::ChatCompletions,
            prompt: "What is 2+2?".to_owned(),
            repeat: 1,
            turns: 1,
            max_tokens: None,
            cancel_after: None,
            is_listing: false,
            record: None,
            is_json: false,
        };
        while let Some(option) = arguments.next() {
            match option.as_str() {
                "--list" => options.is_listing = true,
                "--json" => options.is_json = true,
                _ => options.set(&option, arguments.next()?)?,
            }
        }
        Some(options)
    }

    fn set(&mut self, option: &str, value: String) -> Option<()> {
        match option {
            "--api" => self.api = Api::ALL.into_iter().find(|api| api.name() == value)?,
            "--prompt" => self.prompt = value,
            "--repeat-prompt" => self.repeat = value.parse().ok()?,
            "--turns" => self.turns = value.parse().ok()?,
            "--max-tokens" => self.max_tokens = Some(value.parse().ok()?),
            "--cancel-after" => self.cancel_after = Some(value.parse().ok()?),
            "--record" => self.record = Some(value.into()),
            _ => return None,
        }
        Some(())
    }

    fn provider(&self) -> Option<Provider> {
        Some(Provider {
            id: "asked".to_owned(),
            base_url: self.url.parse().ok()?,
            api: self.api,
            headers: BTreeMap::new(),
            timeout: None,
            models: Vec::new(),
        })
    }
}

/// How a turn ends.
enum End {
    Reply(Box<Reply>),
    Cancelled,
    Failed(ModelError),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(options) = Options::parse(std::env::args().skip(1)) else { return usage() };
    let Some(provider) = options.provider() else { return usage() };
    let keys = BTreeMap::from([(provider.id.clone(), vec![Profile { id: "none".to_owned(), find: None }])]);
    let models = Models::new(Keys::new(keys), Debug::default(), options.record.as_deref().map(Recorder::new));
    if options.is_listing {
        return list(&models, &provider).await;
    }
    let target = Target::new(&Arc::new(provider), &options.model);
    let mut messages = Vec::new();
    for turn in 0..options.turns {
        messages.push(Message::user(vec![options.prompt.as_str(); options.repeat].join("\n")));
        let request = Request {
            messages: messages.clone(),
            max_tokens: options.max_tokens,
            temperature: Some(0.0),
            ..Request::default()
        };
        let end = ask(&models, &target, request, &options, options.cancel_after.filter(|_| turn == 0)).await;
        println!("{}", report(&end));
        match end {
            End::Reply(reply) => messages.push(Message::Assistant(reply.message)),
            End::Cancelled => drop(messages.pop()),
            End::Failed(_) => return ExitCode::FAILURE,
        }
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

async fn list(models: &Models, provider: &Provider) -> ExitCode {
    match models.list(provider).await {
        Ok(models) => {
            println!("{}", json!({ "end": "models", "models": models }));
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{}", report(&End::Failed(error)));
            ExitCode::FAILURE
        }
    }
}

/// Asks for one reply. The stream is dropped when this returns, which closes the connection of a reply that is not over.
async fn ask(
    models: &Models,
    target: &Target,
    request: Request,
    options: &Options,
    cancel_after: Option<usize>,
) -> End {
    let mut reply = models.ask(Plan::new(target.clone()), request);
    let mut counts: Vec<(&str, usize)> = Vec::new();
    let mut events = 0;
    let end = loop {
        if cancel_after == Some(events) {
            break End::Cancelled;
        }
        match reply.next().await {
            Some(Ok(Event::Done(reply))) => break End::Reply(reply),
            Some(Ok(event)) => {
                events += 1;
                if let (Event::Text(text), false) = (&event, options.is_json) {
                    print!("{text}");
                    // Nothing can be done about a reader that is gone.
                    let _ = std::io::stdout().flush();
                }
                match counts.iter_mut().find(|(kind, _)| *kind == kind_of(&event)) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((kind_of(&event), 1)),
                }
            }
            Some(Err(error)) => break End::Failed(error),
            None => break End::Failed(ModelError::new(ErrorKind::CutOff, "the stream ended without an end")),
        }
    };
    match options.is_json {
        true => counts.iter().for_each(|(kind, count)| println!("{}", json!({ "event": kind, "count": count }))),
        false => println!(),
    }
    end
}

fn kind_of(event: &Event) -> &'static str {
    match event {
        Event::Adjusted { .. } => "adjusted",
        Event::Retrying { .. } => "retrying",
        Event::FallingBack { .. } => "falling_back",
        Event::Began { .. } => "began",
        Event::Text(_) => "text",
        Event::Thinking(_) => "thinking",
        Event::Refusal(_) => "refusal",
        Event::CallBegan { .. } => "call_began",
        Event::CallArguments { .. } => "call_arguments",
        Event::Done(_) => "done",
    }
}

fn report(end: &End) -> Value {
    match end {
        End::Reply(reply) => json!({
            "end": "reply", "text": reply.message.text().len(), "stop": reply.stop, "usage": reply.usage,
            "hasId": reply.id.is_some(),
        }),
        End::Cancelled => json!({ "end": "cancelled" }),
        End::Failed(error) => {
            let (used, limit) = match error.kind {
                ErrorKind::ContextOverflow { used, limit } => (used, limit),
                _ => (None, None),
            };
            json!({
                "end": "error", "kind": error.kind.name(), "message": error.message, "status": error.status,
                "used": used, "limit": limit,
            })
        }
    }
}
