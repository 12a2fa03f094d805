-- These statements run on SQLite and on PostgreSQL, so they use what both understand. Times are microseconds since
-- 1970, NULL for the zero time. Lists are JSON texts. Ids are compared byte for byte.

-- +goose Up

-- Builds of version 11 know nothing of OpenID Connect, require PKCE where they did, and give the tokens of a family the
-- issuer's own audience. Sessions that they end are not told of.
UPDATE counters SET position = 12 WHERE name = 'newest_schema';

-- updated_at NULL: not since created_at.
ALTER TABLE users ADD COLUMN email_verified BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE users ADD COLUMN profile TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN updated_at BIGINT;

ALTER TABLE clients ADD COLUMN openid TEXT NOT NULL DEFAULT '{}';
ALTER TABLE clients ADD COLUMN pkce_optional BOOLEAN NOT NULL DEFAULT FALSE;

-- The session of the browser in which a family was approved, the nonce of the request, the single claims and the resources
-- that were asked for.
ALTER TABLE families ADD COLUMN session_id TEXT NOT NULL DEFAULT '';
ALTER TABLE families ADD COLUMN code_nonce TEXT NOT NULL DEFAULT '';
ALTER TABLE families ADD COLUMN claims TEXT NOT NULL DEFAULT '';
ALTER TABLE families ADD COLUMN audience TEXT NOT NULL DEFAULT '';

-- The clients that are to be told when a session ends. due_at NULL: it lives. expires_at is the session's.
CREATE TABLE session_clients (
    session_id TEXT   NOT NULL,
    client_id  TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    expires_at BIGINT,
    due_at     BIGINT,
    ended_at   BIGINT,
    attempts   BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (session_id, client_id)
);
CREATE INDEX session_clients_by_due ON session_clients (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX session_clients_by_expiry ON session_clients (expires_at);
