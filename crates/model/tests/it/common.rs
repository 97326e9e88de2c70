//! A scripted provider, and requests to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use pincer_model::{
    Api, Debug, Event, Keys, Message, Model, ModelError, Models, Plan, Profile, Provider, Reply, Request, Secret,
    Target, Tool,
};
use pincer_scripted::{Format, Script, Server};
use serde_json::json;

/// Longer than anything takes that happens at all.
pub(crate) const NEVER: Duration = Duration::from_secs(60);

pub(crate) struct House {
    pub server: Server,
    pub models: Models,
}

pub(crate) fn format(api: Api) -> Format {
    match api {
        Api::ChatCompletions => Format::Chat,
        Api::Responses => Format::Responses,
        Api::Messages => Format::Messages,
    }
}

pub(crate) fn key(id: &str, text: &str) -> Profile {
    let secret = Secret::new(text);
    Profile { id: id.to_owned(), find: Some(Arc::new(move || Ok(secret.clone()))) }
}

pub(crate) fn house(script: &str) -> House {
    house_with(script, vec![key("main", "key-of-the-provider")], Debug::default())
}

pub(crate) fn house_with(script: &str, keys: Vec<Profile>, debug: Debug) -> House {
    let server = Server::start(Script::parse(script).unwrap_or_else(|error| panic!("{error}: {script}"))).unwrap();
    let others = ["p", "q"].map(|id| (id.to_owned(), keys.clone()));
    House { server, models: Models::new(Keys::new(BTreeMap::from(others)), debug, None) }
}

/// A script of one reply for each of these objects.
pub(crate) fn script(replies: &[&str]) -> String {
    format!("{{ replies: [{}] }}", replies.join(", "))
}

impl House {
    pub(crate) fn provider(&self, id: &str, api: Api) -> Provider {
        Provider {
            id: id.to_owned(),
            base_url: self.server.base_url(format(api)).parse().unwrap(),
            api,
            headers: BTreeMap::new(),
            timeout: None,
            models: Vec::new(),
        }
    }

    pub(crate) fn target(&self, api: Api) -> Target {
        Target::new(&Arc::new(self.provider("p", api)), "scripted")
    }

    pub(crate) fn target_with(&self, api: Api, model: Model) -> Target {
        Target { provider: Arc::new(self.provider("p", api)), model: Model { id: "scripted".into(), ..model } }
    }

    pub(crate) async fn events(&self, plan: Plan, request: Request) -> (Vec<Event>, Option<ModelError>) {
        let mut stream = self.models.ask(plan, request);
        let mut events = Vec::new();
        let all = async {
            while let Some(event) = stream.next().await {
                match event {
                    Ok(event) => events.push(event),
                    Err(error) => return Some(error),
                }
            }
            None
        };
        let error = tokio::time::timeout(NEVER, all).await.expect("it comes to an end");
        (events, error)
    }

    pub(crate) async fn reply(&self, api: Api, request: Request) -> Reply {
        let (mut events, error) = self.events(Plan::new(self.target(api)), request).await;
        match (events.pop(), error) {
            (Some(Event::Done(reply)), None) => *reply,
            (last, error) => panic!("{error:?} after {last:?}; {:?}", self.server.complaints()),
        }
    }

    pub(crate) async fn error(&self, api: Api) -> ModelError {
        let plan = Plan { attempts: 1, ..Plan::new(self.target(api)) };
        self.events(plan, hello()).await.1.expect("an error")
    }

    pub(crate) fn body(&self, index: usize) -> serde_json::Value {
        self.server.requests()[index].body.clone()
    }
}

pub(crate) fn hello() -> Request {
    Request { messages: vec![Message::user("Hello.")], ..Request::default() }
}

pub(crate) fn tool(name: &str) -> Tool {
    Tool {
        name: name.into(),
        description: format!("Does {name}."),
        parameters: json!({ "type": "object", "properties": {} }),
    }
}

/// A request with the two tools of code mode.
pub(crate) fn coding() -> Request {
    Request { tools: vec![tool("exec"), tool("wait")], surface: ["exec", "wait"].into_iter().collect(), ..hello() }
}
