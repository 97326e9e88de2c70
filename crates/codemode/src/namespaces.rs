//! The namespaces of one run: which it has, how its programs see them, and which tool a call of one means.

use pincer_catalog::{Catalog, Source, ToolId};
use pincer_sandbox::{Global, Json, JsonError};
use pincer_tools::{
    Arguments, Context, Namespace, NamespaceError, NamespaceFunction, NamespacePart, NamespaceSource, PATH_SEPARATOR,
    TooManyArguments,
};
use serde_json::Value;

/// A namespace that a run has.
pub(crate) struct Visible {
    pub id: String,
    pub global: String,
    pub description: Option<String>,
    pub prompt: Option<String>,
    plugin: String,
    scope: NamespacePart,
}

/// Returns the namespaces whose tools are all there and the plugin's own, and the errors of those that are left out although they
/// are.
pub(crate) fn visible(
    registered: Vec<(String, Namespace)>,
    catalog: &Catalog,
    context: &Context,
) -> (Vec<Visible>, Vec<NamespaceError>) {
    let (mut there, mut refused) = (Vec::new(), Vec::new());
    for (plugin, namespace) in registered {
        let has = |tool: &String| id_of(&plugin, tool).is_some_and(|id| catalog.get(&id).is_some());
        if !namespace.required_tools.iter().all(has) {
            continue;
        }
        let scope = match &namespace.scope {
            NamespaceSource::Fixed(scope) => scope.clone(),
            NamespaceSource::Made(make) => make(context),
        };
        match namespace.check_scope(&scope) {
            Ok(()) => {
                let Namespace { id, global, description, prompt, .. } = namespace;
                there.push(Visible { id, global, description, prompt, plugin, scope });
            }
            Err(error) => refused.push(error),
        }
    }
    (there, refused)
}

/// Returns the tool that a call of a namespace means, for tests of what a broken bridge could ask for.
#[doc(hidden)]
pub fn resolve_namespace_call(tools: &crate::RunTools, id: &str, path: &str) -> Option<String> {
    let namespace = tools.namespaces().iter().find(|namespace| namespace.id == id)?;
    namespace.call(path, Vec::new())?.ok().map(|(tool, _)| tool)
}

fn id_of(plugin: &str, tool: &str) -> Option<String> {
    ToolId::new(Source::Plugin, plugin, tool).ok().map(|id| id.to_string())
}

impl Visible {
    /// Returns the namespace as programs get it. A function knows the namespace and its place in it.
    pub(crate) fn guest_scope(&self) -> Global {
        self.node(&self.scope, &mut Vec::new())
    }

    fn node(&self, scope: &NamespacePart, path: &mut Vec<String>) -> Global {
        match scope {
            NamespacePart::Value(value) => Global::Data(Json::of(value).unwrap_or_else(|_| Json::null())),
            NamespacePart::Object(members) => Global::Object(
                members.iter().map(|(key, member)| (key.clone(), self.within(key.clone(), member, path))).collect(),
            ),
            NamespacePart::Array(items) => Global::Array(
                items.iter().enumerate().map(|(index, item)| self.within(index.to_string(), item, path)).collect(),
            ),
            NamespacePart::Tool(_) => {
                let place = [self.id.clone(), path.join(&PATH_SEPARATOR.to_string())];
                Global::Bound("namespace".into(), Json::of(&place).unwrap_or_else(|_| Json::null()))
            }
        }
    }

    fn within(&self, key: String, scope: &NamespacePart, path: &mut Vec<String>) -> Global {
        path.push(key);
        let node = self.node(scope, path);
        path.pop();
        node
    }

    /// Returns the tool of the function at this path, and its input for these arguments. `None` if there is no function.
    pub(crate) fn call(
        &self,
        path: &str,
        arguments: Vec<Option<Json>>,
    ) -> Option<Result<(String, Json), TooManyArguments>> {
        let parts = path.split(PATH_SEPARATOR);
        let found = parts.filter(|part| !part.is_empty()).try_fold(&self.scope, |scope, part| match scope {
            NamespacePart::Object(members) => members.get(part),
            NamespacePart::Array(items) => items.get(part.parse::<usize>().ok()?),
            NamespacePart::Value(_) | NamespacePart::Tool(_) => None,
        })?;
        let NamespacePart::Tool(NamespaceFunction { tool, arguments: arrange }) = found else { return None };
        let input = match arrange {
            Arguments::First => arguments.into_iter().next().flatten().filter(|first| !first.is_null()),
            _ => {
                let values = arguments.iter().map(|argument| argument.as_ref().map(Json::to).transpose());
                let values: Result<Vec<Option<Value>>, JsonError> = values.collect();
                match arrange.input(values.ok()?) {
                    Ok(input) => Some(Json::of(&input).ok()?),
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        Some(Ok((id_of(&self.plugin, tool)?, input.unwrap_or_else(Json::empty_object))))
    }
}
