//! The rights of a caller: policy, settings, tools and identity, made in one place.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pincer_catalog::{Catalog, Entry, Layer, Policy, PolicyError, Rules};
use pincer_codemode::{Guest, Offer, People, RunScope, RunTools, Settings, SkillTexts};
use pincer_config::Config;
use pincer_store::{AgentRunId, CallId, SessionKey};
use pincer_tools::{ClientToolError, Context, Door, ReadableFolder, Site, UpdateSink, WorkspaceChoice};
use tokio_util::sync::CancellationToken;

use crate::settings::{offer, program_settings, tool_search_settings};
use crate::sites::Sites;

/// The views that are kept. Each has its own list of tools, and an index if programs search it: a few hundred kilobytes for 500
/// tools. With more callers than that, views that were not used for longest are made anew.
const MOST_VIEWS: usize = 128;

/// The tools that need a run of an agent around them.
const ONLY_IN_AGENT_RUNS: [&str; 2] = ["openclaw:core:cron", "openclaw:core:message"];

/// The caller of something. Runs, questions and processes of one principal are nothing to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    user: String,
    name: Option<String>,
    channel: Option<String>,
    /// The channel vouches for the name.
    is_heard: bool,
}

impl Principal {
    /// Returns the principal with this identity. It owns its runs under it.
    pub fn new(user: impl Into<String>) -> Self {
        Self { user: user.into(), name: None, channel: None, is_heard: false }
    }

    /// Returns the user of the system that this process runs as.
    pub fn of_this_process() -> Self {
        Self::new(format!("user:{}", rustix::process::getuid().as_raw()))
    }

    /// Returns the user that has the token of this name. Rules under `tools.bySender` know the user by that name.
    pub fn with_token(name: &str) -> Self {
        Self::new(format!("token:{name}")).known_as(Some(name.to_owned()))
    }

    /// Sets the name under which rules (`tools.bySender`) know the principal.
    #[must_use]
    pub fn known_as(self, name: Option<String>) -> Self {
        Self { name, ..self }
    }

    /// Sets the channel that the principal's requests come by, such as `mcp`. Hooks, plugins and the trail of calls then see the
    /// identity as the sender, which no request can choose, and not the name.
    #[must_use]
    pub fn over(self, channel: &str) -> Self {
        Self { channel: Some(channel.to_owned()), ..self }
    }

    /// Sets the channel that the principal's messages came by, and that vouches for the name of their sender. Hooks, plugins and the
    /// trail of calls see that name as the sender.
    #[must_use]
    pub fn heard_on(self, channel: &str) -> Self {
        Self { is_heard: true, ..self.over(channel) }
    }

    /// Returns the identity.
    pub fn user(&self) -> &str {
        &self.user
    }

    fn sender(&self) -> Option<String> {
        match self.channel {
            Some(_) if !self.is_heard => Some(self.user.clone()),
            _ => self.name.clone(),
        }
    }
}

/// Asks for a scope. Everything that policy, settings and identity are made of is in here, so that they agree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScopeRequest {
    /// The caller.
    pub principal: Principal,
    /// The session. A suspended program is continued in the session that began it.
    pub session: SessionKey,
    /// The agent's id in the config.
    pub agent: Option<String>,
    /// The model's provider.
    pub provider: Option<String>,
    /// The model, as its provider calls it.
    pub model: Option<String>,
    /// Whether the session is sandboxed.
    pub sandboxed: bool,
    /// The only tools of the run, among those that it has; none if the list is empty.
    pub tools_allow: Option<Vec<String>>,
    /// What a caller gets if the config does not say.
    pub audience: Audience,
}

/// What a caller gets if the config does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Audience {
    /// All tools but those that only a run of an agent has use for: a command of Pincer's operator.
    #[default]
    Operator,
    /// All tools, those that only a run of an agent has use for too, and the settings of agents also if the request names none.
    AgentRun,
    /// No built-in tools: a client that wants its MCP servers has not asked for tools that write files where it happens to start
    /// Pincer.
    Client,
}

impl ScopeRequest {
    /// Returns the request of an operator, without an agent.
    pub fn new(principal: Principal, session: impl Into<SessionKey>) -> Self {
        Self {
            principal,
            session: session.into(),
            agent: None,
            provider: None,
            model: None,
            sandboxed: false,
            tools_allow: None,
            audience: Audience::default(),
        }
    }

    fn policy(&self, config: &Config) -> Result<Policy, PolicyError> {
        let scope = pincer_config::Subject {
            agent: self.agent.as_deref(),
            provider: self.provider.as_deref(),
            model: self.model.as_deref(),
            sender: self.principal.name.as_deref(),
            sandboxed: self.sandboxed,
            run: self.tools_allow.as_deref(),
        };
        let policy = match self.audience {
            Audience::AgentRun => return config.policy(&scope),
            Audience::Operator => config.policy(&scope),
            Audience::Client => config.served_policy(&scope),
        };
        let rules = Rules { deny: ONLY_IN_AGENT_RUNS.map(str::to_owned).into(), ..Rules::default() };
        Ok(policy?.with(Layer::new("a caller that is no run of an agent", &rules)?))
    }

    fn context(&self) -> Context {
        Context {
            session: self.session.clone(),
            user: self.principal.user.clone(),
            agent: self.agent.clone(),
            sender: self.principal.sender(),
            channel: self.principal.channel.clone(),
            sandboxed: self.sandboxed,
            ..Context::default()
        }
    }
}

/// The rights of a caller: what all scopes of one request share.
struct View {
    request: ScopeRequest,
    policy: Policy,
    settings: Settings,
    offer: Offer,
    tool_search: Option<pincer_tool_search::Settings>,
    site: Arc<Site>,
    /// The workspace of the agent itself, if the session is sandboxed.
    agent_workspace: Option<WorkspaceChoice>,
    /// The tools that policy leaves, and the version of the door that they are of.
    tools: Mutex<Option<(u64, Arc<RunTools>)>>,
}

/// Gives a caller's rights to whatever runs in it. [`Runtime::scope`](crate::Runtime::scope) alone makes one. Clones share their
/// tokens: aborting one aborts all. [`Scope::renewed`] has tokens of its own.
#[derive(Clone)]
pub struct Scope {
    view: Arc<View>,
    settings: Settings,
    guest: Guest,
    site: Arc<Site>,
    parent_call: Option<CallId>,
    agent_run: Option<AgentRunId>,
    /// The tools, if some of them are the caller's own.
    client_tools: Option<Arc<RunTools>>,
    skills: Option<Arc<dyn SkillTexts>>,
    people: People,
    listener: Arc<dyn UpdateSink>,
    abort: CancellationToken,
    left: CancellationToken,
}

impl Scope {
    fn of(view: Arc<View>) -> Self {
        Self {
            settings: view.settings.clone(),
            guest: Guest::default(),
            site: Arc::clone(&view.site),
            view,
            parent_call: None,
            agent_run: None,
            client_tools: None,
            skills: None,
            people: People::Absent,
            listener: Arc::new(()),
            abort: CancellationToken::new(),
            left: CancellationToken::new(),
        }
    }

    /// Returns a scope with the same rights and nothing else of this one: no listener, no person, tokens of its own.
    #[must_use]
    pub fn renewed(&self) -> Self {
        Self::of(Arc::clone(&self.view))
    }

    /// Sets whether a person is there to answer questions. By default no person is.
    #[must_use]
    pub fn with_people(self, people: People) -> Self {
        Self { people, ..self }
    }

    /// Sets the listener: it answers tools that ask their caller for something, and hears of questions to a person.
    #[must_use]
    pub fn with_listener(self, listener: Arc<dyn UpdateSink>) -> Self {
        Self { listener, ..self }
    }

    /// Sets the call within which programs run: events of their calls carry it.
    #[must_use]
    pub fn within(self, call: impl Into<CallId>) -> Self {
        Self { parent_call: Some(call.into()), ..self }
    }

    /// Sets the run of an agent that programs and calls are part of. No other run may continue them.
    #[must_use]
    pub fn of_agent_run(self, run: AgentRunId) -> Self {
        Self { agent_run: Some(run), ..self }
    }

    /// Sets the token that ends what runs in this scope.
    #[must_use]
    pub fn ended_by(self, abort: CancellationToken) -> Self {
        Self { abort, ..self }
    }

    /// Changes the settings for this scope alone.
    #[must_use]
    pub fn with_settings(self, change: impl FnOnce(Settings) -> Settings) -> Self {
        Self { settings: change(self.settings), ..self }
    }

    /// Gives its programs what those of `tool_search_code` have, in place of the globals of code mode. Nothing if the model of the scope
    /// does not search for its tools.
    #[must_use]
    pub fn searching(self) -> Self {
        let Some(search) = &self.view.tool_search else { return self };
        let settings = Settings {
            guest_time: Some(search.code_timeout),
            search_usual: search.limits.usual,
            search_most: search.limits.most,
            ..self.settings
        };
        Self { guest: Guest::ToolSearch, settings, ..self }
    }

    /// Adds the skills of an agent's run: folders that may be read, variables that commands get, and texts for programs.
    #[must_use]
    pub fn with_skills(
        self,
        readable: Vec<ReadableFolder>,
        environment: BTreeMap<String, String>,
        texts: Arc<dyn SkillTexts>,
    ) -> Self {
        let site = Site { workspace: self.site.workspace.clone(), readable, environment };
        Self { site: Arc::new(site), skills: Some(texts), ..self }
    }

    /// Returns the site: the workspace, and what else there is of directories and variables.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Returns the workspace of the agent itself, if the session has one of its own.
    pub fn agent_workspace(&self) -> Option<&WorkspaceChoice> {
        self.view.agent_workspace.as_ref()
    }

    /// Returns the request that the rights are made of.
    pub fn request(&self) -> &ScopeRequest {
        &self.view.request
    }

    /// Returns the caller.
    pub fn principal(&self) -> &Principal {
        &self.view.request.principal
    }

    /// Returns how much programs may use.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the policy that the tools are chosen by.
    pub fn policy(&self) -> &Policy {
        &self.view.policy
    }

    /// Returns how tools are offered to a model.
    pub fn offer(&self) -> Offer {
        self.view.offer
    }

    /// Returns how the model of an agent's run finds its tools, if it is to search for them. It is not where code mode is on.
    pub fn tool_search(&self) -> Option<&pincer_tool_search::Settings> {
        self.view.tool_search.as_ref()
    }

    /// Returns whether a person is there to answer questions.
    pub fn people(&self) -> People {
        self.people
    }

    /// Returns the token that ends what runs in this scope.
    pub fn abort(&self) -> &CancellationToken {
        &self.abort
    }

    /// Returns the token that tells that the person has left: no answer is waited for any more.
    pub fn left(&self) -> &CancellationToken {
        &self.left
    }

    pub(crate) fn client_tools(&self) -> Option<&Arc<RunTools>> {
        self.client_tools.as_ref()
    }

    pub(crate) fn listener(&self) -> &Arc<dyn UpdateSink> {
        &self.listener
    }

    pub(crate) fn context(&self) -> Context {
        let (parent_call, abort, agent_run) = (self.parent_call.clone(), self.abort.clone(), self.agent_run.clone());
        Context { parent_call, abort, agent_run, site: Arc::clone(&self.site), ..self.view.request.context() }
    }

    /// Returns the scope as code mode takes it, for programs that may take so long.
    pub(crate) fn of_run(&self, tools: Arc<RunTools>, timeout: Duration) -> RunScope {
        let timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        RunScope {
            people: self.people,
            listener: Arc::clone(&self.listener),
            left: self.left.clone(),
            skills: self.skills.clone(),
            guest: self.guest,
            ..RunScope::new(tools, self.settings.clone().timeout_ms(timeout), self.context())
        }
    }
}

/// The rights of all callers, kept for as long as the door has not changed.
#[derive(Default)]
pub(crate) struct Views {
    kept: Mutex<Kept>,
    /// All tools at the door, at one version.
    catalog: Mutex<Option<(u64, Arc<Catalog>)>>,
}

#[derive(Default)]
struct Kept {
    views: HashMap<ScopeRequest, (Arc<View>, u64)>,
    /// Counts uses, so that the one that was not used for longest can be told.
    uses: u64,
}

impl Views {
    /// Returns a scope for a request, with tokens of its own.
    pub(crate) fn scope(&self, config: &Config, sites: &Sites, request: &ScopeRequest) -> Result<Scope, PolicyError> {
        let request = &ScopeRequest { sandboxed: sites.is_sandboxed(request), ..request.clone() };
        let mut kept = lock(&self.kept);
        kept.uses += 1;
        let now = kept.uses;
        if let Some((view, used)) = kept.views.get_mut(request) {
            *used = now;
            return Ok(Scope::of(Arc::clone(view)));
        }
        let (agent, model) = (request.agent.as_deref(), request.model.as_deref());
        let fields = config.code_mode_of(agent, request.provider.as_deref(), model);
        let offer = offer(&fields);
        let searches = request.audience == Audience::AgentRun && offer == Offer::Direct;
        let view = Arc::new(View {
            policy: request.policy(config)?,
            settings: program_settings(&fields),
            tool_search: searches.then(|| tool_search_settings(&config.tool_search(agent))).flatten(),
            offer,
            site: Arc::new(Site { workspace: sites.workspace(request), ..Site::default() }),
            agent_workspace: request.sandboxed.then(|| sites.own_workspace(request)),
            tools: Mutex::default(),
            request: request.clone(),
        });
        if kept.views.len() >= MOST_VIEWS {
            let oldest = kept.views.iter().min_by_key(|(_, (_, used))| *used).map(|(request, _)| request.clone());
            oldest.and_then(|request| kept.views.remove(&request));
        }
        kept.views.insert(request.clone(), (Arc::clone(&view), now));
        Ok(Scope::of(view))
    }

    /// Returns the tools of a scope, as they are at the door now.
    pub(crate) fn tools(&self, door: &Door, scope: &Scope) -> Arc<RunTools> {
        let version = door.version();
        let mut kept = lock(&scope.view.tools);
        match &*kept {
            Some((of, tools)) if *of == version => Arc::clone(tools),
            _ => {
                let View { request, policy, site, .. } = &*scope.view;
                let context = Context { site: Arc::clone(site), ..request.context() };
                let tools = RunTools::new(door, &self.catalog(door, version), policy, &context);
                let tools = Arc::new(tools);
                *kept = Some((version, Arc::clone(&tools)));
                tools
            }
        }
    }

    /// Returns a scope with tools of its caller besides.
    pub(crate) fn with_clients(
        &self,
        door: &Door,
        scope: Scope,
        clients: Vec<Entry>,
    ) -> Result<Scope, ClientToolError> {
        let catalog = self.catalog(door, door.version());
        let tools = RunTools::with_clients(door, &catalog, &scope.view.policy, &scope.context(), clients)?;
        Ok(Scope { client_tools: Some(Arc::new(tools)), ..scope })
    }

    /// Returns all tools at the door, whatever policy says.
    pub(crate) fn catalog(&self, door: &Door, version: u64) -> Arc<Catalog> {
        let mut kept = lock(&self.catalog);
        match &*kept {
            Some((of, catalog)) if *of == version => Arc::clone(catalog),
            _ => {
                let catalog = Catalog::new(door.entries()).unwrap_or_else(|error| {
                    // The door takes no id twice. Should it ever, no caller has any tool.
                    tracing::error!("the tools at the door cannot be listed: {error}");
                    Catalog::default()
                });
                let catalog = Arc::new(catalog);
                *kept = Some((version, Arc::clone(&catalog)));
                catalog
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
