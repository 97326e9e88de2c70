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
];
