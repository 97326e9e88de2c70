//! How a program ends, by the word of the guest.

use crate::{Failure, Json, LeftOut};

/// The end of the program, as the guest last said in this turn.
#[derive(Debug)]
pub(crate) enum Ending {
    Value(Option<Json>, ValueKind),
    Failed(Failure),
}

/// Where a value comes from. The same numbers are in `guest/prelude.js`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// The program returned it.
    Returned,
    /// It is that of the last expression.
    Last,
    /// That of the last expression is not there.
    LeftOut(LeftOut),
}

impl ValueKind {
    pub(crate) fn of(number: Option<u32>) -> Self {
        match number {
            Some(1) => Self::Last,
            Some(2) => Self::LeftOut(LeftOut::Unreadable),
            Some(3) => Self::LeftOut(LeftOut::Unsettled),
            _ => Self::Returned,
        }
    }
}
