-- Threads that another program had tracked, each taken over once: the row stays for ever. `waiting`: it was not read since.
-- Never edit a migration that was released, not even its comments: its checksum stands in every database.
CREATE TABLE taken_over (
    machine  TEXT    NOT NULL,
    thread   TEXT    NOT NULL,
    origin   TEXT,
    client   TEXT,
    taken_at INTEGER NOT NULL,
    waiting  INTEGER NOT NULL,
    PRIMARY KEY (machine, thread)
) STRICT, WITHOUT ROWID;
CREATE INDEX taken_over_waiting ON taken_over (machine, thread) WHERE waiting = 1;
