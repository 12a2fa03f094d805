-- These statements run on SQLite and on PostgreSQL, so they use what both understand. Times are microseconds since
-- 1970, NULL for the zero time. Lists are JSON texts. Ids are compared byte for byte.

-- +goose Up

-- Every id that was ever given to someone: a client and a user never share one, and a removed client's id is never
-- given to another. Rows are not deleted.
CREATE TABLE subjects (
    id   TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL
);

CREATE TABLE clients (
    id            TEXT    NOT NULL PRIMARY KEY REFERENCES subjects (id),
    name          TEXT    NOT NULL,
    type          TEXT    NOT NULL,
    grants        TEXT    NOT NULL,
    scopes        TEXT    NOT NULL,
    redirect_uris TEXT    NOT NULL,
    lifetimes     TEXT    NOT NULL,
    first_party   BOOLEAN NOT NULL,
    disabled      BOOLEAN NOT NULL,
    created_at    BIGINT
);

-- The SHA-256 of each secret; number keeps their order.
CREATE TABLE client_secrets (
    client_id  TEXT   NOT NULL REFERENCES clients (id),
    number     BIGINT NOT NULL,
    digest     BYTEA  NOT NULL,
    created_at BIGINT,
    expires_at BIGINT,
    PRIMARY KEY (client_id, number)
);

-- private is PKCS #8, or its sealed form when sealed_with names the key-encryption key.
CREATE TABLE signing_keys (
    id          TEXT  NOT NULL PRIMARY KEY,
    algorithm   TEXT  NOT NULL,
    private     BYTEA NOT NULL,
    sealed_with TEXT  NOT NULL,
    created_at  BIGINT
);

-- issued_until NULL revokes whenever the token was issued.
CREATE TABLE revocations (
    kind         TEXT   NOT NULL,
    id           TEXT   NOT NULL,
    issued_until BIGINT,
    expires_at   BIGINT,
    position     BIGINT NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE INDEX revocations_by_position ON revocations (position);

-- Who updates a counter holds its row until the commit, so that the positions of a feed are in the order of commits.
CREATE TABLE counters (
    name     TEXT   NOT NULL PRIMARY KEY,
    position BIGINT NOT NULL
);
INSERT INTO counters (name, position) VALUES ('revocations', 0), ('signing_keys', 0);
