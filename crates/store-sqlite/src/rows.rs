//! Domain types in rows: ids and states are stored as texts.

use pincer_store::{
    AgentRunState, ApprovalState, CallState, CronAfter, CronClock, CronMissed, CronRunState, DeliverySource,
    DeliveryState, EntryKind, Repeat, RunState,
};
use rusqlite::Row;
use rusqlite::types::{FromSqlError, Type, ValueRef};

/// Reads an id.
pub(crate) fn id<T: From<String>>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    row.get::<_, String>(column).map(T::from)
}

/// Reads an id that may be absent.
pub(crate) fn optional_id<T: From<String>>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    Ok(row.get::<_, Option<String>>(column)?.map(T::from))
}

/// Reads a state.
pub(crate) fn state<T: State>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let word = row.get_ref(column)?.as_str()?;
    let unknown = || rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(FromSqlError::InvalidType));
    T::of(word).ok_or_else(unknown)
}

/// Reads a state that may be absent.
pub(crate) fn optional_state<T: State>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    if row.get_ref(column)? == ValueRef::Null { Ok(None) } else { state(row, column).map(Some) }
}

/// A state that is stored as a word.
pub(crate) trait State: Sized {
    fn of(word: &str) -> Option<Self>;
}

impl State for RunState {
    fn of(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}

impl State for CallState {
    fn of(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}

impl State for Repeat {
    fn of(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}

impl State for ApprovalState {
    fn of(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}

impl State for EntryKind {
    fn of(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}

impl State for AgentRunState {
    fn of(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}

impl State for CronAfter {
    fn of(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}

impl State for DeliveryState {
    fn of(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}

impl State for CronClock {
    fn of(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}

impl State for CronMissed {
    fn of(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}

impl State for CronRunState {
    fn of(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}

impl State for DeliverySource {
    fn of(word: &str) -> Option<Self> {
        Self::from_word(word)
    }
}
