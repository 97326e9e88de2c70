//! The place of a program: getting one, and giving it up while there is nothing to do. The cell becomes bytes meanwhile.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pincer_sandbox::{Allotment, Cell, Checkpoint, Error};
use tokio_util::sync::CancellationToken;

use crate::bridge;
use crate::codemode::CodeMode;
use crate::drive::{Driver, margin};
use crate::outcome::{RunError, told};
use crate::places::Place;
use crate::result::ErrorCode;
use crate::scope::RunScope;
use crate::scratch::Kept;

/// A cell that is larger than this as bytes is restored on a thread that may block.
const LARGE: usize = 64 << 10;
/// A cell with more memory than this is put aside and restored there too.
const LARGE_CELL: usize = 4 << 20;
/// A cell that was put aside is one snapshot.
const NO_DELTAS: [[u8; 0]; 0] = [];

/// Where the cell of a program is.
#[expect(clippy::large_enum_variant, reason = "it is nearly always the large one, and a box would cost each turn")]
pub(crate) enum Home {
    /// In a place of its own.
    Live(Cell),
    /// Put aside.
    Aside(Aside),
    /// In the middle of a turn, or over.
    Nowhere,
}

/// A cell that was put aside.
pub(crate) struct Aside {
    kept: Kept,
    /// The memory it had, and will have again.
    memory: usize,
    /// Its part of the memory budget. It counts what is kept in memory.
    allotment: Option<Allotment>,
    /// How much it has printed that its caller has not been told.
    output_spent: usize,
}

/// The reason why a cell is no bytes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AsideError {
    #[error(transparent)]
    Cell(#[from] Error),
    #[error("a cell that was put aside cannot be read from its file")]
    Scratch(#[from] io::Error),
}

impl AsideError {
    pub(crate) fn run_error(&self) -> RunError {
        match self {
            Self::Cell(error) => RunError::of_error(error),
            Self::Scratch(_) => RunError::failed(ErrorCode::RuntimeUnavailable, told(self)),
        }
    }
}

impl Home {
    /// Takes the cell for a turn.
    pub(crate) fn take(&mut self) -> Option<Cell> {
        match std::mem::replace(self, Self::Nowhere) {
            Self::Live(cell) => Some(cell),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Makes the next checkpoint of the cell; a whole one if it is put aside.
    pub(crate) fn checkpoint(&mut self) -> Result<Checkpoint, AsideError> {
        match self {
            Self::Live(cell) => Ok(cell.checkpoint()?),
            Self::Aside(aside) => Ok(Checkpoint::Full(aside.kept.read()?)),
            Self::Nowhere => Err(Error::Ended.into()),
        }
    }

    /// Turns the cell into bytes.
    pub(crate) fn park(&mut self) -> Result<Vec<u8>, AsideError> {
        match self {
            Self::Live(cell) => Ok(cell.park()?),
            Self::Aside(aside) => Ok(aside.kept.read()?),
            Self::Nowhere => Err(Error::Ended.into()),
        }
    }
}

impl CodeMode {
    /// Waits for a place for a live cell. If there will be none in time, it fails at once.
    pub(crate) async fn place(
        &self,
        scope: &RunScope,
        deadline: Instant,
        abort: &CancellationToken,
    ) -> Result<Place, RunError> {
        let party = scope.party();
        let too_late = |wait: Duration| RunError::of_queue(wait, scope.settings.timeout);
        let expected = self.shared.places.expected_wait(&party.user);
        // The pace is an estimate. In doubt it is waited for.
        if Instant::now() + expected * 2 / 3 > deadline {
            return Err(too_late(expected));
        }
        tokio::select! {
            biased;
            place = self.shared.places.place(&party) => Ok(place),
            () = abort.cancelled() => Err(RunError::aborted()),
            () = tokio::time::sleep_until(deadline.into()) => {
                Err(too_late(self.shared.places.expected_wait(&party.user).max(Duration::from_secs(1))))
            }
        }
    }
}

impl Driver {
    /// Lets others have the place and the memory of the cell while the program waits.
    pub(crate) fn rest(&mut self) {
        if let (Some(place), Home::Live(cell), false) = (&mut self.place, &self.home, self.stays) {
            place.rest(cell.memory_bytes());
            let wanted = self.shared.memory.budget.wanted();
            if wanted > 0 {
                self.shared.places.make_room(wanted);
            }
        }
    }

    /// Gives place and memory to others. A program that is too large for that keeps them.
    pub(crate) async fn put_aside(&mut self) {
        let Some(cell) = self.home.take() else { return };
        let is_large = cell.memory_bytes() > LARGE_CELL;
        let shared = Arc::clone(&self.shared);
        let work = move || parked(cell, shared.memory.scratch.as_deref());
        let parked = if is_large { tokio::task::spawn_blocking(work).await } else { Ok(work()) };
        match parked {
            Ok(Parked::Aside(aside)) => {
                tracing::debug!(run = %self.record.id, bytes = aside.kept.len(), "put aside");
                (self.home, self.place) = (Home::Aside(aside), None);
            }
            Ok(Parked::Stays(cell, error)) => {
                tracing::debug!(run = %self.record.id, %error, "cannot be put aside");
                (self.home, self.stays) = (Home::Live(cell), true);
                self.place.iter_mut().for_each(Place::work);
            }
            // The next turn reports that there is no cell.
            Err(error) => tracing::error!(run = %self.record.id, %error, "a cell was lost while it was put aside"),
        }
    }

    /// Brings the cell back, if it was put aside, when there are a place and memory for it. `false` if there are none in time:
    /// then the program is to be suspended.
    pub(crate) async fn come_back(&mut self) -> Result<bool, RunError> {
        if let (Home::Live(cell), false) = (&mut self.home, self.stays)
            && !cell.claim()
        {
            // The memory that it may need now is not there: others go first.
            self.put_aside().await;
        }
        let Home::Aside(aside) = &mut self.home else {
            self.place.iter_mut().for_each(Place::work);
            return Ok(true);
        };
        let until = self.deadline - margin(&self.scope.settings) / 2;
        let party = self.scope.party();
        let covered = self.record.covered.unwrap_or(0);
        let mut coming = Box::pin(async {
            let place = self.shared.places.place(&party).await;
            if let Some(allotment) = &mut aside.allotment {
                allotment.grow(aside.memory).await;
            }
            place
        });
        let place = loop {
            let note = tokio::select! {
                biased;
                () = self.abort.cancelled() => return Err(RunError::aborted()),
                place = &mut coming => break place,
                () = self.shared.closing.cancelled() => return Ok(false),
                () = tokio::time::sleep_until(until.into()) => return Ok(false),
                note = self.pending_calls.next() => note,
            };
            // Calls go on meanwhile: others may wait for the memory of their inputs.
            if let Some(settled) = self.pending_calls.note(note) {
                self.recorder.settled(&settled);
                self.arrived.push(bridge::arrival(&self.record.id, settled));
            }
            if self.pending_calls.can_start()
                && !self.pending_calls.needs_checkpoint()
                && !self.pending_calls.any_uncovered(covered)
            {
                self.pending_calls.start();
            }
        };
        drop(coming);
        self.restore_in(place).await.map(|()| true)
    }

    async fn restore_in(&mut self, place: Place) -> Result<(), RunError> {
        let started = Instant::now();
        let Home::Aside(aside) = std::mem::replace(&mut self.home, Home::Nowhere) else { return Ok(()) };
        let Aside { kept, memory, allotment, output_spent } = aside;
        let (engine, limits) = (self.shared.engine.clone(), self.scope.settings.limits);
        let is_large = kept.len() > LARGE || memory > LARGE_CELL;
        let restore = move || -> Result<Cell, AsideError> {
            let bytes = kept.into_bytes()?;
            Ok(match allotment {
                Some(allotment) => engine.restore_within(allotment, &bytes, &NO_DELTAS, limits),
                None => engine.restore(&bytes, limits),
            }?)
        };
        let cell = if is_large {
            let restoring = tokio::task::spawn_blocking(restore).await;
            restoring.map_err(|_| RunError::bug("restoring a cell broke down"))?
        } else {
            restore()
        };
        let mut cell = cell.map_err(|error| error.run_error())?;
        cell.provide(self.scope.library());
        cell.spend_output(output_spent);
        tracing::debug!(run = %self.record.id, us = started.elapsed().as_micros() as u64, "came back");
        (self.home, self.place) = (Home::Live(cell), Some(place));
        Ok(())
    }
}

/// The result of putting a cell aside.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
enum Parked {
    Aside(Aside),
    /// It is too large.
    Stays(Cell, Error),
}

fn parked(mut cell: Cell, scratch: Option<&Path>) -> Parked {
    let bytes = match cell.park() {
        Ok(bytes) => bytes,
        Err(error) => return Parked::Stays(cell, error),
    };
    let (memory, output_spent) = (cell.memory_bytes(), cell.output_spent());
    let kept = Kept::new(bytes, scratch);
    let mut allotment = cell.into_allotment();
    if let Some(allotment) = &mut allotment {
        allotment.shrink(kept.in_memory());
    }
    Parked::Aside(Aside { kept, memory, allotment, output_spent })
}

/// Waits until another program needs this place. Only a place that rests is ever wanted.
pub(crate) async fn wanted(place: Option<&Place>) {
    match place {
        Some(place) => place.wanted().await,
        None => std::future::pending().await,
    }
}
