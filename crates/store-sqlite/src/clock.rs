//! Store time: what all processes on one store decide by.
//!
//! Deadlines are compared by processes whose wall clocks may disagree, or be set while they run. So the store has a time of
//! its own: the machine's monotonic clock, plus a shift that the first process of each boot stores for all others. A process
//! whose wall clock is wrong then neither expires nor prolongs anything.

use std::time::{SystemTime, UNIX_EPOCH};

use pincer_store::Millis;
use rusqlite::{Connection, OptionalExtension};
use rustix::time::{ClockId, clock_gettime};

/// The clock of a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BootClock {
    shift: Millis,
}

impl BootClock {
    /// Reads the shift of this boot, or stores one.
    pub(crate) fn agree(connection: &Connection, boot: Option<&str>) -> rusqlite::Result<Self> {
        let own = wall_clock() - uptime();
        // Without a name for the boot there is nothing to agree under.
        let Some(boot) = boot else { return Ok(Self { shift: own }) };
        let known = "SELECT shift FROM clock WHERE boot = ?1";
        if let Some(shift) = connection.query_row(known, [boot], |row| row.get(0)).optional()? {
            return Ok(Self { shift });
        }
        // Never earlier than what an earlier boot has stored: a machine that lost its clock must not go back.
        let latest = "SELECT max(coalesce(max(created_at), 0), coalesce(max(ended_at), 0)) FROM (
            SELECT created_at, ended_at FROM run UNION ALL SELECT created_at, ended_at FROM agent_run)";
        let latest: Millis = connection.query_row(latest, [], |row| row.get(0))?;
        let shift = own.max(latest - uptime());
        connection.execute("INSERT INTO clock (boot, shift) VALUES (?1, ?2) ON CONFLICT DO NOTHING", (boot, shift))?;
        Ok(Self { shift: connection.query_row(known, [boot], |row| row.get(0))? })
    }

    pub(crate) fn now(self) -> Millis {
        uptime() + self.shift
    }
}

/// Returns the name of this boot of the machine, if the system has one.
pub(crate) fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Milliseconds since the machine booted, sleep included. Asked of the kernel itself: libraries that fake the time of a
/// process do not come between.
fn uptime() -> Millis {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let time = clock_gettime(clock);
    time.tv_sec * 1000 + time.tv_nsec / 1_000_000
}

fn wall_clock() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as Millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrations::STEPS;

    fn database() -> Connection {
        let connection = Connection::open_in_memory().expect("a database");
        STEPS.iter().for_each(|step| connection.execute_batch(step).expect("a step"));
        connection
    }

    fn put_run(connection: &Connection, created_at: Millis, ended_at: Option<Millis>) {
        let insert = "INSERT INTO run (id, session, caller, state, owner, fence, created_at, ended_at)
                      VALUES (?1, 's', 'me', 'completed', 'p', 1, ?1, ?2)";
        connection.execute(insert, (created_at, ended_at)).expect("put");
    }

    fn put_agent_run(connection: &Connection, created_at: Millis, ended_at: Option<Millis>) {
        let session = "INSERT INTO session (id, user, key, is_current, created_at, interacted_at, updated_at, fence)
                       VALUES ('s', 'me', 'main', 1, 0, 0, 0, 1)";
        connection.execute(session, []).expect("put");
        let insert =
            "INSERT INTO agent_run (id, user, session_key, session, digest, state, rank, created_at, ended_at, request)
                      VALUES ('r', 'me', 'main', 1, x'', 'done', 0, ?1, ?2, '{}')";
        connection.execute(insert, (created_at, ended_at)).expect("put");
    }

    #[test]
    fn the_first_process_of_a_boot_sets_the_clock_for_all() {
        let connection = database();
        let first = BootClock::agree(&connection, Some("b1")).expect("agreed");
        assert!((first.now() - wall_clock()).abs() < 1000);
        assert_eq!(BootClock::agree(&connection, Some("b1")).expect("agreed"), first);
        // A process whose wall clock is wrong finds the shift of one whose clock was right.
        connection.execute("INSERT INTO clock VALUES ('b2', 1234)", []).expect("put");
        assert_eq!(BootClock::agree(&connection, Some("b2")).expect("agreed"), BootClock { shift: 1234 });
    }

    #[test]
    fn time_does_not_go_back_when_a_machine_has_lost_its_clock() {
        let hour = 3_600_000;
        let puts = [put_run as fn(&Connection, Millis, Option<Millis>), put_agent_run];
        for (put, (created, ended)) in puts.into_iter().flat_map(|put| [(put, (hour, None)), (put, (0, Some(hour)))]) {
            let connection = database();
            let later = wall_clock() + created.max(ended.unwrap_or(0));
            put(&connection, wall_clock() + created, ended.map(|ended| wall_clock() + ended));
            let clock = BootClock::agree(&connection, Some("b1")).expect("agreed");
            assert!(clock.now() >= later - 1000, "{} {later}", clock.now());
            // And all others of this boot go by that.
            assert_eq!(BootClock::agree(&connection, Some("b1")).expect("agreed"), clock);
        }
    }

    #[test]
    fn a_boot_without_a_name_goes_by_the_wall_clock() {
        let connection = database();
        put_run(&connection, wall_clock() + 3_600_000, None);
        let clock = BootClock::agree(&connection, None).expect("agreed");
        assert!((clock.now() - wall_clock()).abs() < 1000);
        let stored: u32 = connection.query_row("SELECT count(*) FROM clock", [], |row| row.get(0)).expect("read");
        assert_eq!(stored, 0);
    }
}
