//! Makes the calls of a reply: those that may be made at once together, sequential ones in their order. Each result is stored as soon
//! as it is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pincer_codemode::Guest;
use pincer_model::{Content, ToolCall};
use pincer_runtime::Scope;
use pincer_store::{ApprovalId, ApprovalState, Approvals, Attach, Clock, EntryKind, NewEntry};
use pincer_tool_search::Mode;
use pincer_tools::{Answer, Call, CatchPanic, UpdateSink};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::claimed::Waits;
use crate::detail::KnownCall;
use crate::event::{Happening, reported, shortened, shown};
use crate::fitting::{Size, fitted, room};
use crate::lane::{Lost, Step};
use crate::record::{self, CallResult};
use crate::replies::{Said, failed_with, summary};
use crate::surface::{Meaning, Style, WAIT};
use crate::telemetry::SettledCall;
use crate::told_result::{called, changed, content_of};
use crate::transcript::{MOST_CALLS, OpenCall, OpenCalls};
use crate::turn::Turn;

/// The result of a call that gives way to a message.
const SKIPPED: &str = "Skipped to process an incoming message.";

/// The outcome of making a call.
pub(crate) enum CallEnd {
    /// The call has a result of its own, which hooks have seen.
    Settled(CallResult, Vec<NewEntry>),
    /// No tool was called, so no hook has seen the result yet: what is told in place of one, or found by a search.
    Unmade(CallResult),
    Waits(Waits),
}

impl CallEnd {
    pub(crate) fn unmade(text: impl Into<String>) -> Self {
        Self::Unmade(CallResult::error(text))
    }
}

/// Whether a tool was called, or something was told in place of that.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    Yes,
    No,
}

/// A call, and what is done about it.
struct Planned {
    open: OpenCall,
    seq: u32,
    /// It is not made: this is told instead.
    told: Option<CallResult>,
    /// The calls that its program has made.
    children: Vec<NewEntry>,
    /// Another process may have begun with it.
    is_recovered: bool,
}

impl Turn {
    /// Makes the calls of a reply that have no result. Returns what the run waits for, if it waits.
    pub(crate) async fn make_calls(&self, open: OpenCalls, is_recovered: bool) -> Result<Option<Waits>, Lost> {
        let reply = open.reply;
        let planned = self.planned(open, is_recovered).await?;
        let (in_order, at_once): (Vec<Planned>, Vec<Planned>) =
            planned.into_iter().partition(|planned| self.is_sequential(&planned.open.call));
        let mut together: FuturesUnordered<_> =
            at_once.into_iter().map(|planned| Box::pin(self.make(planned, reply))).collect();
        let together = async {
            let mut waits = Vec::new();
            while let Some(made) = together.next().await {
                waits.extend(self.checked(made)?);
            }
            Ok::<_, Lost>(waits)
        };
        let one_by_one = async {
            let mut waits = Vec::new();
            for (planned, number) in in_order.into_iter().zip(0..) {
                let gives_way = number > 0 && planned.told.is_none() && self.is_steered().await;
                let told = if gives_way { Some(CallResult::error(SKIPPED)) } else { planned.told };
                if self.stop.token.is_cancelled() {
                    break;
                }
                let made = self.checked(Box::pin(self.make(Planned { told, ..planned }, reply)).await)?;
                if let Some(made) = made {
                    // What comes after it in its order waits too.
                    waits.push(made);
                    break;
                }
            }
            Ok::<_, Lost>(waits)
        };
        let (together, one_by_one) = futures_util::join!(together, one_by_one);
        let mut all: Option<Waits> = None;
        for waits in together?.into_iter().chain(one_by_one?) {
            let whole = all.get_or_insert_default();
            whole.approvals.extend(waits.approvals);
            whole.programs.extend(waits.programs);
            whole.for_caller |= waits.for_caller;
        }
        Ok(all)
    }

    /// A run that was lost in one call is lost in all.
    fn checked<T>(&self, made: Result<T, Lost>) -> Result<T, Lost> {
        if let Err(Lost::Fenced(_) | Lost::Refused(_)) = &made {
            self.stop.stop(crate::claimed::StopReason::Lost);
        }
        made
    }

    /// Returns the number of a call in its run. Entries are counted from the first one of the run.
    pub(crate) fn seq(&self, reply: u32, call: &OpenCall) -> u32 {
        let entry = reply.saturating_sub(self.run.first_entry.unwrap_or(0));
        entry.saturating_mul(MOST_CALLS).saturating_add(call.index)
    }

    /// Decides on each call. If another process may have begun with them, one that may not be made twice is not made again.
    async fn planned(&self, open: OpenCalls, is_recovered: bool) -> Result<Vec<Planned>, Lost> {
        let questions = match is_recovered {
            true => self.lane.store.questions_of(&self.run.id.as_str().into()).await.map_err(Lost::Unstored)?,
            false => Vec::new(),
        };
        let mut is_first_in_order = true;
        let mut planned = Vec::new();
        for call in open.calls {
            let seq = self.seq(open.reply, &call);
            let name = call.call.name.clone();
            // What held when the reply was stored counts, and what holds now.
            let known = self.state().detail.calls.get(call.index as usize).cloned();
            let means = self.surface.means(&call.call, &self.tools_now());
            let meant = known.as_ref().and_then(|known| known.means.clone());
            let is_another = meant.is_some() && meant != means;
            let in_order = self.is_sequential(&call.call) && known.as_ref().is_none_or(|known| known.in_order);
            let may_repeat = self.may_repeat(&call.call) && known.as_ref().is_none_or(|known| known.may_repeat);
            // Of sequential calls only the first one can have begun.
            let may_have_begun = is_recovered && (!in_order || is_first_in_order);
            is_first_in_order &= !in_order;
            let mut children = Vec::new();
            let mut told = match () {
                () if call.index >= MOST_CALLS => Some(CallResult::error(format!(
                    "One reply may ask for {MOST_CALLS} calls, so this one was not made."
                ))),
                () if may_have_begun && !may_repeat => {
                    let question = questions.iter().rfind(|question| question.seq == Some(seq));
                    let has_not_begun = question.is_some_and(|question| !question.is_used);
                    (!has_not_begun).then(|| {
                        let name = called(&name, meant.as_deref());
                        CallResult::error(format!(
                            "{name} was interrupted; it may or may not have run. Check before you retry."
                        ))
                    })
                }
                () => None,
            };
            if told.is_none() && is_another {
                let begun = self.begun(&call, seq, open.reply).await;
                told = Some(changed(&called(&name, meant.as_deref()), means.as_deref(), begun.as_deref()));
                children = begun.unwrap_or_default();
            }
            planned.push(Planned { open: call, seq, told, children, is_recovered });
        }
        Ok(planned)
    }

    /// Returns whether a call may be made again if it is not known whether it was made. A name that means nothing does nothing.
    fn may_repeat(&self, call: &ToolCall) -> bool {
        match self.surface.reached(call, &self.tools_now()) {
            // Programs are found by their keys, and calls of the sender by their ids. Searches change nothing.
            None => true,
            Some((id, _)) if id.starts_with("client:") => true,
            Some((_, flags)) => flags.read_only || flags.idempotent || flags.claims_read_only,
        }
    }

    /// Returns what is to be known of a call when another process finds it open.
    pub(crate) fn known_call(&self, call: &ToolCall) -> KnownCall {
        let means = self.surface.means(call, &self.tools_now());
        KnownCall { in_order: self.is_sequential(call), may_repeat: self.may_repeat(call), means }
    }

    fn is_sequential(&self, call: &ToolCall) -> bool {
        let tools = self.tools_now();
        match self.surface.meaning(&call.name, &tools) {
            Some(Meaning::Exec | Meaning::Wait | Meaning::SearchCode) => true,
            _ => self.surface.reached(call, &tools).is_some_and(|(_, flags)| flags.sequential),
        }
    }

    /// Returns whether a call of a tool may change something.
    pub(crate) fn may_change(&self, call: &ToolCall) -> bool {
        // Programs have checkpoints of their own before they change something.
        self.surface.reached(call, &self.tools_now()).is_some_and(|(_, flags)| !flags.read_only)
    }

    /// Makes a call and stores its result. Returns what it waits for, if it waits.
    async fn make(&self, planned: Planned, reply: u32) -> Result<Option<Waits>, Lost> {
        let Planned { open, seq, told, children, is_recovered } = planned;
        let name = &open.call.name;
        let arguments: Value = open.call.arguments.to().unwrap_or_default();
        let start = json!({ "phase": "start", "name": name, "toolCallId": open.id, "args": shown(&arguments) });
        self.lane.feed.tell(Happening::tool(start), self.lane.store.now());
        let meaning = self.surface.meaning(name, &self.tools_now());
        let meant = meaning.clone();
        let end = match (told, meaning) {
            (Some(told), _) => CallEnd::Unmade(told),
            (None, Some(Meaning::Exec)) => Box::pin(self.exec(&open, Guest::CodeMode, seq, reply, is_recovered)).await,
            (None, Some(Meaning::Wait)) => Box::pin(self.wait(&open, reply, is_recovered)).await,
            (None, Some(Meaning::SearchCode)) => {
                Box::pin(self.exec(&open, Guest::ToolSearch, seq, reply, is_recovered)).await
            }
            (None, Some(Meaning::Search)) => self.search(&open),
            (None, Some(Meaning::Describe)) => self.describe(&open),
            (None, Some(Meaning::Call)) => Box::pin(self.call_found(&open, seq, reply)).await,
            (None, Some(Meaning::Tool { id, .. })) => Box::pin(self.direct(&open, seq, id)).await,
            (None, None) => CallEnd::unmade(self.unknown(name)),
        };
        let meaning = meant.as_ref();
        match end {
            CallEnd::Waits(waits) => Ok(Some(waits)),
            CallEnd::Settled(result, children) => {
                self.settle(&open, meaning, result, children, Made::Yes).await?;
                Ok(None)
            }
            CallEnd::Unmade(result) => {
                self.settle(&open, meaning, result, children, Made::No).await?;
                Ok(None)
            }
        }
    }

    fn unknown(&self, name: &str) -> String {
        let known = self.surface.tools.iter().map(|tool| tool.name.as_str());
        let near = pincer_catalog::nearest(name, known.map(|name| (name.to_owned(), name.to_owned())), 3);
        let near = if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(" or ")) };
        let name = shortened(name, 100);
        let found = match self.surface.style {
            Style::Search(_) => self.tools_now().searched().0.find(&name).ok().map(|entry| entry.id.to_string()),
            _ => None,
        };
        match (found, self.surface.style) {
            (Some(id), Style::Search(Mode::Code)) => {
                format!(
                    "{name} is not called by its name here: openclaw.tools.call(\"{id}\", args) in tool_search_code calls it."
                )
            }
            (Some(id), _) => format!("{name} is not called by its name here: tool_call with the id {id} calls it."),
            (None, _) => format!("There is no tool {name}.{near}"),
        }
    }

    /// Stores the result of a call.
    async fn settle(
        &self,
        open: &OpenCall,
        meaning: Option<&Meaning>,
        result: CallResult,
        children: Vec<NewEntry>,
        made: Made,
    ) -> Result<(), Lost> {
        let now = self.lane.store.now();
        let (result, size) = self.fitted(result);
        // Asking how a program stands is no new call.
        if !(self.surface.is_code_mode() && open.call.name == WAIT) {
            let texts = result.content.iter().filter_map(|content| match content {
                Content::Text(text) => Some(text.as_str()),
                Content::Image(_) => None,
            });
            let told: String = texts.collect();
            self.state().detail.guard.called(&open.call.name, open.call.arguments.as_str(), &told);
        }
        let mut message = record::result(&open.call.id, &open.call.name, &result, now);
        if made == Made::No {
            message = self.hooks.persisted(&self.agent, &open.call.name, message).await;
        }
        let message = self.hooks.written(message).await;
        let mut entry = self.lane.entry(EntryKind::Message, message.to_body());
        entry.call = Some(open.id.clone());
        let happening = Happening::tool(json!({
            "phase": "result",
            "name": open.call.name,
            "toolCallId": open.id,
            "isError": result.is_error,
            "result": record::shown_result(&message),
        }));
        let detail = {
            let mut state = self.state();
            state.detail.spent.nested_calls += children.len() as u32;
            // Here, and not earlier: what is counted in one commit is in the transcript with the same.
            let is_made = made == Made::Yes;
            state.detail.tools.settled(&SettledCall { meaning, result: &result, children: &children, is_made });
            Some(state.detail.to_json().into())
        };
        let entries = std::iter::once(entry).chain(children).collect();
        let step = Step { entries, happenings: vec![happening], detail, ..Step::default() };
        // What was done is stored even if the run is to stop.
        self.lane.commit(step, &self.agent.closing).await?;
        let is_silent = self.is_flushing();
        let mut state = self.state();
        if !is_silent {
            let told = summary(state.telling.verbose, &open.call.name, &message).map(Said::Tool);
            state.said.extend(told);
            state.failure = failed_with(&open.call.name, &message);
        }
        state.settling -= size;
        state.transcript.push(0, message);
        Ok(())
    }

    /// Fits a result into the room that the other results of its reply leave. Returns its size too, which is counted as settling.
    fn fitted(&self, result: CallResult) -> (CallResult, Size) {
        let window = self.plan.targets.iter().filter_map(pincer_model::Target::context_window).min();
        let mut state = self.state();
        let mut told = state.transcript.told_since_reply();
        told += state.settling;
        let content = fitted(result.content, room(told, window));
        let size = Size::of(&content);
        state.settling += size;
        (CallResult { content, ..result }, size)
    }

    /// Calls a tool at the door.
    async fn direct(&self, open: &OpenCall, seq: u32, tool: String) -> CallEnd {
        let call = Call {
            id: open.id.as_str().into(),
            seq,
            tool,
            input: open.call.arguments.clone().into(),
            ..Call::default()
        };
        self.at_the_door(&self.scope, call, &open.call.name, None).await
    }

    /// Makes a call at the door. `name` is what it is called in events, and `parent` the call that makes it.
    pub(crate) async fn at_the_door(&self, scope: &Scope, call: Call, name: &str, parent: Option<&str>) -> CallEnd {
        let sink = Arc::new(CallSink::new(self.lane_parts(), call.id.as_str(), name, parent));
        // Unlike a program, it cannot go on in another process: it ends when this one gives the run up.
        let scope = scope.clone().ended_by(self.stop.token.clone());
        // It may break down around its tool too, in an observer.
        let mut calling = CatchPanic(Box::pin(self.agent.runtime.call_with(&scope, call, sink.clone())));
        loop {
            tokio::select! {
                biased;
                outcome = &mut calling => {
                    let broken = || CallResult::error(format!(
                        "The call of {} broke down. It may or may not have run. Check before you retry.", name
                    ));
                    return CallEnd::Settled(outcome.map_or_else(broken, content_of), Vec::new());
                }
                () = sink.asked.notified() => {}
            }
            let waits = self.waits(&sink).await;
            if let (Some(waits), true) = (&waits, self.is_flushing()) {
                self.ask_nobody(&waits.approvals).await;
            } else if let Some(waits) = waits
                && sink.give_up()
            {
                return CallEnd::Waits(waits);
            }
        }
    }

    /// Denies questions of a turn that the user knows nothing of: nothing waits for a person there.
    pub(crate) async fn ask_nobody(&self, approvals: &[ApprovalId]) {
        for approval in approvals {
            if let Err(error) = self.agent.runtime.answer(approval, Answer::Deny, "pincer").await {
                tracing::warn!(run = %self.run.id, "a question about lasting notes is still open: {error}");
            }
        }
    }

    /// Returns what a call waits for. A question that has its answer is not waited for: the news of it is on its way.
    async fn waits(&self, sink: &CallSink) -> Option<Waits> {
        if sink.for_caller.load(Ordering::SeqCst) {
            return Some(Waits { for_caller: true, ..Waits::default() });
        }
        let id = sink.approval.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()?;
        let approval = self.lane.store.approval(&id).await.ok()?;
        let is_open = approval.state == ApprovalState::Pending;
        is_open.then(|| Waits { approvals: vec![id], ..Waits::default() })
    }

    pub(crate) fn lane_parts(&self) -> LaneParts {
        LaneParts { feed: Arc::clone(&self.lane.feed), store: Arc::clone(&self.lane.store) }
    }

    /// Returns the entry of a call that a program made.
    pub(crate) fn child(&self, reply: u32, call: &OpenCall, body: String) -> NewEntry {
        let entry = self.lane.entry(EntryKind::NestedCall, body);
        NewEntry { attach: Attach::Beside(reply), call: Some(call.id.clone()), ..entry }
    }
}

/// What a listener tells events with.
#[derive(Clone)]
pub(crate) struct LaneParts {
    pub feed: Arc<crate::feed::Feed>,
    pub store: Arc<pincer_store_sqlite::SqliteStore>,
}

impl LaneParts {
    pub(crate) fn tell(&self, happening: Happening) {
        self.feed.tell(happening, self.store.now());
    }
}

/// Listens to one call at the door.
struct CallSink {
    parts: LaneParts,
    call: String,
    name: String,
    parent: Option<String>,
    /// Moves on once: by the call that is dispatched, or by the run that gives it up.
    progress: AtomicU8,
    asked: Notify,
    approval: std::sync::Mutex<Option<ApprovalId>>,
    for_caller: AtomicBool,
}

const QUEUED: u8 = 0;
const BEGUN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl CallSink {
    fn new(parts: LaneParts, call: &str, name: &str, parent: Option<&str>) -> Self {
        Self {
            parts,
            call: call.to_owned(),
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            progress: AtomicU8::new(QUEUED),
            asked: Notify::new(),
            approval: std::sync::Mutex::default(),
            for_caller: AtomicBool::new(false),
        }
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.progress.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Gives the call up, unless it has begun.
    fn give_up(&self) -> bool {
        self.change(QUEUED, GIVEN_UP)
    }
}

impl UpdateSink for CallSink {
    fn update(&self, update: Value) {
        self.parts.tell(reported(&self.call, &self.name, self.parent.as_deref(), &update));
    }

    fn asked(&self, approval: &ApprovalId) {
        *self.approval.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(approval.clone());
        self.asked.notify_one();
    }

    fn asked_caller(&self) {
        self.for_caller.store(true, Ordering::SeqCst);
        self.asked.notify_one();
    }

    fn may_dispatch(&self) -> bool {
        self.change(QUEUED, BEGUN)
    }

    fn not_dispatched(&self) {
        self.change(BEGUN, QUEUED);
    }
}
