//! From a typed tool to one of the door's: schemas out of the types, JSON in and out.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use pincer_catalog::{Entry, Flags, IdError, Source, ToolId};
use pincer_tools::{BoxFuture, Context, Payload, Tool, ToolCall, ToolError, UpdateSink};
use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The owner of all tools in here.
const OWNER: &str = "core";

/// What a tool may need beside its input.
#[derive(Clone)]
pub(crate) struct Running {
    pub context: Context,
    pub updates: Arc<dyn UpdateSink>,
    pub abort: CancellationToken,
}

/// A tool with typed input and output. The comments on the types are what a model reads.
pub(crate) trait Core: Send + Sync + 'static {
    const NAME: &'static str;
    const LABEL: &'static str;
    const DESCRIPTION: &'static str;
    /// What programs of other environments use for the same.
    const INSTEAD_OF: &'static [&'static str] = &[];
    type Input: DeserializeOwned + JsonSchema + Send;
    type Output: Serialize + JsonSchema;

    fn flags() -> Flags;

    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(60))
    }

    fn run(&self, input: Self::Input, running: Running)
    -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}

/// It looks and changes nothing.
pub(crate) const LOOKS: Flags = Flags {
    read_only: true,
    claims_read_only: false,
    idempotent: true,
    sequential: false,
    direct_only: false,
    trusted: true,
};
/// It changes things.
pub(crate) const CHANGES: Flags = Flags { read_only: false, idempotent: false, ..LOOKS };

pub(crate) fn entry<T: Core>() -> Result<Entry, IdError> {
    let mut entry = Entry::new(ToolId::new(Source::Openclaw, OWNER, T::NAME)?, T::DESCRIPTION);
    entry.label = Some(T::LABEL.into());
    entry.input_schema = schema::<T::Input>(Contract::Deserialize);
    entry.output_schema = Some(schema::<T::Output>(Contract::Serialize));
    entry.flags = T::flags();
    entry.instead_of = T::INSTEAD_OF;
    Ok(entry)
}

/// A schema without names of ours in it: of what is taken, or of what is given.
fn schema<T: JsonSchema>(contract: Contract) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings.contract = contract.clone();
    });
    let mut schema: Schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    // What the type is called says nothing that the tool's description does not.
    schema.remove("description");
    let mut schema = schema.to_value();
    tidy(&mut schema, &contract);
    schema
}

/// Takes out what tells a reader nothing: how many bits a number has, and that what is left out could be `null`.
fn tidy(schema: &mut Value, contract: &Contract) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| tidy(item, contract)),
        Value::Object(members) => {
            if members.get("format").and_then(Value::as_str).is_some_and(|format| format.contains("int")) {
                members.remove("format");
            }
            if let Some(Value::Array(types)) = members.get_mut("type")
                && *contract == Contract::Serialize
            {
                types.retain(|kind| kind != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    members.insert("type".into(), only);
                }
            }
            members.values_mut().for_each(|member| tidy(member, contract));
        }
        _ => {}
    }
}

pub(crate) struct Typed<T>(pub T);

impl<T: Core> Tool for Typed<T> {
    fn call(&self, call: ToolCall) -> BoxFuture<'_, Result<Payload, ToolError>> {
        Box::pin(async move {
            let ToolCall { input, context, updates, abort } = call;
            let input = serde_json::from_value(input)
                .map_err(|error| ToolError::before(format!("the input cannot be used: {error}")))?;
            let output = self.0.run(input, Running { context, updates, abort }).await?;
            // A tree, because it is checked against the schema of its type.
            serde_json::to_value(output).map(Payload::Value).map_err(|error| ToolError {
                message: format!("the result is no JSON: {error}"),
                effect: pincer_tools::Effect::Done,
                detail: None,
            })
        })
    }

    fn timeout(&self) -> Option<Duration> {
        self.0.timeout()
    }
}

/// Files block; the runtime must not.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(broken) => match broken.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and whoever waits with it.
            Err(_) => std::future::pending().await,
        },
    }
}
