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
        SELECT json_extract(pending.value, '$.seq') FROM snapshot, json_each(snapshot.detail, '$.calls') AS pending
        WHERE snapshot.run = approval.run AND json_extract(pending.value, '$.approval') = approval.id
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
        run, CASE WHEN json_valid(detail) THEN coalesce(json_extract(detail, '$.next_seq'), 0) ELSE 0 END,
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
];
