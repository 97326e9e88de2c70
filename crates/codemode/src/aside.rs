//! The place of a program: getting one, and giving it up while there is nothing to do. The cell becomes bytes meanwhile.

use std::time::{Duration, Instant};

use pincer_sandbox::{Cell, Checkpoint, Error};
use tokio_util::sync::CancellationToken;

use crate::codemode::CodeMode;
use crate::drive::{Driver, margin};
use crate::ending::Ending;
use crate::places::Place;
use crate::scope::RunScope;

/// A cell that is larger than this is restored on a thread that may block.
const LARGE: usize = 64 << 10;

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
    bytes: Vec<u8>,
    /// How much it has printed that its caller has not been told.
    output_spent: usize,
}

impl Home {
    /// Takes the cell for a turn.
    pub fn take(&mut self) -> Option<Cell> {
        match std::mem::replace(self, Self::Nowhere) {
            Self::Live(cell) => Some(cell),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Makes the next checkpoint of the cell; a whole one if it is put aside.
    pub fn checkpoint(&mut self) -> Result<Checkpoint, Error> {
        match self {
            Self::Live(cell) => cell.checkpoint(),
            Self::Aside(aside) => Ok(Checkpoint::Full(aside.bytes.clone())),
            Self::Nowhere => Err(Error::Ended),
        }
    }

    /// Turns the cell into bytes.
    pub fn park(&mut self) -> Result<Vec<u8>, Error> {
        match self {
            Self::Live(cell) => cell.park(),
            Self::Aside(aside) => Ok(aside.bytes.clone()),
            Self::Nowhere => Err(Error::Ended),
        }
    }
}

impl CodeMode {
    /// A place for a live cell, when there is one. If there will be none in time, that is told at once.
    pub(crate) async fn place(
        &self,
        scope: &RunScope,
        deadline: Instant,
        abort: &CancellationToken,
    ) -> Result<Place, Ending> {
        let party = scope.party();
        let too_late = |wait: Duration| Ending::of_queue(wait, scope.settings.timeout);
        let expected = self.inner.places.expected_wait(&party.user);
        // The pace is an estimate. In doubt it is waited for.
        if Instant::now() + expected * 2 / 3 > deadline {
            return Err(too_late(expected));
        }
        tokio::select! {
            biased;
            place = self.inner.places.place(&party) => Ok(place),
            () = abort.cancelled() => Err(Ending::aborted()),
            () = tokio::time::sleep_until(deadline.into()) => {
                Err(too_late(self.inner.places.expected_wait(&party.user).max(Duration::from_secs(1))))
            }
        }
    }
}

impl Driver {
    /// Lets others have the place while the program waits.
    pub fn rest(&mut self) {
        if let (Some(place), false) = (&mut self.place, self.stays) {
            place.rest();
        }
    }

    /// Gives the place to others. A program that is too large for that keeps it.
    pub fn put_aside(&mut self) {
        let Home::Live(cell) = &mut self.home else { return };
        match cell.park() {
            Ok(bytes) => {
                tracing::debug!(run = %self.record.id, bytes = bytes.len(), "put aside");
                let aside = Aside { bytes, output_spent: cell.output_spent() };
                (self.home, self.place) = (Home::Aside(aside), None);
            }
            Err(error) => {
                tracing::debug!(run = %self.record.id, %error, "cannot be put aside");
                self.stays = true;
                self.place.iter_mut().for_each(Place::work);
            }
        }
    }

    /// Brings the cell back, if it was put aside, when there is a place for it. `false` if there is none in time: then the program is to be suspended.
    pub async fn come_back(&mut self) -> Result<bool, Ending> {
        if !matches!(self.home, Home::Aside(_)) {
            self.place.iter_mut().for_each(Place::work);
            return Ok(true);
        }
        let until = self.deadline - margin(&self.scope.settings) / 2;
        let party = self.scope.party();
        let place = tokio::select! {
            biased;
            () = self.abort.cancelled() => return Err(Ending::aborted()),
            place = self.inner.places.place(&party) => place,
            () = self.inner.closing.cancelled() => return Ok(false),
            () = tokio::time::sleep_until(until.into()) => return Ok(false),
        };
        self.restore_in(place).await.map(|()| true)
    }

    async fn restore_in(&mut self, place: Place) -> Result<(), Ending> {
        let started = Instant::now();
        let Home::Aside(aside) = std::mem::replace(&mut self.home, Home::Nowhere) else { return Ok(()) };
        let Aside { bytes, output_spent } = aside;
        let (engine, limits) = (self.inner.engine.clone(), self.scope.settings.limits);
        let is_large = bytes.len() > LARGE;
        let restore = move || engine.restore(&bytes, limits);
        let cell = if is_large {
            let restoring = tokio::task::spawn_blocking(restore).await;
            restoring.map_err(|_| Ending::bug("restoring a cell broke down"))?
        } else {
            restore()
        };
        let mut cell = cell.map_err(|error| Ending::of_error(&error))?;
        cell.provide(self.scope.tools.clone());
        cell.spend_output(output_spent);
        tracing::debug!(run = %self.record.id, us = started.elapsed().as_micros() as u64, "came back");
        (self.home, self.place) = (Home::Live(cell), Some(place));
        Ok(())
    }
}

/// Waits until another program needs this place. Only a place that rests is ever wanted.
pub(crate) async fn wanted(place: Option<&Place>) {
    match place {
        Some(place) => place.wanted().await,
        None => std::future::pending().await,
    }
}
