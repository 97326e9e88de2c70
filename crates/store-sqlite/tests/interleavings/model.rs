//! The contract of the store for one run, small enough to be read: what each step does, and to whom it is refused.

use std::collections::BTreeMap;

use pincer_store::RunState;

/// One step of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Looks at the run: what a claim says that it saw.
    Read,
    Claim,
    /// Stores a whole cell with this next number.
    Full(u32),
    /// Stores a difference.
    Delta(u32),
    /// Dispatches a call that must be part of the checkpoint.
    Effect(u32),
    /// Dispatches a call that changes nothing.
    Look(u32),
    /// Dispatches a call that retires a checkpoint it is not part of.
    Retire(u32),
    Settle(u32),
    Park(u32),
    Finish,
    /// Lets the run wait for another owner, as it was seen.
    LetWait,
    Abort,
    Expire,
}

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Done,
    Claimed(i64),
    /// There was nothing to do.
    Nothing,
    Fenced,
    NotCovered,
    Outdated,
    Exists,
    Missing,
    /// The owner has no proof to try it with.
    Skipped,
}

/// What an owner knows.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub name: &'static str,
    pub seen: Option<(RunState, i64)>,
    pub fence: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Row {
    pub owner: String,
    pub has_effect: bool,
    /// The place among the settled calls.
    pub settled: Option<i64>,
}

/// One run, as it must be stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Model {
    pub state: RunState,
    pub fence: i64,
    pub owner: String,
    /// The next numbers of the whole cell and of what follows it.
    pub parts: Vec<u32>,
    pub calls: BTreeMap<u32, Row>,
}

impl Model {
    /// Calls below this number are part of the checkpoint.
    pub(crate) fn next(&self) -> u32 {
        self.parts.last().copied().unwrap_or(0)
    }

    fn is_outdated(&self, next: u32) -> bool {
        self.calls.iter().any(|(seq, call)| *seq >= next && call.has_effect)
    }

    fn end(&mut self, state: RunState) -> Told {
        (self.state, self.fence) = (state, self.fence + 1);
        self.parts.clear();
        Told::Done
    }

    /// Takes a step, and returns what its owner must be told.
    pub(crate) fn take(&mut self, step: Step, owner: &mut Owner) -> Told {
        match step {
            Step::Read => {
                owner.seen = Some((self.state, self.fence));
                return Told::Done;
            }
            Step::Settle(seq) => return self.settle(seq, owner.name),
            Step::Abort if self.state.is_final() => return Told::Nothing,
            Step::Abort => return self.end(RunState::Aborted),
            Step::Expire if self.state != RunState::Waiting => return Told::Nothing,
            Step::Expire => return self.end(RunState::Expired),
            Step::Claim => return self.claim(owner),
            Step::LetWait => return self.let_wait(owner),
            _ => {}
        }
        let Some(fence) = owner.fence else { return Told::Skipped };
        if fence != self.fence || self.state.is_final() {
            return Told::Fenced;
        }
        match step {
            Step::Effect(seq) | Step::Look(seq) | Step::Retire(seq) => self.dispatch(step, seq, owner.name),
            Step::Finish => self.end(RunState::Completed),
            _ if self.state != RunState::Running => Told::Fenced,
            Step::Full(next) | Step::Delta(next) | Step::Park(next) if self.is_outdated(next) => Told::Outdated,
            Step::Delta(_) if self.parts.is_empty() => Told::Missing,
            Step::Delta(next) => {
                self.parts.push(next);
                Told::Done
            }
            Step::Full(next) => {
                self.parts = vec![next];
                Told::Done
            }
            Step::Park(next) => {
                (self.parts, self.state) = (vec![next], RunState::Waiting);
                Told::Done
            }
            _ => unreachable!("handled above"),
        }
    }

    fn claim(&mut self, owner: &mut Owner) -> Told {
        match owner.seen {
            None => Told::Skipped,
            Some(seen) if seen != (self.state, self.fence) || self.state.is_final() => Told::Fenced,
            Some(_) => {
                (self.state, self.fence) = (RunState::Running, self.fence + 1);
                self.owner = owner.name.into();
                owner.fence = Some(self.fence);
                Told::Claimed(self.fence)
            }
        }
    }

    fn let_wait(&mut self, owner: &Owner) -> Told {
        match owner.seen {
            None => Told::Skipped,
            Some((_, fence)) if fence != self.fence || self.state != RunState::Running => Told::Fenced,
            Some(_) if self.parts.is_empty() => Told::Nothing,
            Some(_) => {
                (self.state, self.fence) = (RunState::Waiting, self.fence + 1);
                Told::Done
            }
        }
    }

    fn dispatch(&mut self, step: Step, seq: u32, owner: &str) -> Told {
        let has_effect = !matches!(step, Step::Look(_));
        let is_covered = !has_effect || seq < self.next();
        if !is_covered && (self.state == RunState::Waiting || matches!(step, Step::Effect(_))) {
            return Told::NotCovered;
        }
        match self.calls.get_mut(&seq) {
            Some(call) if call.settled.is_some() || call.has_effect != has_effect => return Told::Exists,
            Some(call) => call.owner = owner.into(),
            None => {
                self.calls.insert(seq, Row { owner: owner.into(), has_effect, settled: None });
            }
        }
        if !is_covered {
            self.parts.clear();
        }
        Told::Done
    }

    fn settle(&mut self, seq: u32, owner: &str) -> Told {
        let place = 1 + self.calls.values().filter_map(|call| call.settled).max().unwrap_or(0);
        match self.calls.get_mut(&seq) {
            None => Told::Missing,
            Some(call) if call.owner != owner => Told::Fenced,
            Some(call) if call.settled.is_some() => Told::Nothing,
            Some(call) => {
                call.settled = Some(place);
                Told::Done
            }
        }
    }
}
