//! A look at the instructions of a message that is not sent.

use pincer_model::Tool;
use pincer_store::{SessionKey, Sessions};

use crate::agent::Agent;
use crate::error::AgentError;
use crate::hooks::{Beginning, RunHooks};
use crate::preparing::{Prepared, Sender, prepared};
use crate::prompt::Prompt;
use crate::request::Request;

/// The instructions that a model would get with a message.
#[derive(Clone, Debug)]
pub struct ShownPrompt {
    /// The instructions.
    pub prompt: Prompt,
    /// The tools that it would be shown.
    pub tools: Vec<Tool>,
    /// The model, as `provider/model`.
    pub model: Option<String>,
    /// The workspace, if it is another one than the usual.
    pub workspace: Option<String>,
}

impl Agent {
    /// Returns the instructions that a message would be sent with. Nothing is sent and nothing is stored.
    pub async fn show_prompt(
        &self,
        user: &str,
        key: &SessionKey,
        request: &Request,
    ) -> Result<ShownPrompt, AgentError> {
        let session = self.0.store.current_session(user, key).await?;
        let mut hooks = RunHooks::new(&self.0, user, key, request);
        if let Some(session) = &session {
            hooks = hooks.in_session(&session.id);
        }
        let of = Sender { user, key, session: session.as_ref(), run: None, hooks: &hooks };
        // Hooks that look at a message are not asked: there is none.
        let prepared = prepared(&self.0, &of, request, &Beginning::default()).await?;
        let Prepared { scope, surface, plan, prompt, .. } = prepared;
        let target = plan.targets.first();
        Ok(ShownPrompt {
            prompt,
            tools: surface.tools.clone(),
            model: target.map(|target| format!("{}/{}", target.provider.id, target.model.id)),
            workspace: scope.site().workspace.path().map(|path| path.display().to_string()),
        })
    }
}
