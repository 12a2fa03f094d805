-- These statements run on SQLite and on PostgreSQL, so they use what both understand. Times are microseconds since
-- 1970, NULL for the zero time. Ids are compared byte for byte.

-- +goose Up

-- Builds of version 14 know nothing of personal access tokens, and nobody calls with one there. For them a service account is a user
-- who cannot sign in. What they end of a user ends the user's tokens when a newer build reads the user.
UPDATE counters SET position = 15 WHERE name = 'newest_schema';

-- Personal access tokens. The owner may be one that the configuration declares, so it references nothing.
CREATE TABLE personal_tokens (
    id            TEXT    NOT NULL PRIMARY KEY,
    digest        BYTEA   NOT NULL,
    user_id       TEXT    NOT NULL,
    user_declared BOOLEAN NOT NULL,
    name          TEXT    NOT NULL,
    scopes        TEXT    NOT NULL,
    audience      TEXT    NOT NULL,
    created_at    BIGINT,
    expires_at    BIGINT  NOT NULL,
    last_used_at  BIGINT,
    changed_at    BIGINT
);
CREATE UNIQUE INDEX personal_tokens_by_digest ON personal_tokens (digest);
CREATE INDEX personal_tokens_by_user ON personal_tokens (user_id);
CREATE INDEX personal_tokens_by_expiry ON personal_tokens (expires_at);

-- A machine's account, with which nobody signs in.
ALTER TABLE users ADD COLUMN service BOOLEAN NOT NULL DEFAULT FALSE;
