//! Makes one call, counts the memory of its input, and passes on how the call stands.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pincer_sandbox::{Allotment, MemoryBudget, RequestId};
use pincer_store::{ApprovalId, CallId};
use pincer_tools::{
    BoxFuture, Call, CallError, CatchPanic, Context, Door, Effect, ErrorCode, Outcome, Request, UpdateSink,
};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::guest::Guest;
use crate::listener::Listener;
use crate::pending_calls::{Note, SMALL_INPUT, StoredCall};
use crate::tools::RunTools;

/// The memory that an input takes while its call is made, for each byte of its text.
const BYTES_AS_VALUE: usize = 8;

/// Whether a call has been handed to its tool. It moves on from `QUEUED` once, by the call itself or by a driver that gives it
/// up: of the two, one succeeds.
#[derive(Debug)]
pub(crate) struct Progress(AtomicU8);

impl Progress {
    pub(crate) const QUEUED: u8 = 0;
    pub(crate) const BEGUN: u8 = 1;
    pub(crate) const GIVEN_UP: u8 = 2;

    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU8::new(Self::QUEUED)))
    }

    pub(crate) fn change(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.0.load(Ordering::SeqCst) == Self::BEGUN
    }
}

/// The parts that all calls of a run are made with.
#[derive(Clone)]
pub(crate) struct CallParts {
    pub door: Arc<Door>,
    pub tools: Arc<RunTools>,
    /// The context of the program. Its `run` is set once the run is stored.
    pub context: Context,
    /// The kind of the program, which decides about the ids of its calls.
    pub guest: Guest,
    /// The id of the `exec` that the calls are part of.
    pub parent: CallId,
    /// Takes the questions of tools to their caller.
    pub listener: Listener,
    /// The memory that inputs are part of: as texts until their calls are made, then as values.
    pub texts: MemoryBudget,
    pub values: MemoryBudget,
    /// The user they are counted for.
    pub user: Arc<str>,
}

/// Makes a call.
pub(crate) fn make(
    parts: &CallParts,
    call: &StoredCall,
    abort: CancellationToken,
    progress: &Arc<Progress>,
    tell: &UnboundedSender<Note>,
) -> BoxFuture<'static, Outcome> {
    let CallParts { door, tools, context, guest, parent, listener, values, user, .. } = parts.clone();
    let (id, text_bytes) = (call.id, call.input.as_str().len());
    let asked = Call {
        id: guest.call_id(&parent, &call.tool, call.seq),
        seq: call.seq,
        tool: call.tool.clone(),
        input: call.input.clone().into(),
        line: call.line,
        flags: Some(call.flags),
        fingerprint: call.fingerprint,
    };
    let context = Context { abort, parent_call: Some(parent), ..context };
    let (progress, tell) = (Arc::clone(progress), tell.clone());
    let told = Arc::new(Teller { id, progress, asked: AtomicBool::new(false), tell, listener, room: Mutex::default() });
    Box::pin(async move {
        if text_bytes >= SMALL_INPUT {
            // The largest must fit too.
            let bytes = (BYTES_AS_VALUE * text_bytes).min(values.bytes());
            let mut room = values.open(&user, 0, bytes);
            tokio::select! {
                biased;
                () = room.grow(bytes) => {}
                // The door knows what to say then.
                () = context.abort.cancelled() => {}
            }
            told.keep(Some(room));
        }
        let calling = Box::pin(async { door.call(tools.at_the_door(), &context, asked, told).await });
        // It may break down around its tool too, in an observer.
        CatchPanic(calling).await.unwrap_or_else(|| {
            let error = CallError::new(ErrorCode::ToolFailed, "the call broke down: this is a bug");
            Outcome { result: Err(error), effect: Effect::Unknown, duration: Duration::ZERO }
        })
    })
}

/// Passes on how a call stands.
struct Teller {
    id: RequestId,
    progress: Arc<Progress>,
    /// A person was asked for leave.
    asked: AtomicBool,
    tell: UnboundedSender<Note>,
    listener: Listener,
    /// The memory of the input as a value.
    room: Mutex<Option<Allotment>>,
}

impl Teller {
    fn keep(&self, room: Option<Allotment>) {
        *self.room.lock().unwrap_or_else(PoisonError::into_inner) = room;
    }
}

impl UpdateSink for Teller {
    fn update(&self, _update: Value) {}

    fn asked(&self, approval: &ApprovalId) {
        self.asked.store(true, Ordering::SeqCst);
        // It may take a person hours to answer, and until then the input is text again.
        self.keep(None);
        let _ = self.tell.send(Note::Asked(self.id, approval.clone()));
    }

    fn asked_caller(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.keep(None);
        let _ = self.tell.send(Note::AskedCaller(self.id));
    }

    fn needs_checkpoint(&self) {
        let _ = self.tell.send(Note::NeedsCheckpoint);
    }

    fn may_dispatch(&self) -> bool {
        self.progress.change(Progress::QUEUED, Progress::BEGUN)
    }

    fn not_dispatched(&self) {
        self.progress.change(Progress::BEGUN, Progress::QUEUED);
    }

    fn begun(&self) {
        // A driver that was not waiting for leave need not be told that it is there.
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
