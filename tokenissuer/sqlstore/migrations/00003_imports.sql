-- Access tokens of an authorization server that was here before, each with its refresh token, as digests; NULL: it has none, or it has expired or ended.
-- record is the key of the row in that server's table, in an order of bytes. family_id is the family that was made for a token of a user;
-- empty: the token acts for its client alone. access_expires_at is the end of the access token, and expires_at that of the row.
CREATE TABLE imported_tokens (
    source            TEXT   NOT NULL,
    record            BYTEA  NOT NULL,
    id                TEXT   NOT NULL,
    access_digest     BYTEA,
    refresh_digest    BYTEA,
    client_id         TEXT   NOT NULL,
    family_id         TEXT   NOT NULL,
    scopes            TEXT   NOT NULL,
    created_at        BIGINT,
    access_expires_at BIGINT,
    expires_at        BIGINT NOT NULL,
    PRIMARY KEY (source, record)
);
CREATE INDEX imported_tokens_by_access ON imported_tokens (access_digest) WHERE access_digest IS NOT NULL;
CREATE INDEX imported_tokens_by_refresh ON imported_tokens (refresh_digest) WHERE refresh_digest IS NOT NULL;
CREATE INDEX imported_tokens_by_expiry ON imported_tokens (expires_at);

-- What a source said about a user or client when it was imported last, as digests. added_at is the created_at of the row that was made of it:
-- one with the same id and another time came from elsewhere. These rows are never deleted, so that what is removed here stays removed.
CREATE TABLE import_states (
    source   TEXT   NOT NULL,
    kind     TEXT   NOT NULL,
    record   TEXT   NOT NULL,
    said     BYTEA  NOT NULL,
    added_at BIGINT NOT NULL,
    PRIMARY KEY (source, kind, record)
);

-- The bcrypt hash of an imported secret that is not known yet; the digest is then zero. Empty: the digest is that of the secret.
ALTER TABLE client_secrets ADD COLUMN hash TEXT NOT NULL DEFAULT '';

-- An older build refuses what was imported, and lets nobody in.
UPDATE counters SET position = 3 WHERE name = 'newest_schema';
