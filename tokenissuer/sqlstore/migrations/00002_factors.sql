-- +goose Up

-- Factors of users besides passwords. The user may be one that the configuration declares, so it references nothing; declared_email is then
-- the address that it gave the user when the factor was added. data depends on the kind: a sealed secret, digests, or a public key.
CREATE TABLE factors (
    id             TEXT  NOT NULL PRIMARY KEY,
    user_id        TEXT  NOT NULL,
    declared_email TEXT  NOT NULL,
    kind           TEXT  NOT NULL,
    name           TEXT  NOT NULL,
    data           BYTEA NOT NULL,
    credential     TEXT  NOT NULL,
    created_at     BIGINT,
    last_used_at   BIGINT
);
CREATE INDEX factors_by_user ON factors (user_id);
CREATE UNIQUE INDEX factors_once ON factors (user_id, kind) WHERE kind <> 'passkey';
CREATE UNIQUE INDEX factors_by_credential ON factors (credential) WHERE credential <> '';

-- The newest refresh token of the provider, sealed, with which it is asked what has become of the person. Empty: none is kept.
ALTER TABLE identities ADD COLUMN refresh_token TEXT NOT NULL DEFAULT '';

-- A build that knows no factors would let people in with a password alone.
UPDATE counters SET position = 2 WHERE name IN ('newest_schema', 'oldest_schema');
