-- Request ids of calls that dispatch several things: which call it was, for ever. Each thing has a receipt of its own.
-- Never edit a migration that was released, not even its comments: its checksum stands in every database.
CREATE TABLE batches (
    client       TEXT    NOT NULL,
    request      TEXT    NOT NULL,
    payload_hash BLOB    NOT NULL CHECK (length(payload_hash) = 32),
    created_at   INTEGER NOT NULL,
    PRIMARY KEY (client, request)
) STRICT, WITHOUT ROWID;
