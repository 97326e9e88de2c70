//! Programs that a hook wants a person asked about before they begin. Nothing of them has run, so their source is stored in the place
//! of a snapshot, and any process can begin them when the answer is there.

use pincer_store::{
    ApprovalId, ApprovalState, Call, CallId, CellPart, Checkpoint, Claim, Fence, Millis, NewRun, Park, Run, RunId,
    RunKey, Safety, StoreError,
};
use pincer_tools::{Asking, Context};
use serde::{Deserialize, Serialize};

use crate::codemode::{Begun, CodeMode, TAKEN, failed, telemetry};
use crate::input::ExecInput;
use crate::orphans::{lost, may_begin_again, written};
use crate::outcome::RunError;
use crate::result::{CodeModeResult, ErrorCode, PendingState, PendingToolCall, WaitReason, Waiting};
use crate::run::{After, Driven, RunRecord};
use crate::scope::{People, RunScope};
use crate::settings::Language;
use crate::telemetry::{Counted, Telemetry};

/// In the place of the image that a cell was parked against.
const IMAGE: &[u8] = b"source";

/// The form. A later one that cannot be read by this version has another number.
const VERSION: u32 = 1;

/// A program that has not begun, as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Unbegun {
    /// Tells it from where a program stands that has begun.
    unbegun: u32,
    /// When it was stored.
    pub at: Millis,
    source: String,
    language: Language,
    /// The question.
    approval: ApprovalId,
    /// The tool that the question is about.
    tool: String,
    /// The id of the `exec` it is part of.
    parent: CallId,
}

impl Unbegun {
    /// Returns the program, if what is stored beside a run is one that has not begun.
    pub(crate) fn parse(detail: &str) -> Option<Self> {
        serde_json::from_str::<Self>(detail).ok().filter(|stored| stored.unbegun == VERSION)
    }

    /// Returns what it waits for.
    pub(crate) fn pending(&self) -> Vec<PendingToolCall> {
        vec![PendingToolCall {
            id: self.parent.to_string(),
            method: "exec".into(),
            tool_id: Some(self.tool.clone()),
            state: PendingState::Approval,
            since: self.at,
            approval_id: Some(self.approval.clone()),
        }]
    }

    fn waiting(&self, run: &RunId, telemetry: Telemetry) -> CodeModeResult {
        CodeModeResult::Waiting(Waiting {
            run_id: run.clone(),
            reason: WaitReason::PendingTools,
            pending_tool_calls: self.pending(),
            output: Vec::new(),
            telemetry,
        })
    }
}

/// The word of a person, as far as it is known.
enum Word {
    Yes,
    No(RunError),
    /// Nothing yet, and the program is not to wait here for it.
    None,
}

impl CodeMode {
    /// Has a person asked whether a program may begin, and begins it, suspends it, or ends it. The input is what the hooks have left.
    pub(crate) async fn ask_before(&self, begun: Begun, asking: &Asking, parent: &CallId) -> Driven {
        let Begun { scope, input, mut record, mut telemetry, abort, .. } = begun;
        let refused = |error: RunError, telemetry: Telemetry| (failed(error, telemetry), After::Nothing);
        let fence = match self.created(&scope, &record).await {
            Ok(fence) => fence,
            Err(StoreError::Exists { .. }) => {
                return refused(RunError::failed(ErrorCode::InvalidInput, TAKEN), telemetry);
            }
            Err(error) => return refused(RunError::of_store(&error), telemetry),
        };
        record.fence = Some(fence);
        let id = record.id.clone();
        let approval = match self.shared.door.ask_for_run(asking, &scope.context, &id).await {
            Ok(approval) => approval,
            Err(error) => return self.ended_before(&id, fence, RunError::of_store(&error), &scope).await,
        };
        let (at, source, language) = (self.shared.now(), input.code.clone(), input.language);
        let (tool, parent) = (asking.tool(), parent.clone());
        let unbegun = Unbegun { unbegun: VERSION, at, source, language, approval, tool, parent };
        let begun = |telemetry| Begun {
            scope: scope.clone(),
            input,
            record,
            telemetry,
            abort: abort.clone(),
            is_admitted: true,
        };
        match self.word(&scope, &unbegun, &abort).await {
            Word::Yes => Box::pin(self.begin(begun(telemetry))).await,
            Word::No(error) => self.ended_before(&id, fence, error, &scope).await,
            Word::None => {
                telemetry.park_count += 1;
                let result = unbegun.waiting(&id, telemetry);
                match self.stored_source(&scope, &id, fence, &unbegun, &result).await {
                    Ok(()) => (result, After::Nothing),
                    Err(error) => self.ended_before(&id, fence, RunError::of_store(&error), &scope).await,
                }
            }
        }
    }

    /// Goes on with a program that had not begun, and is ours now.
    pub(crate) async fn go_on_before(
        &self,
        (scope, run, fence): (RunScope, &Run, Fence),
        unbegun: Unbegun,
        calls: &[Call],
        abort: tokio_util::sync::CancellationToken,
    ) -> Driven {
        // Its process died after it had begun: only what has changed nothing is begun again.
        if !may_begin_again(calls) {
            return self.ended_before(&run.id, fence, lost(run, calls), &scope).await;
        }
        if scope.people == People::Present {
            self.shared.door.tell_asked(
                scope.context.parent_call.as_ref().unwrap_or(&unbegun.parent),
                &unbegun.approval,
                &scope.context,
            );
        }
        match self.word(&scope, &unbegun, &abort).await {
            Word::Yes => {
                let next_seq = calls.iter().map(|call| call.seq + 1).max().unwrap_or(0);
                let record = RunRecord::claimed(run.id.clone(), fence, None, next_seq);
                let input = ExecInput { code: unbegun.source, language: unbegun.language, key: None };
                let telemetry = Telemetry { wait_count: 1, ..telemetry(&scope, 1) };
                Box::pin(self.begin(Begun { scope, input, record, telemetry, abort, is_admitted: true })).await
            }
            Word::No(error) => self.ended_before(&run.id, fence, error, &scope).await,
            Word::None => {
                let lifetime = scope.settings.snapshot_lifetime;
                let until = self.shared.now() + lifetime.as_millis() as Millis;
                if self.shared.store.let_wait(&run.id, fence, until).await.is_err() {
                    self.shared.give_back(&run.id, fence, lifetime);
                }
                (unbegun.waiting(&run.id, Telemetry { wait_count: 1, ..telemetry(&scope, 0) }), After::Nothing)
            }
        }
    }

    /// Returns what a person has said. Where a person is there, it is waited for.
    async fn word(&self, scope: &RunScope, unbegun: &Unbegun, abort: &tokio_util::sync::CancellationToken) -> Word {
        let state = match scope.people {
            People::Present => tokio::select! {
                biased;
                () = abort.cancelled() => return Word::No(RunError::aborted()),
                () = scope.left.cancelled() => return Word::None,
                () = self.shared.closing.cancelled() => return Word::None,
                settled = self.shared.door.settled(&unbegun.approval) => settled,
            },
            People::Absent => {
                let store = &self.shared.store;
                match store.expire_approvals(store.now()).await {
                    Ok(_) => store.approval(&unbegun.approval).await.map(|approval| approval.state),
                    Err(error) => Err(error),
                }
            }
        };
        let tool = &unbegun.tool;
        let refused = |error: String| Word::No(RunError::failed(ErrorCode::Blocked, error));
        match state {
            Ok(ApprovalState::Allowed) => Word::Yes,
            Ok(ApprovalState::Pending) => Word::None,
            Ok(ApprovalState::Denied) => refused(format!("the call of {tool} was denied: the program did not begin")),
            Ok(ApprovalState::Expired) => {
                refused(format!("no person answered in time whether {tool} may be called: the program did not begin"))
            }
            Ok(ApprovalState::Cancelled) => Word::No(RunError::aborted()),
            Err(error) => Word::No(RunError::of_store(&error)),
        }
    }

    /// Stores that there is this run, and that it is ours.
    async fn created(&self, scope: &RunScope, record: &RunRecord) -> Result<Fence, StoreError> {
        if let Some(fence) = record.fence {
            return Ok(fence);
        }
        let owner = self.shared.leases.hold().await?;
        let Context { session, user, .. } = &scope.context;
        let run = NewRun {
            id: record.id.clone(),
            session: session.clone(),
            user: user.clone(),
            agent_run: scope.agent_run().map(str::to_owned),
            created_at: self.shared.now(),
            key: record.key.as_ref().map(|key| RunKey { key: key.key.clone(), program: key.program.into() }),
            tools: Some(scope.tools.known().stored()),
            recorded: None,
        };
        let claim = Claim { owner, safety: self.shared.safety(&scope.settings) };
        let _turn = self.shared.turn_to_write(scope).await;
        self.shared.store.create_run(run, claim, None, Safety::Power).await
    }

    /// Stores the program in the place of a snapshot.
    async fn stored_source(
        &self,
        scope: &RunScope,
        id: &RunId,
        fence: Fence,
        unbegun: &Unbegun,
        result: &CodeModeResult,
    ) -> Result<(), StoreError> {
        let detail = serde_json::to_string(unbegun).unwrap_or_default();
        let (room, lifetime) = (scope.settings.room, scope.settings.snapshot_lifetime.as_millis() as Millis);
        let expires_at = Some(unbegun.at + lifetime);
        let cell = CellPart::Full { image: IMAGE.into(), bytes: Vec::new() };
        let checkpoint = Checkpoint { next: 0, cell, detail, recorded: None };
        let park = Park { checkpoint, result: written(result).into(), expires_at, room };
        let turn = self.shared.turn_to_write(scope).await;
        self.shared.store.park(id, fence, park).await?;
        drop(turn);
        self.shared.counting.add(Counted::Park, 1);
        Ok(())
    }

    /// Ends a run that did not begin.
    async fn ended_before(&self, id: &RunId, fence: Fence, ending: RunError, scope: &RunScope) -> Driven {
        let state = ending.state();
        self.over(id, fence, state, failed(ending, telemetry(scope, 0))).await
    }
}
