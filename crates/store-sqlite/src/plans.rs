//! The ways in which SQLite finds what is asked for often: by an index, whatever else there is.

use rusqlite::Connection;

use crate::SqliteStore;
use crate::agent_runs::{OPEN, QUEUED};
use crate::cron::{DUE, NEXT};
use crate::deliveries::{EXPIRED, FIRST};
use crate::figures;
use crate::recordings::{OF_AGENT_RUN, OF_SESSION};
use crate::searches::{LAST, OF_ALL, OF_USER};
use crate::sessions::{CONTEXT, DRAFTS, NAMED};

/// Returns how SQLite would find the rows of a query.
fn plan(connection: &Connection, query: &str) -> Vec<String> {
    let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {query}")).expect("a query");
    // Without values: a plan needs none.
    explain.raw_query().mapped(|row| row.get(3)).collect::<rusqlite::Result<_>>().expect("a plan")
}

#[test]
fn what_is_asked_for_often_is_found_by_an_index_in_its_order() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pincer.db");
    drop(SqliteStore::open(&path).expect("a store"));
    let connection = Connection::open(&path).expect("the file");
    for (query, expected) in [
        (CONTEXT, vec!["SEARCH entry USING INDEX sqlite_autoindex_entry_1 (session=? AND position>? AND position<?)"]),
        (NAMED, vec!["SEARCH entry USING INDEX entry_id (session=? AND id>?)"]),
        (OF_USER, vec!["SEARCH session USING INDEX session_of_user (user=?)"]),
        (OF_ALL, vec!["SCAN session USING INDEX session_updated"]),
        (LAST, vec!["SEARCH entry USING INDEX sqlite_autoindex_entry_1 (session=? AND position<?)"]),
        (NEXT, vec!["SEARCH cron_job USING COVERING INDEX cron_job_next (clock=? AND next_at>?)"]),
        (EXPIRED, vec!["SEARCH delivery USING INDEX delivery_expires (expires_at<?)"]),
        (FIRST, vec!["SEARCH delivery USING COVERING INDEX delivery_pending (channel=?)"]),
        (
            OF_AGENT_RUN,
            vec![
                "SEARCH run USING COVERING INDEX run_of_agent_run (agent_run=?)",
                "SEARCH recording EXISTS USING PRIMARY KEY (run=? AND number=?)",
            ],
        ),
        (
            OF_SESSION,
            vec![
                "SEARCH run USING INDEX run_session (session=?)",
                "SEARCH recording EXISTS USING PRIMARY KEY (run=? AND number=?)",
            ],
        ),
        (DRAFTS, vec!["SCAN session USING INDEX session_draft"]),
        (
            OPEN,
            vec![
                "COMPOUND QUERY",
                "LEFT-MOST SUBQUERY",
                "SEARCH agent_run USING INDEX agent_run_open (user=? AND session_key=?)",
                "UNION ALL",
                "SEARCH agent_run USING INDEX agent_run_unmentioned (user=? AND session_key=?)",
            ],
        ),
        (figures::OF_USER, vec!["SEARCH run_figures USING INDEX run_figures_user (user=? AND at>?)"]),
        (
            figures::OF_KEY,
            vec!["SEARCH run_figures USING INDEX run_figures_session (user=? AND session_key=? AND at>?)"],
        ),
        (
            figures::OF_SESSION,
            vec![
                "SEARCH agent_run USING COVERING INDEX agent_run_session (session=? AND rowid>?)",
                "SCALAR SUBQUERY 1",
                "SEARCH session USING COVERING INDEX sqlite_autoindex_session_1 (id=?)",
                "SEARCH run_figures USING INTEGER PRIMARY KEY (rowid=?)",
            ],
        ),
        (QUEUED, vec!["SEARCH agent_run USING INDEX agent_run_open (user=? AND session_key=?)"]),
    ] {
        assert_eq!(plan(&connection, query), expected, "{query}");
    }
}

#[test]
fn jobs_that_are_due_are_found_by_an_index_however_many_are_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pincer.db");
    drop(SqliteStore::open(&path).expect("a store"));
    let plan = plan(&Connection::open(&path).expect("the file"), DUE);
    let looks: Vec<&String> = plan.iter().filter(|line| line.contains("cron_job")).collect();
    assert!(looks.len() >= 3 && looks.iter().all(|line| line.contains("COVERING INDEX cron_job_due")), "{plan:?}");
}
