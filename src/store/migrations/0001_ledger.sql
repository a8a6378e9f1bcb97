-- The ledger. Times are microseconds since 1970 (UTC), truth values 0 or 1, states their own names in `schemas/lifecycle.toml`.
-- Never edit a migration that was released, not even its comments: its checksum stands in every database.

-- "T3CM": the file is ours.
PRAGMA application_id = 1412645709;

-- One row. `pruned_through`: the highest event that was ever pruned.
CREATE TABLE ledger (
    one            INTEGER PRIMARY KEY CHECK (one = 1),
    id             TEXT    NOT NULL,
    pruned_through INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE receipts (
    client                TEXT    NOT NULL,
    request               TEXT    NOT NULL,
    explicit              INTEGER NOT NULL,
    payload_hash          BLOB    NOT NULL CHECK (length(payload_hash) = 32),
    machine               TEXT    NOT NULL,
    environment           TEXT,
    thread                TEXT    NOT NULL,
    message               TEXT    NOT NULL,
    kind                  TEXT    NOT NULL CHECK (kind IN ('launch', 'continue')),
    watch_on              INTEGER NOT NULL,
    watch_origin          TEXT,
    watch_client          TEXT,
    baseline_ordinal      INTEGER,
    baseline_requested_at INTEGER,
    created_at            INTEGER NOT NULL,
    protocol              INTEGER NOT NULL,
    attempt               INTEGER NOT NULL DEFAULT 0,
    sent                  INTEGER NOT NULL DEFAULT 0,
    step                  TEXT    NOT NULL DEFAULT '',
    outcome               TEXT    NOT NULL DEFAULT 'not_started'
                          CHECK (outcome IN ('not_started', 'unknown', 'started', 'nothing')),
    run                   TEXT,
    answer                TEXT    NOT NULL DEFAULT 'pending' CHECK (answer IN ('pending', 'answered', 'lost')),
    lost_at               INTEGER CHECK ((answer = 'lost') = (lost_at IS NOT NULL)),
    settled               INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (client, request)
) STRICT;
CREATE INDEX receipts_open ON receipts (created_at) WHERE settled = 0;
CREATE INDEX receipts_lost ON receipts (client, payload_hash, lost_at) WHERE answer = 'lost';
CREATE INDEX receipts_unanswered ON receipts (created_at) WHERE answer = 'pending';

CREATE TABLE tracked_threads (
    key                   INTEGER PRIMARY KEY,
    machine               TEXT    NOT NULL,
    thread                TEXT    NOT NULL,
    environment           TEXT,
    project_id            TEXT,
    project_title         TEXT,
    title                 TEXT,
    protocol              INTEGER NOT NULL,
    latest_on             INTEGER NOT NULL,
    latest_origin         TEXT,
    latest_client         TEXT,
    every_run             INTEGER NOT NULL,
    baseline_ordinal      INTEGER,
    baseline_requested_at INTEGER,
    unreachable           INTEGER NOT NULL,
    UNIQUE (machine, thread)
) STRICT;

-- `position` keeps the order that the tracker gave.
CREATE TABLE tracked_runs (
    thread_key      INTEGER NOT NULL REFERENCES tracked_threads ON DELETE CASCADE,
    position        INTEGER NOT NULL,
    run             TEXT    NOT NULL,
    requested_at    INTEGER NOT NULL,
    ordinal         INTEGER NOT NULL,
    state           TEXT    NOT NULL,
    watch_on        INTEGER NOT NULL,
    watch_origin    TEXT,
    watch_client    TEXT,
    message         TEXT,
    finishing_since INTEGER,
    changed_at      INTEGER NOT NULL,
    stalled         INTEGER NOT NULL,
    PRIMARY KEY (thread_key, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE tracked_requests (
    thread_key INTEGER NOT NULL REFERENCES tracked_threads ON DELETE CASCADE,
    position   INTEGER NOT NULL,
    request    TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    run        TEXT,
    state      TEXT    NOT NULL,
    PRIMARY KEY (thread_key, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE tracked_messages (
    thread_key   INTEGER NOT NULL REFERENCES tracked_threads ON DELETE CASCADE,
    position     INTEGER NOT NULL,
    message      TEXT    NOT NULL,
    watch_on     INTEGER NOT NULL,
    watch_origin TEXT,
    watch_client TEXT,
    sent_at      INTEGER NOT NULL,
    settled      INTEGER NOT NULL,
    PRIMARY KEY (thread_key, position)
) STRICT, WITHOUT ROWID;

-- A number is never used twice, pruned or not: cursors point at them.
CREATE TABLE events (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT    NOT NULL UNIQUE,
    occurred_at INTEGER NOT NULL,
    machine     TEXT    NOT NULL,
    thread      TEXT    NOT NULL,
    project_id  TEXT,
    client      TEXT,
    kind        TEXT    NOT NULL,
    body        TEXT    NOT NULL
) STRICT;
CREATE INDEX events_of_thread ON events (thread, seq);
CREATE INDEX events_by_age ON events (occurred_at, seq);

-- `blocked`: an earlier event of its thread goes first. `resent`: sent again by hand, so that nothing waits for it.
-- `claims` numbers the claims: what a claim that ran out has to say is told from the word of the one after it.
CREATE TABLE deliveries (
    seq              INTEGER PRIMARY KEY REFERENCES events ON DELETE CASCADE,
    machine          TEXT    NOT NULL,
    thread           TEXT    NOT NULL,
    state            TEXT    NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'dead')),
    blocked          INTEGER NOT NULL,
    resent           INTEGER NOT NULL DEFAULT 0,
    out_of_order     INTEGER NOT NULL DEFAULT 0,
    attempts         INTEGER NOT NULL DEFAULT 0,
    claims           INTEGER NOT NULL DEFAULT 0,
    due_at           INTEGER NOT NULL,
    leased_until     INTEGER,
    first_attempt_at INTEGER,
    last_attempt_at  INTEGER,
    last_status      INTEGER,
    last_error       TEXT,
    body             TEXT
) STRICT;
CREATE INDEX deliveries_due ON deliveries (due_at, seq) WHERE state = 'waiting' AND blocked = 0;
CREATE INDEX deliveries_waiting ON deliveries (machine, thread, seq) WHERE state = 'waiting';
CREATE INDEX deliveries_leased ON deliveries (machine, thread) WHERE leased_until IS NOT NULL;
CREATE INDEX deliveries_dead ON deliveries (seq) WHERE state = 'dead';

CREATE TABLE sessions (
    id           TEXT    PRIMARY KEY,
    client       TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    state        TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_idle ON sessions (last_used_at);
