//! Room for programs that wait: so many in all, of one user and of one session of a user.

use crate::SessionKey;

/// How many runs may have room. A run has it from the moment when it may be suspended until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// In all.
    pub all: u32,
    /// Of the user of the run.
    pub of_user: u32,
    /// Of its user in its session.
    pub of_session: u32,
}

/// Where there is no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// In the whole store.
    All,
    /// For this user.
    User,
    /// In this session.
    Session(SessionKey),
}
