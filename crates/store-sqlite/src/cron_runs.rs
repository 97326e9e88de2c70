//! Runs of jobs in rows: their begin and their history. Their ends are stored by triggers of the table of agents' runs.

use pincer_store::{
    Accepted, CronBegin, CronBegun, CronDue, CronJob, CronRun, CronRunState, CronSkip, Millis, OpenCronRun,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::agent_runs::{accept, forget_questions};
use crate::cron::find;
use crate::rows::{id, optional_id, optional_state, state};
use crate::store::Refused;

/// A line of the history of a job.
struct Line<'a> {
    job: i64,
    due_at: Option<Millis>,
    at: Millis,
    state: CronRunState,
    run: Option<&'a str>,
    error: Option<&'a str>,
    disable_after: Option<u32>,
    keep: u32,
}

/// Begins a run of a job, or stores why it does not.
pub(crate) fn begin(connection: &Connection, by: &CronBegin) -> Result<CronBegun, Refused> {
    let Some((number, job)) = find(connection, &by.job)? else { return Ok(CronBegun::Gone) };
    if job.version != by.version || by.due.is_some_and(|due| !is_due(&job, due)) {
        return Ok(CronBegun::Gone);
    }
    let line = |state, run, error| Line {
        job: number,
        due_at: by.due.map(|due| due.seen),
        at: by.run.now,
        state,
        run,
        error,
        disable_after: by.disable_after,
        keep: by.keep,
    };
    if let Some(running) = job.running {
        if let Some(due) = by.due {
            advance(connection, number, due)?;
            add(connection, &line(CronRunState::Skipped, None, Some("the run before it had not ended")))?;
        }
        return Ok(CronBegun::Busy(running));
    }
    let accepted = accept(connection, &by.run)?;
    if let Some(due) = by.due {
        advance(connection, number, due)?;
    }
    match accepted {
        Accepted::New { run, .. } => {
            let running = "UPDATE cron_job SET running = ?2 WHERE number = ?1";
            connection.prepare_cached(running)?.execute((number, run.id.as_str()))?;
            add(connection, &line(CronRunState::Open, Some(run.id.as_str()), None))?;
            Ok(CronBegun::Begun(Box::new(run)))
        }
        Accepted::Full => {
            if by.due.is_some() {
                add(connection, &line(CronRunState::Dropped, None, Some("the queue of its session was full")))?;
            }
            Ok(CronBegun::Full)
        }
        // It ran for this time before: the clock was set back, or the store comes from a copy.
        Accepted::Same(_) | Accepted::Different(_) => Ok(CronBegun::Gone),
    }
}

/// Stores that a job does not run for a time.
pub(crate) fn skip(connection: &Connection, by: &CronSkip) -> Result<bool, Refused> {
    let Some((number, job)) = find(connection, &by.job)? else { return Ok(false) };
    if job.version != by.version || !is_due(&job, by.due) {
        return Ok(false);
    }
    advance(connection, number, by.due)?;
    let (due_at, error) = (Some(by.due.seen), Some(by.reason.as_str()));
    let disable_after = by.disable_after;
    add(
        connection,
        &Line { job: number, due_at, at: by.now, state: by.state, run: None, error, disable_after, keep: by.keep },
    )?;
    let failures = job.failures.saturating_add(u32::from(by.state == CronRunState::Refused));
    connection.prepare_cached("UPDATE cron_job SET failures = ?2 WHERE number = ?1")?.execute((number, failures))?;
    let is_often = by.state == CronRunState::Refused && disable_after.is_some_and(|limit| failures >= limit);
    if by.turn_off || is_often {
        let because = if by.turn_off { by.reason.clone() } else { format!("{failures} runs in a row failed") };
        let off = "UPDATE cron_job SET is_enabled = 0, next_at = NULL, version = version + 1, disabled_because = ?2
                   WHERE number = ?1";
        connection.prepare_cached(off)?.execute((number, because))?;
    }
    Ok(true)
}

fn is_due(job: &CronJob, due: CronDue) -> bool {
    job.is_enabled && job.next_at == Some(due.seen)
}

fn advance(connection: &Connection, number: i64, due: CronDue) -> rusqlite::Result<()> {
    connection.prepare_cached("UPDATE cron_job SET next_at = ?2 WHERE number = ?1")?.execute((number, due.next_at))?;
    Ok(())
}

/// Adds a line to the history of a job. Times that came to the same are one line: a job of every second that waits for a person would
/// push everything else out.
fn add(connection: &Connection, line: &Line<'_>) -> Result<(), Refused> {
    if line.run.is_none() {
        let again = "UPDATE cron_run SET count = count + 1, at = ?4, due_at = ?5 WHERE run IS NULL AND state = ?2 AND error IS ?3
                     AND number = (SELECT max(number) FROM cron_run WHERE job = ?1)";
        let of = (line.job, line.state.as_str(), line.error, line.at, line.due_at);
        if connection.prepare_cached(again)?.execute(of)? > 0 {
            return Ok(());
        }
    }
    let insert = "INSERT INTO cron_run (job, due_at, at, state, run, error, ended_at, disable_after)
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, iif(?5 IS NULL, ?3, NULL), ?7)";
    connection.prepare_cached(insert)?.execute(params![
        line.job,
        line.due_at,
        line.at,
        line.state.as_str(),
        line.run,
        line.error,
        line.disable_after,
    ])?;
    trim(connection, line.job, line.keep)
}

/// Forgets the oldest lines of a job that are more than are kept, and the sessions that the job has had to itself for them.
fn trim(connection: &Connection, job: i64, keep: u32) -> Result<(), Refused> {
    let last = "SELECT number FROM cron_run WHERE job = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2";
    let last: Option<i64> =
        connection.prepare_cached(last)?.query_row((job, keep.max(1)), |row| row.get(0)).optional()?;
    let Some(last) = last else { return Ok(()) };
    let own = "SELECT DISTINCT session.number FROM cron_run JOIN agent_run ON agent_run.id = cron_run.run
               JOIN session ON session.number = agent_run.session
               WHERE cron_run.job = ?1 AND cron_run.number <= ?2 AND cron_run.state <> 'open' AND session.is_current = 0
               AND session.owner IS NULL AND session.key = 'cron:' || (SELECT id FROM cron_job WHERE number = ?1)
               AND NOT EXISTS (SELECT 1 FROM agent_run AS other WHERE other.session = session.number AND other.ended_at IS NULL)";
    let mut own = connection.prepare_cached(own)?;
    let own: Vec<i64> = own.query_map((job, last), |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for session in own {
        forget_questions(connection, session)?;
        connection.prepare_cached("DELETE FROM session WHERE number = ?1")?.execute([session])?;
    }
    let trim = "DELETE FROM cron_run WHERE job = ?1 AND number <= ?2 AND state <> 'open'";
    connection.prepare_cached(trim)?.execute((job, last))?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<CronRun> {
    Ok(CronRun {
        number: row.get(0)?,
        due_at: row.get(1)?,
        at: row.get(2)?,
        state: state(row, 3)?,
        count: row.get(4)?,
        run: optional_id(row, 5)?,
        run_state: optional_state(row, 6)?,
        result: row.get(7)?,
        error: row.get(8)?,
        ended_at: row.get(9)?,
    })
}

/// Returns the history of a job, the latest first.
pub(crate) fn history(
    connection: &Connection,
    job: i64,
    before: Option<i64>,
    limit: u32,
) -> rusqlite::Result<Vec<CronRun>> {
    let query = "SELECT cron_run.number, due_at, cron_run.at, cron_run.state, count, cron_run.run, agent_run.state, agent_run.result,
                 cron_run.error, cron_run.ended_at FROM cron_run LEFT JOIN agent_run ON agent_run.id = cron_run.run
                 WHERE job = ?1 AND cron_run.number < ?2 ORDER BY cron_run.number DESC LIMIT ?3";
    let mut query = connection.prepare_cached(query)?;
    query.query_map((job, before.unwrap_or(i64::MAX), limit), read)?.collect()
}

/// Returns the runs of all jobs that have not ended.
pub(crate) fn open(connection: &Connection) -> rusqlite::Result<Vec<OpenCronRun>> {
    let query = "SELECT cron_job.id, cron_job.name, agent_run.user, agent_run.session_key, agent_run.id FROM cron_job
                 JOIN agent_run ON agent_run.id = cron_job.running WHERE cron_job.running IS NOT NULL ORDER BY agent_run.number";
    let read = |row: &Row<'_>| {
        Ok(OpenCronRun {
            job: id(row, 0)?,
            name: row.get(1)?,
            user: row.get(2)?,
            session: id(row, 3)?,
            run: id(row, 4)?,
        })
    };
    connection.prepare_cached(query)?.query_map([], read)?.collect()
}
