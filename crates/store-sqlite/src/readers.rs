//! Connections that only read: a long read holds up neither a commit nor another read.

use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use crate::SqliteError;
use crate::file::reader;
use crate::store::{Core, Refused};

/// The connections that are kept open while nothing is read.
const KEPT: usize = 4;

/// Connections that are open and not in use. They see everything that was committed before a read begins.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Vec<Connection>>);

impl Core {
    /// Runs `work` on a connection of its own.
    pub(crate) fn reading<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Refused>) -> Result<T, Refused> {
        let free = self.readers.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match free {
            Some(connection) => connection,
            None => {
                let opened = reader(&self.path).map_err(|error| SqliteError::of(&self.path, error))?;
                // Another file may be at the path by now.
                self.check_there()?;
                opened
            }
        };
        let read = work(&connection);
        let mut free = self.readers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.push(connection);
        }
        read
    }
}
