//! The file: private, in WAL mode, at a known schema.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::SqliteError;
use crate::migrations::STEPS;
use crate::presence::Presence;

/// How long a write waits for another process to finish its own.
pub(crate) const BUSY: Duration = Duration::from_secs(10);

/// Statements that are kept prepared: all there are. With fewer than are in use, each is parsed again every time.
const STATEMENTS: usize = 128;

/// The mode in which a file gives space back when it is told to.
const INCREMENTAL: i64 = 2;

/// Opens the connection that writes, with the schema brought up to date.
pub(crate) fn writer(path: &Path) -> Result<Connection, SqliteError> {
    let of = |error| SqliteError::of(path, error);
    let mut connection = connection(path).map_err(of)?;
    // Read before anything is written: a file that is not ours must stay as it is.
    let found = version(&connection).map_err(of)?;
    if found > STEPS.len() as i64 {
        return Err(SqliteError::Newer { path: path.to_owned(), found, known: STEPS.len() as i64 });
    }
    // `sync.rs` syncs commits. Folding in 16 MB at a time instead of 4 spares pages that are written often, and a large cell
    // must not be written twice because it does not fit into the cache.
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;
        PRAGMA wal_autocheckpoint = 4000; PRAGMA journal_size_limit = 33554432; PRAGMA cache_spill = OFF;";
    let mode: i64 = connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0)).map_err(of)?;
    if mode != INCREMENTAL {
        // Before anything else is written. SQLite writes this even where it stands already.
        connection.pragma_update(None, "auto_vacuum", INCREMENTAL).map_err(of)?;
    }
    connection.execute_batch(settings).map_err(of)?;
    if found < STEPS.len() as i64 {
        migrate(&mut connection).map_err(of)?;
    }
    make_shrinkable(&connection).map_err(of)?;
    Ok(connection)
}

/// Opens a connection that only reads.
pub(crate) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = connection(path)?;
    // Pages that are read often are in the system's cache anyway.
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -512;")?;
    Ok(connection)
}

/// Opens a connection that changes nothing, in a place where nothing can be changed too.
pub(crate) fn looking(path: &Path) -> Result<Connection, SqliteError> {
    fs::metadata(path).map_err(|source| SqliteError::Open { path: path.to_owned(), source })?;
    let open = |immutable: bool| -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
        let mut address = String::from("file:");
        for byte in path.as_os_str().as_encoded_bytes() {
            match byte {
                b'/' | b'.' | b'-' | b'_' => address.push(char::from(*byte)),
                byte if byte.is_ascii_alphanumeric() => address.push(char::from(*byte)),
                byte => address.push_str(&format!("%{byte:02x}")),
            }
        }
        if immutable {
            address.push_str("?immutable=1");
        }
        let connection = Connection::open_with_flags(address, flags)?;
        connection.busy_timeout(BUSY)?;
        version(&connection)?;
        Ok(connection)
    };
    // Without a log beside it all is in the file, and no file need be made to read it.
    let is_folded = || {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        fs::metadata(log).map_or(true, |log| log.len() == 0)
    };
    match open(false) {
        Err(_) if is_folded() => open(true),
        opened => opened,
    }
    .map_err(|error| SqliteError::of(path, error))
}

fn connection(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Otherwise SQLite plans, and so parses, some statements again for each new parameter.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

/// Makes the directory (0700) and the file (0600), and takes the lock that says that this process has it open. SQLite gives
/// its own files beside it the same permissions.
pub(crate) fn prepare(path: &Path) -> io::Result<(u64, Presence)> {
    make_directory(path)?;
    let presence = Presence::shared(path)?;
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => drop(made?),
    }
    let there = fs::metadata(path)?;
    if there.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
    }
    Ok((there.ino(), presence))
}

/// Makes the directory that a store is in (0700).
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    match path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        Some(directory) => DirBuilder::new().recursive(true).mode(0o700).create(directory),
        None => Ok(()),
    }
}

/// Returns the schema of a file.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    // The schema is read too, so that a damaged file shows itself here.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Takes the steps that are missing, each with its number in one transaction. Two processes may start at once.
fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    for (index, step) in STEPS.iter().enumerate() {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if version(&transaction)? == index as i64 {
            transaction.execute_batch(step)?;
            transaction.pragma_update(None, "user_version", index as i64 + 1)?;
        }
        transaction.commit()?;
    }
    Ok(())
}

/// Lets a file of an earlier version give space back: it has to be written anew once. A large one stays as it is, and so does
/// one that another process uses just now, until the next time.
fn make_shrinkable(connection: &Connection) -> rusqlite::Result<()> {
    const LARGE: i64 = 64 << 20;
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    if number("auto_vacuum")? == 0 && number("page_count")? * number("page_size")? < LARGE {
        connection.busy_timeout(Duration::ZERO)?;
        // The store works without it: another process or a full disk may be in the way.
        let _ = connection.execute_batch("VACUUM");
        connection.busy_timeout(BUSY)?;
    }
    Ok(())
}
