//! The schema, one step per version. A step that has been released is never changed: a new one is added.

pub(crate) const STEPS: &[&str] = &[
    // 1
    "
    CREATE TABLE run (
        id         TEXT PRIMARY KEY,
        session    TEXT NOT NULL,
        caller     TEXT NOT NULL,
        state      TEXT NOT NULL,
        owner      TEXT NOT NULL,
        fence      INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER
    ) STRICT;
    CREATE INDEX run_session ON run (session, created_at);
    CREATE INDEX run_expiry ON run (expires_at) WHERE expires_at IS NOT NULL;

    CREATE TABLE snapshot (
        run    TEXT PRIMARY KEY REFERENCES run (id) ON DELETE CASCADE,
        image  BLOB NOT NULL,
        bytes  BLOB NOT NULL,
        detail TEXT NOT NULL
    ) STRICT;

    CREATE TABLE image (
        hash  BLOB PRIMARY KEY,
        bytes BLOB NOT NULL
    ) STRICT;

    CREATE TABLE call (
        run     TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
        seq     INTEGER NOT NULL,
        tool    TEXT NOT NULL,
        input   TEXT NOT NULL,
        repeat  TEXT NOT NULL,
        state   TEXT NOT NULL,
        outcome TEXT,
        PRIMARY KEY (run, seq)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE approval (
        id         TEXT PRIMARY KEY,
        run        TEXT,
        session    TEXT NOT NULL,
        tool       TEXT NOT NULL,
        digest     BLOB NOT NULL,
        request    TEXT NOT NULL,
        state      TEXT NOT NULL,
        decided_by TEXT,
        created_at INTEGER NOT NULL,
        expires_at INTEGER
    ) STRICT;
    CREATE INDEX approval_pending ON approval (created_at) WHERE state = 'pending';

    CREATE TABLE standing_grant (
        id         TEXT PRIMARY KEY,
        tool       TEXT NOT NULL,
        run        TEXT,
        remaining  INTEGER,
        created_at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX grant_tool ON standing_grant (tool);

    CREATE TABLE idempotency_key (
        scope      TEXT NOT NULL,
        key        TEXT NOT NULL,
        digest     BLOB NOT NULL,
        answer     TEXT,
        created_at INTEGER NOT NULL,
        PRIMARY KEY (scope, key)
    ) STRICT, WITHOUT ROWID;
    ",
    // 2
    "
    ALTER TABLE approval ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX approval_call ON approval (digest) WHERE state IN ('pending', 'allowed', 'denied') AND used = 0;
    ",
    // 3
    "
    ALTER TABLE run ADD COLUMN agent_run TEXT;
    ALTER TABLE run ADD COLUMN result TEXT;
    ALTER TABLE run ADD COLUMN ended_at INTEGER;
    UPDATE run SET ended_at = created_at WHERE state NOT IN ('running', 'waiting');
    CREATE INDEX run_waiting ON run (session) WHERE state = 'waiting';
    CREATE INDEX run_running ON run (owner) WHERE state = 'running';
    CREATE INDEX run_ended ON run (ended_at) WHERE ended_at IS NOT NULL;
    CREATE INDEX approval_run ON approval (run) WHERE state = 'pending';
    CREATE INDEX grant_run ON standing_grant (run) WHERE run IS NOT NULL;
    ALTER TABLE call ADD COLUMN owner TEXT NOT NULL DEFAULT '';
    ALTER TABLE call ADD COLUMN settled INTEGER;
    ALTER TABLE call ADD COLUMN asked BLOB NOT NULL DEFAULT x'';
    CREATE INDEX approval_expired ON approval (digest) WHERE state = 'expired' AND used = 0;
    DELETE FROM call WHERE state = 'intent';
    UPDATE call SET state = 'settled' WHERE state = 'delivered';
    UPDATE call SET settled = seq + 1 WHERE state = 'settled';
    ",
    // 4
    "
    CREATE TABLE clock (
        boot    TEXT PRIMARY KEY,
        shift   INTEGER NOT NULL
    ) STRICT;

    CREATE TABLE tool_set (
        hash  BLOB PRIMARY KEY,
        tools TEXT NOT NULL
    ) STRICT;

    ALTER TABLE run ADD COLUMN boot TEXT;
    ALTER TABLE run ADD COLUMN acknowledged INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE run ADD COLUMN key TEXT;
    ALTER TABLE run ADD COLUMN program BLOB;
    ALTER TABLE run ADD COLUMN tools BLOB;
    UPDATE run SET acknowledged = 1 WHERE state = 'waiting';
    DROP INDEX run_waiting;
    CREATE INDEX run_place ON run (session) WHERE acknowledged = 1 AND ended_at IS NULL;
    CREATE UNIQUE INDEX run_key ON run (caller, session, key) WHERE key IS NOT NULL;

    ALTER TABLE approval ADD COLUMN seq INTEGER;
    ALTER TABLE approval ADD COLUMN fingerprint BLOB;
    UPDATE approval SET seq = (
        SELECT CASE json_type(pending.value, '$.seq') WHEN 'integer' THEN json_extract(pending.value, '$.seq') END
        FROM snapshot, json_each(snapshot.detail, '$.calls') AS pending
        WHERE snapshot.run = approval.run AND CASE pending.type WHEN 'object'
            THEN json_extract(pending.value, '$.approval') = approval.id END
    ) WHERE run IN (SELECT run FROM snapshot WHERE json_valid(detail));
    CREATE INDEX approval_of_call ON approval (run, seq) WHERE seq IS NOT NULL;
    ALTER TABLE standing_grant ADD COLUMN fingerprint BLOB;

    CREATE TABLE checkpoint (
        run    TEXT PRIMARY KEY REFERENCES run (id) ON DELETE CASCADE,
        next   INTEGER NOT NULL,
        image  BLOB NOT NULL,
        detail TEXT NOT NULL,
        bytes  BLOB NOT NULL
    ) STRICT;
    INSERT INTO checkpoint SELECT
        run, CASE WHEN json_valid(detail) AND json_type(detail, '$.next_seq') = 'integer'
            THEN json_extract(detail, '$.next_seq') ELSE 0 END,
        image, detail, bytes FROM snapshot;
    DROP TABLE snapshot;
    ALTER TABLE checkpoint RENAME TO snapshot;
    CREATE TABLE delta (
        run    TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        next   INTEGER NOT NULL,
        detail TEXT NOT NULL,
        bytes  BLOB NOT NULL,
        PRIMARY KEY (run, number)
    ) STRICT, WITHOUT ROWID;

    ALTER TABLE call DROP COLUMN asked;
    ALTER TABLE call ADD COLUMN settled_at INTEGER;
    CREATE INDEX call_settled ON call (run, settled) WHERE settled IS NOT NULL;
    -- Earlier versions went on from here and matched what was done since by its input.
    DELETE FROM snapshot WHERE run IN (SELECT id FROM run WHERE state = 'running') AND EXISTS (
        SELECT 1 FROM call WHERE call.run = snapshot.run AND call.seq >= snapshot.next AND call.repeat <> 'pure'
    );
    ",
    // 5
    "
    -- With a row id a delta of a small cell fits into one page.
    CREATE TABLE change (
        run    TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        next   INTEGER NOT NULL,
        detail TEXT NOT NULL,
        bytes  BLOB NOT NULL,
        PRIMARY KEY (run, number)
    ) STRICT;
    INSERT INTO change SELECT run, number, next, detail, bytes FROM delta;
    DROP TABLE delta;
    ALTER TABLE change RENAME TO delta;

    ALTER TABLE run ADD COLUMN reserved INTEGER NOT NULL DEFAULT 0;
    UPDATE run SET reserved = acknowledged;
    DROP INDEX run_place;
    CREATE INDEX run_reserved ON run (caller, expires_at) WHERE reserved = 1 AND ended_at IS NULL;

    CREATE TABLE room (
        kind  TEXT NOT NULL,
        name  TEXT NOT NULL,
        count INTEGER NOT NULL,
        PRIMARY KEY (kind, name)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO room SELECT 'all', '', count(*) FROM run WHERE reserved = 1 AND ended_at IS NULL;
    INSERT INTO room SELECT 'user', caller, count(*) FROM run WHERE reserved = 1 AND ended_at IS NULL GROUP BY caller;
    INSERT INTO room SELECT 'session', caller || char(10) || session, count(*) FROM run
        WHERE reserved = 1 AND ended_at IS NULL GROUP BY caller, session;
    CREATE TRIGGER room_begun AFTER INSERT ON run WHEN NEW.reserved = 1 AND NEW.ended_at IS NULL BEGIN
        INSERT INTO room VALUES ('all', '', 1), ('user', NEW.caller, 1), ('session', NEW.caller || char(10) || NEW.session, 1)
        ON CONFLICT DO UPDATE SET count = count + 1;
    END;
    CREATE TRIGGER room_taken AFTER UPDATE OF reserved, ended_at ON run
    WHEN NEW.reserved = 1 AND NEW.ended_at IS NULL AND NOT (OLD.reserved = 1 AND OLD.ended_at IS NULL) BEGIN
        INSERT INTO room VALUES ('all', '', 1), ('user', NEW.caller, 1), ('session', NEW.caller || char(10) || NEW.session, 1)
        ON CONFLICT DO UPDATE SET count = count + 1;
    END;
    CREATE TRIGGER room_left AFTER UPDATE OF reserved, ended_at ON run
    WHEN OLD.reserved = 1 AND OLD.ended_at IS NULL AND NOT (NEW.reserved = 1 AND NEW.ended_at IS NULL) BEGIN
        UPDATE room SET count = count - 1
        WHERE (kind, name) IN (VALUES ('all', ''), ('user', OLD.caller), ('session', OLD.caller || char(10) || OLD.session));
        DELETE FROM room WHERE count = 0 AND (kind, name) IN (VALUES ('user', OLD.caller), ('session', OLD.caller || char(10) || OLD.session));
    END;
    CREATE TRIGGER room_lost AFTER DELETE ON run WHEN OLD.reserved = 1 AND OLD.ended_at IS NULL BEGIN
        UPDATE room SET count = count - 1
        WHERE (kind, name) IN (VALUES ('all', ''), ('user', OLD.caller), ('session', OLD.caller || char(10) || OLD.session));
        DELETE FROM room WHERE count = 0 AND (kind, name) IN (VALUES ('user', OLD.caller), ('session', OLD.caller || char(10) || OLD.session));
    END;
    ",
    // 6
    "
    DROP INDEX run_session;
    CREATE INDEX run_session ON run (session, id);
    DROP INDEX approval_of_call;
    CREATE INDEX approval_of_call ON approval (run, seq) WHERE run IS NOT NULL;
    CREATE INDEX approval_expiry ON approval (expires_at) WHERE state = 'pending' AND expires_at IS NOT NULL;
    ",
    // 7: questions and grants belong to a user. Those of earlier versions hold for every user, as they did.
    "
    ALTER TABLE approval ADD COLUMN user TEXT;
    ALTER TABLE standing_grant ADD COLUMN user TEXT;
    UPDATE approval SET user = (SELECT caller FROM run WHERE run.id = approval.run);
    ",
    // 8: sessions and the runs of agents.
    "
    CREATE TABLE session (
        number        INTEGER PRIMARY KEY,
        id            TEXT NOT NULL UNIQUE,
        user          TEXT NOT NULL,
        key           TEXT NOT NULL,
        is_current    INTEGER NOT NULL,
        agent         TEXT,
        label         TEXT,
        parent        TEXT,
        created_at    INTEGER NOT NULL,
        interacted_at INTEGER NOT NULL,
        updated_at    INTEGER NOT NULL,
        ended         TEXT,
        leaf          INTEGER,
        context_from  INTEGER NOT NULL DEFAULT 1,
        entries       INTEGER NOT NULL DEFAULT 0,
        settings      TEXT NOT NULL DEFAULT '{}',
        input         INTEGER NOT NULL DEFAULT 0,
        output        INTEGER NOT NULL DEFAULT 0,
        cache_read    INTEGER NOT NULL DEFAULT 0,
        cache_write   INTEGER NOT NULL DEFAULT 0,
        runs          INTEGER NOT NULL DEFAULT 0,
        compactions   INTEGER NOT NULL DEFAULT 0,
        active        TEXT,
        owner         TEXT,
        fence         INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX session_current ON session (user, key) WHERE is_current = 1;
    CREATE INDEX session_updated ON session (updated_at, id);

    CREATE TABLE entry (
        session  INTEGER NOT NULL REFERENCES session (number) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        id       TEXT NOT NULL,
        parent   INTEGER,
        kind     TEXT NOT NULL,
        run      TEXT,
        call     TEXT,
        at       INTEGER NOT NULL,
        body     TEXT NOT NULL,
        events   TEXT,
        PRIMARY KEY (session, position)
    ) STRICT;
    CREATE UNIQUE INDEX entry_id ON entry (session, id);

    CREATE TABLE agent_run (
        number      INTEGER PRIMARY KEY,
        id          TEXT NOT NULL UNIQUE,
        user        TEXT NOT NULL,
        session_key TEXT NOT NULL,
        session     INTEGER NOT NULL REFERENCES session (number) ON DELETE CASCADE,
        key         TEXT,
        digest      BLOB NOT NULL,
        state       TEXT NOT NULL,
        rank        INTEGER NOT NULL,
        created_at  INTEGER NOT NULL,
        started_at  INTEGER,
        ended_at    INTEGER,
        generation  INTEGER NOT NULL DEFAULT 0,
        last_event  INTEGER NOT NULL DEFAULT 0,
        first_entry INTEGER,
        is_stopped  INTEGER NOT NULL DEFAULT 0,
        request     TEXT NOT NULL,
        brief       TEXT NOT NULL DEFAULT '{}',
        detail      TEXT,
        result      TEXT,
        merged_into TEXT
    ) STRICT;
    CREATE UNIQUE INDEX agent_run_key ON agent_run (user, session_key, key) WHERE key IS NOT NULL;
    CREATE INDEX agent_run_open ON agent_run (user, session_key) WHERE ended_at IS NULL;
    CREATE INDEX agent_run_unmentioned ON agent_run (user, session_key) WHERE state = 'summarized' AND merged_into IS NULL;
    CREATE INDEX agent_run_session ON agent_run (session);

    CREATE TABLE awaited (
        run TEXT NOT NULL REFERENCES agent_run (id) ON DELETE CASCADE,
        id  TEXT NOT NULL,
        PRIMARY KEY (run, id)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE client_call (
        number     INTEGER PRIMARY KEY,
        id         TEXT NOT NULL,
        run        TEXT NOT NULL REFERENCES agent_run (id) ON DELETE CASCADE,
        name       TEXT NOT NULL,
        arguments  TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        result     TEXT,
        UNIQUE (run, id)
    ) STRICT;

    ALTER TABLE run ADD COLUMN lifetime_left INTEGER;
    ALTER TABLE call ADD COLUMN line INTEGER;
    ALTER TABLE call ADD COLUMN dispatched_at INTEGER;
    CREATE INDEX run_agent ON run (agent_run) WHERE agent_run IS NOT NULL AND ended_at IS NULL;
    ",
    // 9: the sessions of a user, those that changed last first; and drafts.
    "
    CREATE INDEX session_of_user ON session (user, updated_at);
    CREATE INDEX session_draft ON session (number) WHERE is_current = 0 AND ended IS NULL;
    ",
    // 10: jobs of the schedule. The end of a run is part of their history in the commit that ends the run, whichever that is.
    "
    CREATE TABLE cron_job (
        number           INTEGER PRIMARY KEY,
        id               TEXT NOT NULL UNIQUE,
        user             TEXT NOT NULL,
        name             TEXT NOT NULL,
        schedule         TEXT NOT NULL,
        clock            TEXT NOT NULL,
        session_key      TEXT,
        agent            TEXT,
        model            TEXT,
        timeout_seconds  INTEGER,
        message          TEXT NOT NULL,
        channel          TEXT,
        sender           TEXT,
        missed           TEXT,
        after            TEXT NOT NULL,
        version          INTEGER NOT NULL DEFAULT 1,
        is_enabled       INTEGER NOT NULL DEFAULT 1,
        disabled_because TEXT,
        next_at          INTEGER,
        running          TEXT,
        failures         INTEGER NOT NULL DEFAULT 0,
        made_by          TEXT,
        created_at       INTEGER NOT NULL,
        updated_at       INTEGER NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX cron_job_name ON cron_job (user, name);
    CREATE INDEX cron_job_next ON cron_job (clock, next_at) WHERE next_at IS NOT NULL;
    CREATE INDEX cron_job_due ON cron_job (clock, user, next_at) WHERE next_at IS NOT NULL;
    CREATE INDEX cron_job_running ON cron_job (running) WHERE running IS NOT NULL;
    CREATE INDEX cron_job_made ON cron_job (user) WHERE made_by IS NOT NULL;

    CREATE TABLE cron_run (
        number        INTEGER PRIMARY KEY,
        job           INTEGER NOT NULL REFERENCES cron_job (number) ON DELETE CASCADE,
        due_at        INTEGER,
        at            INTEGER NOT NULL,
        state         TEXT NOT NULL,
        count         INTEGER NOT NULL DEFAULT 1,
        run           TEXT,
        error         TEXT,
        ended_at      INTEGER,
        disable_after INTEGER
    ) STRICT;
    CREATE INDEX cron_run_job ON cron_run (job, number);
    CREATE UNIQUE INDEX cron_run_run ON cron_run (run) WHERE run IS NOT NULL;

    CREATE TRIGGER cron_run_ended AFTER UPDATE OF ended_at ON agent_run
    WHEN NEW.ended_at IS NOT NULL AND OLD.ended_at IS NULL AND EXISTS (SELECT 1 FROM cron_run WHERE run = NEW.id) BEGIN
        UPDATE cron_run SET ended_at = NEW.ended_at,
            state = CASE WHEN NEW.state IN ('done', 'failed', 'aborted', 'timed_out') THEN NEW.state ELSE 'dropped' END,
            error = CASE WHEN NEW.state = 'done' THEN NULL
                WHEN NEW.result IS NOT NULL AND json_valid(NEW.result) THEN json_extract(NEW.result, '$.error') END
            WHERE run = NEW.id;
        UPDATE cron_job SET running = NULL, failures = CASE NEW.state WHEN 'done' THEN 0
                WHEN 'failed' THEN failures + 1 WHEN 'timed_out' THEN failures + 1 ELSE failures END
            WHERE running = NEW.id;
        UPDATE cron_job SET is_enabled = 0, next_at = NULL, version = version + 1,
                disabled_because = failures || ' runs in a row failed'
            WHERE number = (SELECT job FROM cron_run WHERE run = NEW.id) AND is_enabled = 1
            AND NEW.state IN ('failed', 'timed_out') AND failures >= (SELECT disable_after FROM cron_run WHERE run = NEW.id);
        DELETE FROM cron_job WHERE number = (SELECT job FROM cron_run WHERE run = NEW.id)
            AND after = 'remove' AND next_at IS NULL AND is_enabled = 1 AND NEW.state = 'done';
    END;
    ",
    // 11: the skills that sessions list, and the workspaces that have begun.
    "
    CREATE TABLE session_skills (
        session INTEGER PRIMARY KEY REFERENCES session (number) ON DELETE CASCADE,
        listed  TEXT NOT NULL
    ) STRICT;

    CREATE TABLE begun_workspace (
        path TEXT PRIMARY KEY,
        at   INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    ",
    // 12: texts on their way to channels. `original` is the text before hooks changed it.
    "
    CREATE TABLE delivery (
        number     INTEGER PRIMARY KEY,
        id         TEXT NOT NULL UNIQUE,
        user       TEXT NOT NULL,
        run        TEXT,
        source     TEXT NOT NULL,
        key        TEXT NOT NULL,
        channel    TEXT NOT NULL,
        account    TEXT,
        recipient  TEXT NOT NULL,
        thread     TEXT,
        route      TEXT NOT NULL,
        reply_to   TEXT,
        text       TEXT NOT NULL,
        original   TEXT,
        state      TEXT NOT NULL,
        attempts   INTEGER NOT NULL DEFAULT 0,
        next_at    INTEGER NOT NULL,
        sent_bytes INTEGER NOT NULL DEFAULT 0,
        is_checked INTEGER NOT NULL DEFAULT 0,
        error      TEXT,
        message_id TEXT,
        created_at INTEGER NOT NULL,
        expires_at INTEGER,
        ended_at   INTEGER,
        owner      TEXT,
        fence      INTEGER NOT NULL DEFAULT 1
    ) STRICT;
    CREATE UNIQUE INDEX delivery_key ON delivery (user, key);
    CREATE INDEX delivery_pending ON delivery (channel, route, number) WHERE state = 'pending';
    CREATE INDEX delivery_of_run ON delivery (run) WHERE run IS NOT NULL;
    CREATE INDEX delivery_ended ON delivery (ended_at) WHERE ended_at IS NOT NULL;
    ",
    // 13: where the answers of jobs are sent to, and the session that their words come from. Of jobs that are there it is known as long as
    // the run that made them is.
    "
    ALTER TABLE cron_job ADD COLUMN route_channel TEXT;
    ALTER TABLE cron_job ADD COLUMN route_account TEXT;
    ALTER TABLE cron_job ADD COLUMN route_to TEXT;
    ALTER TABLE cron_job ADD COLUMN route_thread TEXT;
    ALTER TABLE cron_job ADD COLUMN author TEXT;
    UPDATE cron_job SET author = (SELECT session_key FROM agent_run WHERE id = made_by);
    UPDATE cron_job SET (route_channel, route_account, route_to, route_thread) =
        (SELECT json_extract(request, '$.route.channel'), json_extract(request, '$.route.account'),
                json_extract(request, '$.route.to'), json_extract(request, '$.route.thread')
         FROM agent_run WHERE id = made_by AND json_valid(request)) WHERE sender IS NOT NULL;
    CREATE INDEX delivery_expires ON delivery (expires_at) WHERE state = 'pending' AND expires_at IS NOT NULL;
    ",
    // 14: the tools whose schemas sessions show beside the list of the others.
    "
    CREATE TABLE session_tools (
        session INTEGER PRIMARY KEY REFERENCES session (number) ON DELETE CASCADE,
        shown   TEXT NOT NULL
    ) STRICT;
    ",
    // 15: what the tools of runs took of their requests. Of runs from before that is not known.
    "
    CREATE TABLE run_figures (
        number      INTEGER PRIMARY KEY REFERENCES agent_run (number) ON DELETE CASCADE,
        run         TEXT NOT NULL,
        user        TEXT NOT NULL,
        session_key TEXT NOT NULL,
        at          INTEGER NOT NULL,
        figures     TEXT
    ) STRICT;
    INSERT INTO run_figures SELECT number, id, user, session_key, ended_at, NULL FROM agent_run
        WHERE ended_at IS NOT NULL AND generation > 0 AND state IN ('done', 'failed', 'aborted', 'timed_out');
    CREATE INDEX run_figures_user ON run_figures (user, at);
    CREATE INDEX run_figures_session ON run_figures (user, session_key, at);
    ",
    // 16: what models were sent around conversations, and when questions were decided.
    "
    CREATE TABLE frame (
        digest BLOB PRIMARY KEY,
        body   TEXT NOT NULL
    ) STRICT;

    CREATE TABLE session_frame (
        number   INTEGER PRIMARY KEY,
        session  INTEGER NOT NULL REFERENCES session (number) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        digest   BLOB NOT NULL,
        detail   TEXT NOT NULL,
        run      TEXT NOT NULL,
        at       INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX session_frame_session ON session_frame (session, number);
    CREATE INDEX session_frame_digest ON session_frame (digest);
    CREATE TRIGGER frame_unused AFTER DELETE ON session_frame
    WHEN NOT EXISTS (SELECT 1 FROM session_frame WHERE digest = OLD.digest) BEGIN
        DELETE FROM frame WHERE digest = OLD.digest;
    END;

    ALTER TABLE approval ADD COLUMN decided_at INTEGER;
    ",
    // 17: recordings of runs. A text that no recording names any more goes with the last one that did.
    "
    CREATE TABLE recording (
        run    TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        part   TEXT NOT NULL,
        PRIMARY KEY (run, number)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE recorded_text (
        hash BLOB PRIMARY KEY,
        text TEXT NOT NULL
    ) STRICT;

    CREATE TABLE recorded_use (
        run  TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
        hash BLOB NOT NULL,
        PRIMARY KEY (run, hash)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX recorded_use_of ON recorded_use (hash);
    CREATE INDEX run_of_agent_run ON run (agent_run, id) WHERE agent_run IS NOT NULL;
    CREATE TRIGGER recorded_text_unused AFTER DELETE ON recorded_use
    WHEN NOT EXISTS (SELECT 1 FROM recorded_use WHERE hash = OLD.hash) BEGIN
        DELETE FROM recorded_text WHERE hash = OLD.hash;
    END;
    ",
];

#[cfg(test)]
mod tests;
