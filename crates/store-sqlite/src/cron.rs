//! Jobs of the schedule in rows.

use pincer_store::{
    CronBegin, CronBegun, CronChange, CronClock, CronDefinition, CronJob, CronJobId, CronJobs, CronNow, CronPage,
    CronRun, CronSkip, Millis, NewCronJob, OpenCronRun, Reply, Route, Safety, StoreError,
};
use rusqlite::types::{Null, ToSqlOutput};
use rusqlite::{Connection, OptionalExtension, Row, params_from_iter};

use crate::SqliteStore;
use crate::cron_runs::{begin, history, open, skip};
use crate::rows::{id, optional_id, optional_state, state};
use crate::store::Refused;

const COLUMNS: &str = "id, user, name, schedule, clock, session_key, agent, model, timeout_seconds, message, channel, sender, missed, after,
                       version, is_enabled, disabled_because, next_at, running, failures, made_by, created_at, updated_at,
                       route_channel, route_account, route_to, route_thread, author";

/// When the first job is due, by a clock.
pub(crate) const NEXT: &str = "SELECT min(next_at) FROM cron_job WHERE clock = ?1 AND next_at IS NOT NULL";
/// The users that have jobs, one step in the index for each, and of each the job that is due for longest.
pub(crate) const DUE: &str = "WITH RECURSIVE holder (user) AS (
        SELECT (SELECT min(user) FROM cron_job WHERE clock = ?1 AND next_at IS NOT NULL AND user >= ?2)
        UNION ALL
        SELECT (SELECT min(user) FROM cron_job WHERE clock = ?1 AND next_at IS NOT NULL AND user > holder.user)
        FROM holder WHERE holder.user IS NOT NULL)
    SELECT (SELECT number FROM cron_job WHERE clock = ?1 AND cron_job.user = holder.user AND next_at IS NOT NULL AND next_at <= ?3
        ORDER BY next_at LIMIT 1) AS found FROM holder WHERE holder.user IS NOT NULL AND found IS NOT NULL LIMIT ?4";

fn read(row: &Row<'_>) -> rusqlite::Result<CronJob> {
    Ok(CronJob {
        id: id(row, 0)?,
        user: row.get(1)?,
        definition: CronDefinition {
            name: row.get(2)?,
            schedule: row.get::<_, String>(3)?.into(),
            clock: state(row, 4)?,
            session: optional_id(row, 5)?,
            agent: row.get(6)?,
            model: row.get(7)?,
            timeout_seconds: row.get::<_, Option<i64>>(8)?.and_then(|seconds| u64::try_from(seconds).ok()),
            message: row.get::<_, String>(9)?.into(),
            channel: row.get(10)?,
            sender: row.get(11)?,
            route: route(row)?,
            author: optional_id(row, 27)?,
            missed: optional_state(row, 12)?,
            after: state(row, 13)?,
        },
        version: row.get(14)?,
        is_enabled: row.get(15)?,
        disabled_because: row.get(16)?,
        next_at: row.get(17)?,
        running: optional_id(row, 18)?,
        failures: row.get(19)?,
        made_by: optional_id(row, 20)?,
        created_at: row.get(21)?,
        updated_at: row.get(22)?,
    })
}

/// Returns the place that the answers of a job are sent to.
fn route(row: &Row<'_>) -> rusqlite::Result<Option<Route>> {
    let Some(channel) = row.get(23)? else { return Ok(None) };
    Ok(Some(Route { channel, account: row.get(24)?, to: row.get(25)?, thread: row.get(26)? }))
}

/// Returns the number of a job in its table, and the job.
pub(crate) fn find(connection: &Connection, id: &CronJobId) -> Result<Option<(i64, CronJob)>, Refused> {
    let query = format!("SELECT {COLUMNS}, number FROM cron_job WHERE id = ?1");
    let found = connection.prepare_cached(&query)?.query_row([id.as_str()], |row| Ok((row.get(28)?, read(row)?)));
    Ok(found.optional()?)
}

fn found(connection: &Connection, id: &CronJobId) -> Result<CronJob, Refused> {
    let job = find(connection, id)?.map(|(_, job)| job);
    job.ok_or_else(|| StoreError::no_cron_job(id.as_str()).into())
}

/// Fails if another job of the user has this name.
fn check_name(connection: &Connection, user: &str, name: &str, own: &CronJobId) -> Result<(), Refused> {
    let taken = "SELECT EXISTS (SELECT 1 FROM cron_job WHERE user = ?1 AND name = ?2 AND id <> ?3)";
    match connection.prepare_cached(taken)?.query_row((user, name, own.as_str()), |row| row.get(0))? {
        true => Err(StoreError::Exists { what: "cron job", id: name.to_owned() }.into()),
        false => Ok(()),
    }
}

fn create(connection: &Connection, new: &NewCronJob) -> Result<CronJob, Refused> {
    check_name(connection, &new.user, &new.definition.name, &new.id)?;
    if new.made_by.is_some() {
        let made = "SELECT count(*) FROM cron_job WHERE user = ?1 AND made_by IS NOT NULL";
        let made: u32 = connection.prepare_cached(made)?.query_row([&new.user], |row| row.get(0))?;
        if made >= new.most_by_agents {
            return Err(StoreError::TooManyJobs { limit: new.most_by_agents }.into());
        }
    }
    let insert = "INSERT INTO cron_job (id, name, schedule, clock, session_key, agent, model, timeout_seconds, message, channel, sender,
                    missed, after, route_channel, route_account, route_to, route_thread, author, user, next_at, made_by, created_at,
                    updated_at)
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?22)
                  ON CONFLICT DO NOTHING";
    let others = [
        new.user.as_str().into(),
        or_null(new.next_at),
        or_null(new.made_by.as_ref().map(|run| run.as_str())),
        new.now.into(),
    ];
    let values = with_definition(&new.id, &new.definition).into_iter().chain(others);
    let made = connection.prepare_cached(insert)?.execute(params_from_iter(values))?;
    if made == 0 {
        return Err(StoreError::Exists { what: "cron job", id: new.id.to_string() }.into());
    }
    found(connection, &new.id)
}

/// Returns the id of a job and the values of its definition, in the order in which the statements number them.
fn with_definition<'d>(id: &'d CronJobId, definition: &'d CronDefinition) -> [ToSqlOutput<'d>; 18] {
    // SQLite has no unsigned integers.
    let seconds = definition.timeout_seconds.map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
    let route = definition.route.as_ref();
    [
        id.as_str().into(),
        definition.name.as_str().into(),
        (&*definition.schedule).into(),
        definition.clock.as_str().into(),
        or_null(definition.session.as_ref().map(|key| key.as_str())),
        or_null(definition.agent.as_deref()),
        or_null(definition.model.as_deref()),
        or_null(seconds),
        (&*definition.message).into(),
        or_null(definition.channel.as_deref()),
        or_null(definition.sender.as_deref()),
        or_null(definition.missed.map(|missed| missed.as_str())),
        definition.after.as_str().into(),
        or_null(route.map(|route| route.channel.as_str())),
        or_null(route.and_then(|route| route.account.as_deref())),
        or_null(route.map(|route| route.to.as_str())),
        or_null(route.and_then(|route| route.thread.as_deref())),
        or_null(definition.author.as_ref().map(|key| key.as_str())),
    ]
}

fn or_null<'v>(value: Option<impl Into<ToSqlOutput<'v>>>) -> ToSqlOutput<'v> {
    value.map_or_else(|| Null.into(), Into::into)
}

fn change(connection: &Connection, id: &CronJobId, change: &CronChange) -> Result<CronJob, Refused> {
    let before = found(connection, id)?;
    if before.version != change.seen {
        return Err(StoreError::JobChanged { job: id.clone() }.into());
    }
    check_name(connection, &before.user, &change.definition.name, id)?;
    // A job that is turned on begins to count its failures again.
    let update = "UPDATE cron_job SET name = ?2, schedule = ?3, clock = ?4, session_key = ?5, agent = ?6, model = ?7,
                    timeout_seconds = ?8, message = ?9, channel = ?10, sender = ?11, missed = ?12, after = ?13, route_channel = ?14,
                    route_account = ?15, route_to = ?16, route_thread = ?17, author = ?18, next_at = ?19,
                    failures = CASE WHEN is_enabled <> ?20 THEN 0 ELSE failures END,
                    disabled_because = CASE WHEN ?20 THEN NULL ELSE disabled_because END,
                    is_enabled = ?20, updated_at = max(updated_at, ?21), version = version + 1 WHERE id = ?1";
    let others = [or_null(change.next_at.filter(|_| change.is_enabled)), change.is_enabled.into(), change.now.into()];
    let values = with_definition(id, &change.definition).into_iter().chain(others);
    connection.prepare_cached(update)?.execute(params_from_iter(values))?;
    found(connection, id)
}

fn named(connection: &Connection, user: &str, name: &str) -> Result<CronJob, Refused> {
    let by_name = format!("SELECT {COLUMNS} FROM cron_job WHERE user = ?1 AND name = ?2");
    if let Some(job) = connection.prepare_cached(&by_name)?.query_row((user, name), read).optional()? {
        return Ok(job);
    }
    let by_id =
        format!("SELECT {COLUMNS} FROM cron_job WHERE id >= ?2 AND id < ?2 || char(0x10ffff) AND user = ?1 LIMIT 2");
    let mut by_id = connection.prepare_cached(&by_id)?;
    let mut jobs = by_id.query_map((user, name), read)?.collect::<rusqlite::Result<Vec<_>>>()?.into_iter();
    match (jobs.next().filter(|_| !name.is_empty()), jobs.next()) {
        (Some(job), second) if second.is_none() || job.id == *name => Ok(job),
        _ => Err(StoreError::no_cron_job(name).into()),
    }
}

fn due(
    connection: &Connection,
    clock: CronClock,
    now: Millis,
    from: &str,
    limit: u32,
) -> rusqlite::Result<Vec<CronJob>> {
    // Most of the time nothing is due, and then no user is looked at.
    let next: Option<Millis> = connection.prepare_cached(NEXT)?.query_row([clock.as_str()], |row| row.get(0))?;
    if next.is_none_or(|next| next > now) {
        return Ok(Vec::new());
    }
    let query = format!("SELECT {COLUMNS} FROM cron_job WHERE number IN ({DUE}) ORDER BY user");
    let mut query = connection.prepare_cached(&query)?;
    query.query_map((clock.as_str(), from, now, limit), read)?.collect()
}

impl CronJobs for SqliteStore {
    fn create_cron_job(&self, job: NewCronJob) -> Reply<CronJob> {
        self.transaction(Safety::Power, job.definition.message.len(), move |connection| create(connection, &job))
    }

    fn cron_job(&self, id: &CronJobId) -> Reply<CronJob> {
        self.look_up(|connection| found(connection, id))
    }

    fn cron_job_named(&self, user: &str, name: &str) -> Reply<CronJob> {
        self.look_up(|connection| named(connection, user, name))
    }

    fn cron_jobs(&self, page: CronPage) -> Reply<Vec<CronJob>> {
        self.read(move |connection| {
            let query = format!(
                "SELECT {COLUMNS} FROM cron_job WHERE (?1 IS NULL OR user = ?1) AND (?2 IS NULL OR id > ?2) ORDER BY id LIMIT ?3"
            );
            let of = (&page.user, page.after.as_ref().map(|id| id.as_str()), page.limit);
            Ok(connection.prepare_cached(&query)?.query_map(of, read)?.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn change_cron_job(&self, id: &CronJobId, by: CronChange) -> Reply<CronJob> {
        let id = id.clone();
        self.transaction(Safety::Power, by.definition.message.len(), move |connection| change(connection, &id, &by))
    }

    fn remove_cron_job(&self, id: &CronJobId) -> Reply<()> {
        let id = id.clone();
        self.transaction(Safety::Power, 0, move |connection| {
            match connection.execute("DELETE FROM cron_job WHERE id = ?1", [id.as_str()])? {
                0 => Err(StoreError::no_cron_job(id.as_str()).into()),
                _ => Ok(()),
            }
        })
    }

    fn due_cron_jobs(&self, now: CronNow, after: Option<&str>, limit: u32) -> Reply<Vec<CronJob>> {
        // The first text behind a text is that text and a character of the least value.
        let from = after.map_or_else(String::new, |after| format!("{after}\0"));
        self.look_up(|connection| {
            let mut jobs = Vec::new();
            for clock in CronClock::ALL {
                jobs.extend(due(connection, clock, now.by(clock), &from, limit)?);
            }
            // A user may have one by each clock: the one that has waited for longer.
            jobs.sort_by(|a, b| {
                let late = |job: &CronJob| job.next_at.map_or(0, |at| now.by(job.definition.clock) - at);
                a.user.cmp(&b.user).then(late(b).cmp(&late(a)))
            });
            jobs.dedup_by(|second, first| second.user == first.user);
            jobs.truncate(limit as usize);
            Ok(jobs)
        })
    }

    fn next_cron_times(&self) -> Reply<Vec<(CronClock, Millis)>> {
        self.look_up(|connection| {
            let mut times = Vec::new();
            for clock in CronClock::ALL {
                let next: Option<Millis> =
                    connection.prepare_cached(NEXT)?.query_row([clock.as_str()], |row| row.get(0))?;
                times.extend(next.map(|next| (clock, next)));
            }
            Ok(times)
        })
    }

    fn begin_cron_run(&self, by: CronBegin) -> Reply<CronBegun> {
        self.transaction(Safety::Power, by.run.request.len(), move |connection| begin(connection, &by))
    }

    fn skip_cron_run(&self, by: CronSkip) -> Reply<bool> {
        self.transaction(Safety::Power, 0, move |connection| skip(connection, &by))
    }

    fn cron_runs(&self, id: &CronJobId, before: Option<i64>, limit: u32) -> Reply<Vec<CronRun>> {
        let id = id.clone();
        self.read(move |connection| {
            let number = find(connection, &id)?.map(|(number, _)| number);
            let number = number.ok_or_else(|| StoreError::no_cron_job(id.as_str()))?;
            Ok(history(connection, number, before, limit)?)
        })
    }

    fn open_cron_runs(&self) -> Reply<Vec<OpenCronRun>> {
        self.read(|connection| Ok(open(connection)?))
    }
}
