//! The calls of one run that have not settled: so many run, the others queue, and what settles is told in the order it does.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Instant;

use pincer_catalog::Flags;
use pincer_sandbox::{Allotment, Json, RequestId};
use pincer_store::{ApprovalId, Millis, OwnerId};
use pincer_tools::{BoxFuture, Context, Fingerprint, Outcome, RunOwner};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::bridge::Method;
use crate::making::{CallParts, Progress, make};
use crate::result::{PendingState, PendingToolCall};

/// Smaller inputs are part of what every program is estimated to need.
pub(crate) const SMALL_INPUT: usize = 4 << 10;
/// A call, as it is stored with a suspended program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredCall {
    /// The request it answers.
    pub id: RequestId,
    /// Its number in the journal.
    pub seq: u32,
    pub tool: String,
    /// As the program passed it: it becomes a tree when the call begins.
    pub input: Json,
    pub method: Method,
    pub line: Option<u32>,
    pub since: Millis,
    pub approval: Option<ApprovalId>,
    pub sequential: bool,
    /// The tool's flags when the program asked for it.
    #[serde(default)]
    pub flags: Flags,
    /// The tool that the program knows under this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
}

/// What becomes known of a call.
#[derive(Debug)]
pub(crate) enum Note {
    Asked(RequestId, ApprovalId),
    Begun(RequestId),
    /// The caller of the agent's run is to make it.
    AskedCaller(RequestId),
    /// Its tool has asked its caller for something, or has its answer.
    Asking(RequestId, bool),
    /// A person is to be asked about it: the program must be stored first.
    NeedsCheckpoint,
    Settled(RequestId, Outcome, Instant),
}

/// A call that has settled, and when it did.
pub(crate) struct Settled {
    pub call: StoredCall,
    pub outcome: Outcome,
    pub at: Instant,
}

/// Where a call is made.
enum Whereabouts {
    /// It has not begun.
    Queue,
    /// Here: on a task of its own, or, without one, by the driver that waits for news.
    Here { abort: CancellationToken, task: Option<JoinHandle<()>>, progress: Arc<Progress> },
    /// In this other process, which is alive.
    Elsewhere(OwnerId),
}

impl Whereabouts {
    /// Whether a tool runs here for it.
    fn has_begun(&self) -> bool {
        let is_over = |task: &Option<JoinHandle<()>>| task.as_ref().is_some_and(JoinHandle::is_finished);
        matches!(self, Self::Here { progress, task, .. } if progress.has_begun() && !is_over(task))
    }
}

struct PendingCall {
    call: StoredCall,
    whereabouts: Whereabouts,
    /// Its tool waits for whoever called it.
    asking: bool,
    /// The caller of the agent's run is to make it.
    for_caller: bool,
}

/// The calls of one run that have not settled.
pub(crate) struct PendingCalls {
    parts: CallParts,
    calls: BTreeMap<RequestId, PendingCall>,
    /// A call that is the only one. Who waits for it makes it: another task would be another thread to wake up, twice.
    only: Option<(RequestId, BoxFuture<'static, Outcome>)>,
    most: usize,
    /// The memory of the inputs, as far as it is counted, and their bytes.
    texts: Allotment,
    text_bytes: usize,
    needs_checkpoint: bool,
    tell: UnboundedSender<Note>,
    notes: UnboundedReceiver<Note>,
}

impl PendingCalls {
    pub(crate) fn new(parts: CallParts, most: usize) -> Self {
        let (tell, notes) = unbounded_channel();
        let texts = parts.texts.open(&parts.user, 0, 0);
        let calls = BTreeMap::new();
        Self { parts, calls, only: None, most, texts, text_bytes: 0, needs_checkpoint: false, tell, notes }
    }

    /// Whose run it is, from now on.
    pub(crate) fn owned_by(&mut self, owner: RunOwner) {
        self.parts.context.run = Some(owner);
    }

    /// Who calls, from now on. The run stays whose it is.
    pub(crate) fn called_by(&mut self, parts: CallParts) {
        self.parts.listener.becomes(&parts.listener);
        let context = Context { run: self.parts.context.run.take(), ..parts.context };
        self.parts = CallParts { context, listener: self.parts.listener.clone(), ..parts };
    }

    /// The run, once it is stored.
    pub(crate) fn run(&self) -> Option<&RunOwner> {
        self.parts.context.run.as_ref()
    }

    /// The memory of the inputs of calls: the cell that asked for them hands it over.
    pub(crate) fn texts(&mut self) -> &mut Allotment {
        &mut self.texts
    }

    /// Takes a call that is to be made here.
    pub(crate) fn queue(&mut self, call: StoredCall) {
        self.text_bytes += call.input.as_str().len();
        self.calls
            .insert(call.id, PendingCall { call, whereabouts: Whereabouts::Queue, asking: false, for_caller: false });
    }

    /// Takes a call that another process makes. Whoever had to be asked about it has been.
    pub(crate) fn watch(&mut self, call: StoredCall, owner: OwnerId) {
        let call = StoredCall { approval: None, ..call };
        self.text_bytes += call.input.as_str().len();
        let whereabouts = Whereabouts::Elsewhere(owner);
        self.calls.insert(call.id, PendingCall { call, whereabouts, asking: false, for_caller: false });
    }

    /// Whether a call that may change something waits, and is not part of a checkpoint whose next number this is.
    pub(crate) fn any_uncovered(&self, next: u32) -> bool {
        let uncovered = |pending: &PendingCall| !pending.call.flags.read_only && pending.call.seq >= next;
        self.calls.values().any(|pending| matches!(pending.whereabouts, Whereabouts::Queue) && uncovered(pending))
    }

    /// Whether calls wait that could begin.
    pub(crate) fn can_start(&self) -> bool {
        self.next_to_start().is_some()
    }

    /// The first in the queue that may begin: there is room, and of tools that run one at a time none is running.
    fn next_to_start(&self) -> Option<RequestId> {
        let under_way = || self.calls.values().filter(|pending| !matches!(pending.whereabouts, Whereabouts::Queue));
        if under_way().count() >= self.most {
            return None;
        }
        let sequential = under_way().any(|pending| pending.call.sequential);
        let may = |pending: &&PendingCall| {
            matches!(pending.whereabouts, Whereabouts::Queue) && !(sequential && pending.call.sequential)
        };
        self.calls.values().find(may).map(|pending| pending.call.id)
    }

    /// Begins as many as may run.
    pub(crate) fn start(&mut self) {
        while let Some(id) = self.next_to_start() {
            let Some(pending) = self.calls.get_mut(&id) else { return };
            let abort = self.parts.context.abort.child_token();
            let progress = Progress::new();
            let making = make(&self.parts, &pending.call, abort.clone(), &progress, &self.tell);
            pending.whereabouts = Whereabouts::Here { abort, task: None, progress };
            self.send_off();
            self.only = Some((id, making));
        }
        if self.calls.len() > 1 {
            self.send_off();
        }
    }

    /// Lets the only call go on by itself: nobody waits for news now.
    pub(crate) fn send_off(&mut self) {
        let Some((id, making)) = self.only.take() else { return };
        let tell = self.tell.clone();
        let sent = tokio::spawn(async move {
            let outcome = making.await;
            let _ = tell.send(Note::Settled(id, outcome, Instant::now()));
        });
        if let Some(PendingCall { whereabouts: Whereabouts::Here { task, .. }, .. }) = self.calls.get_mut(&id) {
            *task = Some(sent);
        }
    }

    /// Waits for news. Never ready if no call is made here.
    pub(crate) async fn next(&mut self) -> Note {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Looks for news until then instead of waiting for them: who does not sleep need not be woken up. The other tasks of the
    /// runtime have their turns in between.
    pub(crate) async fn next_awake(&mut self, until: Instant) -> Option<Note> {
        while Instant::now() < until {
            if let Poll::Ready(note) = poll_fn(|context| Poll::Ready(self.poll_next(context))).await {
                return Some(note);
            }
            tokio::task::yield_now().await;
            // Whoever works for us may have been put behind us, on the same processor.
            std::thread::yield_now();
        }
        None
    }

    fn poll_next(&mut self, context: &mut task::Context<'_>) -> Poll<Note> {
        // It holds a sender itself: they never end.
        if let Poll::Ready(Some(note)) = self.notes.poll_recv(context) {
            return Poll::Ready(note);
        }
        let Some((id, making)) = &mut self.only else { return Poll::Pending };
        let note = making.as_mut().poll(context).map(|outcome| Note::Settled(*id, outcome, Instant::now()));
        if note.is_ready() {
            self.only = None;
        }
        note
    }

    /// Whether calls are made here.
    pub(crate) fn any_here(&self) -> bool {
        self.calls.values().any(|pending| matches!(pending.whereabouts, Whereabouts::Here { .. }))
    }

    /// News that are there already.
    pub(crate) fn try_next(&mut self) -> Option<Note> {
        self.notes.try_recv().ok()
    }

    /// Takes note. Returns the call and its outcome if it has settled.
    pub(crate) fn note(&mut self, note: Note) -> Option<Settled> {
        match note {
            Note::NeedsCheckpoint => {
                self.needs_checkpoint = true;
                None
            }
            Note::Asked(id, approval) => {
                self.calls.get_mut(&id)?.call.approval = Some(approval);
                None
            }
            Note::AskedCaller(id) => {
                let pending = self.calls.get_mut(&id)?;
                (pending.call.approval, pending.for_caller) = (None, true);
                None
            }
            Note::Begun(id) => {
                let pending = self.calls.get_mut(&id)?;
                (pending.call.approval, pending.for_caller) = (None, false);
                None
            }
            Note::Asking(id, asking) => {
                self.calls.get_mut(&id)?.asking = asking;
                None
            }
            Note::Settled(id, outcome, at) => Some(Settled { call: self.remove(id)?, outcome, at }),
        }
    }

    /// Whether a person is to be asked, and the program must be stored first.
    pub(crate) fn needs_checkpoint(&self) -> bool {
        self.needs_checkpoint
    }

    /// The program has been stored.
    pub(crate) fn checkpointed(&mut self) {
        self.needs_checkpoint = false;
    }

    /// Returns the number of the call that a request has become, and its tool.
    pub(crate) fn number(&self, id: RequestId) -> Option<(u32, &str)> {
        self.calls.get(&id).map(|pending| (pending.call.seq, pending.call.tool.as_str()))
    }

    /// Takes a call out that has settled.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<StoredCall> {
        let call = self.calls.remove(&id)?.call;
        let bytes = call.input.as_str().len();
        self.text_bytes -= bytes;
        if bytes >= SMALL_INPUT || self.calls.is_empty() {
            self.texts.shrink(self.text_bytes);
        }
        Some(call)
    }

    /// The calls that other processes make, each with its process.
    pub(crate) fn elsewhere(&self) -> Vec<(StoredCall, OwnerId)> {
        let of = |pending: &PendingCall| match &pending.whereabouts {
            Whereabouts::Elsewhere(owner) => Some((pending.call.clone(), owner.clone())),
            Whereabouts::Queue | Whereabouts::Here { .. } => None,
        };
        self.calls.values().filter_map(of).collect()
    }

    /// Whether nothing goes on before a person has answered.
    pub(crate) fn only_people_can_help(&self) -> bool {
        let asked = |pending: &PendingCall| pending.call.approval.is_some() || pending.asking || pending.for_caller;
        let waits = |pending: &PendingCall| asked(pending) || matches!(pending.whereabouts, Whereabouts::Queue);
        self.calls.values().any(asked) && self.calls.values().all(waits) && !self.can_start()
    }

    /// The questions that are open, as far as is known here.
    pub(crate) fn questions(&self) -> Vec<ApprovalId> {
        self.calls.values().filter_map(|pending| pending.call.approval.clone()).collect()
    }

    /// Whether a tool is running here.
    pub(crate) fn any_begun(&self) -> bool {
        self.calls.values().any(|pending| pending.whereabouts.has_begun())
    }

    /// Gives up the calls that no tool has begun with. Questions to people stay open.
    pub(crate) fn drop_unbegun(&mut self) {
        self.calls.retain(|_, pending| {
            let Whereabouts::Here { task, progress, .. } = &pending.whereabouts else { return false };
            // A call that is just being dispatched goes on: it may have been noted already.
            if progress.change(Progress::QUEUED, Progress::GIVEN_UP)
                && let Some(task) = task
            {
                task.abort();
            }
            pending.whereabouts.has_begun()
        });
        if self.only.as_ref().is_some_and(|(id, _)| !self.calls.contains_key(id)) {
            self.only = None;
        }
        self.text_bytes = self.calls.values().map(|pending| pending.call.input.as_str().len()).sum();
        self.texts.shrink(self.text_bytes);
    }

    /// Gives up what has not begun, and lets the rest go on by itself: what it comes to is in the journal.
    pub(crate) fn leave(mut self) {
        self.drop_unbegun();
        tokio::spawn(async move { self.ended().await });
    }

    /// Ends everything that is made here.
    pub(crate) fn abort(&self) {
        for pending in self.calls.values() {
            if let Whereabouts::Here { abort, .. } = &pending.whereabouts {
                abort.cancel();
            }
        }
    }

    /// Waits until nothing is made here any more.
    pub(crate) async fn ended(&mut self) {
        while self.any_here() {
            let note = self.next().await;
            self.note(note);
        }
    }

    /// As they are stored.
    pub(crate) fn store(&self) -> Vec<StoredCall> {
        self.calls.values().map(|pending| pending.call.clone()).collect()
    }

    /// As the model sees them.
    pub(crate) fn pending(&self) -> Vec<PendingToolCall> {
        let shown = |PendingCall { call, whereabouts, for_caller, .. }: &PendingCall| {
            let state = match whereabouts {
                _ if *for_caller => PendingState::Client,
                _ if call.approval.is_some() => PendingState::Approval,
                Whereabouts::Queue => PendingState::Queued,
                Whereabouts::Here { .. } | Whereabouts::Elsewhere(_) => PendingState::Running,
            };
            call.shown(state)
        };
        self.calls.values().map(shown).collect()
    }
}

impl StoredCall {
    pub(crate) fn shown(&self, state: PendingState) -> PendingToolCall {
        PendingToolCall {
            id: format!("bridge:{}:{}", self.method.as_str(), self.id),
            method: self.method.as_str().into(),
            tool_id: Some(self.tool.clone()),
            state,
            since: self.since,
            approval_id: self.approval.clone(),
        }
    }
}
