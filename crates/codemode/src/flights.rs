//! The calls of one run that have not settled: so many run, the others queue, and what settles is told in the order it does.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{self, Poll};
use std::time::{Duration, Instant};

use pincer_sandbox::RequestId;
use pincer_store::{Millis, now};
use pincer_tools::{
    BoxFuture, Call, CallError, Context, Door, Effect, ErrorCode, Outcome, Request, RunOwner, Unwound, UpdateSink,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::bridge::{Method, ToolCall};
use crate::result::{PendingState, PendingToolCall};
use crate::tools::RunTools;

/// A call, as it is stored with a suspended program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredCall {
    /// The request it answers.
    pub id: RequestId,
    /// Its number in the journal.
    pub seq: u32,
    pub tool: String,
    pub input: Value,
    pub method: Method,
    pub line: Option<u32>,
    pub since: Millis,
    pub approval: Option<String>,
    pub sequential: bool,
}

/// What becomes known of a call.
#[derive(Debug)]
pub(crate) enum Note {
    Asked(RequestId, String),
    Begun(RequestId),
    /// Its tool has asked whoever called it for something, or has its answer.
    Asking(RequestId, bool),
    Settled(RequestId, Outcome),
}

/// Where a call is made.
enum Place {
    /// It has not begun.
    Queue,
    /// Here: on a task of its own, or, without one, by whoever waits for news.
    Here { abort: CancellationToken, task: Option<JoinHandle<()>>, begun: Arc<AtomicBool> },
    /// In this other process, which is alive.
    Elsewhere(String),
}

impl Place {
    /// Whether a tool runs here for it.
    fn has_begun(&self) -> bool {
        let is_over = |task: &Option<JoinHandle<()>>| task.as_ref().is_some_and(JoinHandle::is_finished);
        matches!(self, Self::Here { begun, task, .. } if begun.load(Ordering::SeqCst) && !is_over(task))
    }
}

struct Flight {
    call: StoredCall,
    place: Place,
    /// Its tool waits for whoever called it.
    asking: bool,
}

/// What calls are made with.
#[derive(Clone)]
pub(crate) struct Caller {
    pub door: Arc<Door>,
    pub tools: Arc<RunTools>,
    /// For whom. Its `run` is set once the run is stored.
    pub context: Context,
    /// The id of the `exec` that the calls are part of.
    pub parent: String,
    /// Whom tools ask that want something of their caller.
    pub listener: Listener,
}

/// Whom tools ask that want something of their caller: whoever waits for the program now, also for calls that were begun before.
#[derive(Clone)]
pub(crate) struct Listener(Arc<RwLock<Arc<dyn UpdateSink>>>);

impl Listener {
    pub fn new(now: Arc<dyn UpdateSink>) -> Self {
        Self(Arc::new(RwLock::new(now)))
    }

    fn now(&self) -> Arc<dyn UpdateSink> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn becomes(&self, other: &Self) {
        let now = other.now();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = now;
    }
}

/// The calls of one run that have not settled.
pub(crate) struct Flights {
    caller: Caller,
    calls: BTreeMap<RequestId, Flight>,
    /// A call that is the only one. Who waits for it makes it: another task would be another thread to wake up, twice.
    only: Option<(RequestId, BoxFuture<'static, Outcome>)>,
    most: usize,
    tell: UnboundedSender<Note>,
    notes: UnboundedReceiver<Note>,
}

impl Flights {
    pub fn new(caller: Caller, most: usize) -> Self {
        let (tell, notes) = unbounded_channel();
        Self { caller, calls: BTreeMap::new(), only: None, most, tell, notes }
    }

    /// Whose run it is, from now on.
    pub fn owned_by(&mut self, owner: RunOwner) {
        self.caller.context.run = Some(owner);
    }

    /// Who calls, from now on. The run stays whose it is.
    pub fn called_by(&mut self, caller: Caller) {
        self.caller.listener.becomes(&caller.listener);
        let context = Context { run: self.caller.context.run.take(), ..caller.context };
        self.caller = Caller { context, listener: self.caller.listener.clone(), ..caller };
    }

    /// Takes a call that is to be made here.
    pub fn queue(&mut self, id: RequestId, seq: u32, line: Option<u32>, call: ToolCall) {
        let ToolCall { tool, input, method, sequential } = call;
        let call = StoredCall { id, seq, tool, input, method, line, since: now(), approval: None, sequential };
        self.queue_again(call);
    }

    pub fn queue_again(&mut self, call: StoredCall) {
        self.calls.insert(call.id, Flight { call, place: Place::Queue, asking: false });
    }

    /// Takes a call that another process makes. Whoever had to be asked about it has been.
    pub fn watch(&mut self, call: StoredCall, owner: String) {
        let call = StoredCall { approval: None, ..call };
        self.calls.insert(call.id, Flight { call, place: Place::Elsewhere(owner), asking: false });
    }

    /// Whether calls wait that could begin.
    pub fn can_start(&self) -> bool {
        self.next_to_start().is_some()
    }

    /// The first in the queue that may begin: there is room, and of tools that run one at a time none is running.
    fn next_to_start(&self) -> Option<RequestId> {
        let under_way = || self.calls.values().filter(|flight| !matches!(flight.place, Place::Queue));
        if under_way().count() >= self.most {
            return None;
        }
        let sequential = under_way().any(|flight| flight.call.sequential);
        let may = |flight: &&Flight| matches!(flight.place, Place::Queue) && !(sequential && flight.call.sequential);
        self.calls.values().find(may).map(|flight| flight.call.id)
    }

    /// Begins as many as may run.
    pub fn start(&mut self) {
        while let Some(id) = self.next_to_start() {
            let Some(flight) = self.calls.get_mut(&id) else { return };
            let abort = self.caller.context.abort.child_token();
            let begun = Arc::new(AtomicBool::new(false));
            let making = make(&self.caller, &flight.call, abort.clone(), &begun, &self.tell);
            flight.place = Place::Here { abort, task: None, begun };
            self.send_off();
            self.only = Some((id, making));
        }
        if self.calls.len() > 1 {
            self.send_off();
        }
    }

    /// Lets the only call go on by itself: nobody waits for news now.
    pub fn send_off(&mut self) {
        let Some((id, making)) = self.only.take() else { return };
        let tell = self.tell.clone();
        let sent = tokio::spawn(async move {
            let _ = tell.send(Note::Settled(id, making.await));
        });
        if let Some(Flight { place: Place::Here { task, .. }, .. }) = self.calls.get_mut(&id) {
            *task = Some(sent);
        }
    }

    /// Waits for news. Never ready if no call is made here.
    pub async fn next(&mut self) -> Note {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Looks for news until then instead of waiting for them: who does not sleep need not be woken up. The other tasks of the
    /// runtime have their turns in between.
    pub async fn next_awake(&mut self, until: Instant) -> Option<Note> {
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
        let note = making.as_mut().poll(context).map(|outcome| Note::Settled(*id, outcome));
        if note.is_ready() {
            self.only = None;
        }
        note
    }

    /// Whether calls are made here.
    pub fn any_here(&self) -> bool {
        self.calls.values().any(|flight| matches!(flight.place, Place::Here { .. }))
    }

    /// News that are there already.
    pub fn try_next(&mut self) -> Option<Note> {
        self.notes.try_recv().ok()
    }

    /// Takes note. The call and its outcome if it has settled.
    pub fn note(&mut self, note: Note) -> Option<(StoredCall, Outcome)> {
        match note {
            Note::Asked(id, approval) => {
                self.calls.get_mut(&id)?.call.approval = Some(approval);
                None
            }
            Note::Begun(id) => {
                self.calls.get_mut(&id)?.call.approval = None;
                None
            }
            Note::Asking(id, asking) => {
                self.calls.get_mut(&id)?.asking = asking;
                None
            }
            Note::Settled(id, outcome) => Some((self.calls.remove(&id)?.call, outcome)),
        }
    }

    /// Takes a call out that has settled elsewhere.
    pub fn remove(&mut self, id: RequestId) -> Option<StoredCall> {
        self.calls.remove(&id).map(|flight| flight.call)
    }

    /// The calls that have not begun.
    pub fn queued(&self) -> Vec<StoredCall> {
        let queued = self.calls.values().filter(|flight| matches!(flight.place, Place::Queue));
        queued.map(|flight| flight.call.clone()).collect()
    }

    /// Gives a call the number under which the journal has it.
    pub fn renumber(&mut self, id: RequestId, seq: u32) {
        if let Some(flight) = self.calls.get_mut(&id) {
            flight.call.seq = seq;
        }
    }

    /// The calls that other processes make, each with its process.
    pub fn elsewhere(&self) -> Vec<(StoredCall, String)> {
        let of = |flight: &Flight| match &flight.place {
            Place::Elsewhere(owner) => Some((flight.call.clone(), owner.clone())),
            Place::Queue | Place::Here { .. } => None,
        };
        self.calls.values().filter_map(of).collect()
    }

    /// Whether nothing goes on before a person has answered.
    pub fn only_people_can_help(&self) -> bool {
        let asked = |flight: &Flight| flight.call.approval.is_some() || flight.asking;
        let waits = |flight: &Flight| asked(flight) || matches!(flight.place, Place::Queue);
        self.calls.values().any(asked) && self.calls.values().all(waits) && !self.can_start()
    }

    /// The questions that are open, as far as is known here.
    pub fn questions(&self) -> Vec<String> {
        self.calls.values().filter_map(|flight| flight.call.approval.clone()).collect()
    }

    /// Whether a tool is running here.
    pub fn any_begun(&self) -> bool {
        self.calls.values().any(|flight| flight.place.has_begun())
    }

    /// Gives up the calls that no tool has begun with. Questions to people stay open.
    pub fn drop_unbegun(&mut self) {
        self.calls.retain(|_, flight| {
            let begun = flight.place.has_begun();
            if let (Place::Here { task: Some(task), .. }, false) = (&flight.place, begun) {
                task.abort();
            }
            begun
        });
        if self.only.as_ref().is_some_and(|(id, _)| !self.calls.contains_key(id)) {
            self.only = None;
        }
    }

    /// Gives up what has not begun, and lets the rest go on by itself: what it comes to is in the journal.
    pub fn leave(mut self) {
        self.drop_unbegun();
        tokio::spawn(async move { self.ended().await });
    }

    /// Ends everything that is made here.
    pub fn abort(&self) {
        for flight in self.calls.values() {
            if let Place::Here { abort, .. } = &flight.place {
                abort.cancel();
            }
        }
    }

    /// Waits until nothing is made here any more.
    pub async fn ended(&mut self) {
        while self.any_here() {
            let note = self.next().await;
            self.note(note);
        }
    }

    /// As they are stored.
    pub fn store(&self) -> Vec<StoredCall> {
        self.calls.values().map(|flight| flight.call.clone()).collect()
    }

    /// As the model sees them.
    pub fn pending(&self) -> Vec<PendingToolCall> {
        let shown = |Flight { call, place, .. }: &Flight| {
            let state = match place {
                _ if call.approval.is_some() => PendingState::Approval,
                Place::Queue => PendingState::Queued,
                Place::Here { .. } | Place::Elsewhere(_) => PendingState::Running,
            };
            call.shown(state)
        };
        self.calls.values().map(shown).collect()
    }
}

impl StoredCall {
    pub fn shown(&self, state: PendingState) -> PendingToolCall {
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

/// Makes a call.
fn make(
    caller: &Caller,
    call: &StoredCall,
    abort: CancellationToken,
    begun: &Arc<AtomicBool>,
    tell: &UnboundedSender<Note>,
) -> BoxFuture<'static, Outcome> {
    let Caller { door, tools, context, parent, listener } = caller.clone();
    let id = call.id;
    let asked = Call {
        id: format!("{parent}/{}", call.seq),
        seq: call.seq,
        tool: call.tool.clone(),
        input: call.input.clone(),
        line: call.line,
    };
    let context = Context { abort, parent_call: Some(parent), ..context };
    let (begun, tell) = (Arc::clone(begun), tell.clone());
    let told = Arc::new(Teller { id, begun, asked: AtomicBool::new(false), tell, listener });
    Box::pin(async move {
        let calling = Box::pin(async { door.call(tools.at_the_door(), &context, asked, told).await });
        // It may break down around its tool too, in somebody who is told of it.
        Unwound(calling).await.unwrap_or_else(|| {
            let error = CallError::new(ErrorCode::ToolFailed, "the call broke down: this is a bug");
            Outcome { result: Err(error), effect: Effect::Unknown, duration: Duration::ZERO }
        })
    })
}

/// Passes on how a call stands.
struct Teller {
    id: RequestId,
    begun: Arc<AtomicBool>,
    /// Somebody was asked for leave.
    asked: AtomicBool,
    tell: UnboundedSender<Note>,
    listener: Listener,
}

impl UpdateSink for Teller {
    fn update(&self, _update: Value) {}

    fn asked(&self, approval: &str) {
        self.asked.store(true, Ordering::SeqCst);
        let _ = self.tell.send(Note::Asked(self.id, approval.to_owned()));
    }

    fn begun(&self) {
        self.begun.store(true, Ordering::SeqCst);
        // Who was not waiting for leave need not be told that it is there.
        if self.asked.load(Ordering::SeqCst) {
            let _ = self.tell.send(Note::Begun(self.id));
        }
    }

    fn ask(&self, request: Request) -> BoxFuture<'_, Option<Value>> {
        Box::pin(async move {
            let _ = self.tell.send(Note::Asking(self.id, true));
            let answer = self.listener.now().ask(request).await;
            let _ = self.tell.send(Note::Asking(self.id, false));
            answer
        })
    }
}
