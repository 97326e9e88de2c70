//! The layers of policy that a config makes for a run.

use pincer_catalog::{Layer, Policy, PolicyError, Rules};

use crate::Config;
use crate::keys::{AgentTools, CodeModeFields, RuleLists, ToolSearchFields};

/// The tools that are there out of the box.
const BUILT_IN: &str = "openclaw:core:*";

/// For whom a policy is made.
#[derive(Clone, Debug, Default)]
pub struct Subject<'a> {
    /// The agent's id.
    pub agent: Option<&'a str>,
    /// The model's provider.
    pub provider: Option<&'a str>,
    /// The model, as its provider calls it.
    pub model: Option<&'a str>,
    /// Who sent the message.
    pub sender: Option<&'a str>,
    /// Whether the session is sandboxed.
    pub sandboxed: bool,
    /// What the run itself allows; an empty list leaves nothing.
    pub run: Option<&'a [String]>,
}

impl Config {
    /// What a run may have. Each layer can only take away; the order is that in which they are explained.
    pub fn policy(&self, subject: &Subject<'_>) -> Result<Policy, PolicyError> {
        let agent = subject.agent.and_then(|id| Some((id, self.agent(id)?)));
        let mut layers = vec![self.profile(agent.map(|(id, agent)| (id, &agent.tools)))?];
        layers.push(Layer::new("tools", &self.tools.lists())?);
        layers.extend(by_provider("tools", &self.tools.by_provider, subject)?);
        if let Some((id, agent)) = agent {
            let at = format!("agents.{id}.tools");
            layers.push(Layer::new(at.as_str(), &agent.tools.lists())?);
            layers.extend(by_provider(&at, &agent.tools.by_provider, subject)?);
        }
        for (sender, rules) in self.by_sender(subject) {
            layers.push(Layer::new(format!("tools.bySender.{sender}"), &rules.rules())?);
        }
        if subject.sandboxed {
            layers.push(Layer::sandbox("tools.sandbox.tools", &self.tools.sandbox.tools.rules())?);
        }
        if let Some(allow) = subject.run {
            layers.push(Layer::run("the run's own list", allow)?);
        }
        Ok(layers.into_iter().fold(Policy::open(), Policy::with))
    }

    /// Returns the policy for a client of `mcp serve`: the built-in tools only if the config asks for tools by a list or a profile. A client
    /// that wants its MCP servers has not asked for tools that write files where it happens to start us.
    pub fn served_policy(&self, subject: &Subject<'_>) -> Result<Policy, PolicyError> {
        let policy = self.policy(subject)?;
        if self.asks_for_tools(subject) {
            return Ok(policy);
        }
        let rules = Rules { deny: vec![BUILT_IN.into()], ..Rules::default() };
        Ok(policy
            .with(Layer::new("mcp serve (set `tools.profile`, `allow` or `alsoAllow` for built-in tools)", &rules)?))
    }

    fn asks_for_tools(&self, subject: &Subject<'_>) -> bool {
        let tools = &self.tools;
        let all = tools.profile.is_some() || !tools.allow.is_empty() || !tools.also_allow.is_empty();
        let agent = subject.agent.and_then(|id| self.agent(id)).is_some_and(|agent| {
            let tools = &agent.tools;
            tools.profile.is_some() || !tools.allow.is_empty() || !tools.also_allow.is_empty()
        });
        let sender = self.by_sender(subject).any(|(_, rules)| {
            let rules = rules.rules();
            rules.profile.is_some() || !rules.allow.is_empty() || !rules.also_allow.is_empty()
        });
        all || agent || sender
    }

    /// Returns the rules for a sender: those under its own name, and those for all senders of its channel.
    fn by_sender<'a>(&'a self, subject: &Subject<'a>) -> impl Iterator<Item = (&'a String, &'a RuleLists)> {
        let everyone = subject.sender.and_then(|sender| Some(format!("{}:*", sender.split_once(':')?.0)));
        let names = subject.sender.map(str::to_owned).into_iter().chain(everyone);
        names.filter_map(|name| self.tools.by_sender.get_key_value(&name))
    }

    /// Code mode as it is for an agent, or for everybody.
    pub fn code_mode(&self, agent: Option<&str>) -> CodeModeFields {
        let all = self.tools.code_mode.fields();
        match agent.and_then(|id| self.agent(id)?.tools.code_mode.as_ref()) {
            Some(own) => own.fields().over(all),
            None => all,
        }
    }

    /// Returns the settings of Tool Search for an agent.
    pub fn tool_search(&self, agent: Option<&str>) -> ToolSearchFields {
        let all = self.tools.tool_search.fields();
        match agent.and_then(|id| self.agent(id)?.tools.tool_search.as_ref()) {
            Some(own) => own.fields().over(all),
            None => all,
        }
    }

    /// Returns the settings of code mode for an agent that asks a model. A model's own word on whether it is on counts most.
    pub fn code_mode_of(&self, agent: Option<&str>, provider: Option<&str>, model: Option<&str>) -> CodeModeFields {
        let fields = self.code_mode(agent);
        let entry = provider
            .and_then(|id| self.models.providers.get(id))
            .and_then(|provider| provider.models.iter().find(|entry| Some(entry.id.as_str()) == model));
        match entry.and_then(|entry| entry.code_mode) {
            Some(is_on) => CodeModeFields { enabled: Some(is_on), ..fields },
            None => fields,
        }
    }

    /// The profile and what is added to it: an agent's own replace those for all.
    fn profile(&self, agent: Option<(&str, &AgentTools)>) -> Result<Layer, PolicyError> {
        let own = agent.filter(|(_, tools)| tools.profile.is_some() || !tools.also_allow.is_empty());
        let (at, profile, also_allow) = match own {
            Some((id, tools)) => {
                (format!("agents.{id}.tools.profile"), tools.profile.or(self.tools.profile), &tools.also_allow)
            }
            None => ("tools.profile".into(), self.tools.profile, &self.tools.also_allow),
        };
        let rules = Rules { profile: profile.map(Into::into), also_allow: also_allow.clone(), ..Rules::default() };
        Layer::new(at, &rules)
    }

    /// Every place that has rules, for checking them all.
    pub(crate) fn all_rules(&self) -> Vec<(String, Rules)> {
        let lists = |at: String, lists: &RuleLists| (at, lists.rules());
        let tools = &self.tools;
        let own = |lists: Rules, also_allow: &[String]| Rules { also_allow: also_allow.to_vec(), ..lists };
        let mut all = vec![("tools".to_owned(), own(tools.lists(), &tools.also_allow))];
        all.extend(tools.by_provider.iter().map(|(key, rules)| lists(format!("tools.byProvider.{key}"), rules)));
        all.extend(tools.by_sender.iter().map(|(key, rules)| lists(format!("tools.bySender.{key}"), rules)));
        all.push(("tools.sandbox.tools".into(), tools.sandbox.tools.rules()));
        for (id, agent) in &self.agents {
            let at = format!("agents.{id}.tools");
            all.push((at.clone(), own(agent.tools.lists(), &agent.tools.also_allow)));
            all.extend(
                agent.tools.by_provider.iter().map(|(key, rules)| lists(format!("{at}.byProvider.{key}"), rules)),
            );
        }
        all
    }
}

/// The rules for the provider, and those for the model: both count.
fn by_provider(
    at: &str,
    all: &std::collections::BTreeMap<String, RuleLists>,
    subject: &Subject<'_>,
) -> Result<Vec<Layer>, PolicyError> {
    let Some(provider) = subject.provider else { return Ok(Vec::new()) };
    let model = subject.model.map(|model| format!("{provider}/{model}"));
    let keys = [Some(provider.to_owned()), model].into_iter().flatten();
    keys.filter_map(|key| all.get(&key).map(|rules| Layer::new(format!("{at}.byProvider.{key}"), &rules.rules())))
        .collect()
}
