-- These statements run on SQLite and on PostgreSQL, so they use what both understand. Times are microseconds since
-- 1970, NULL for the zero time. Lists are JSON texts. Ids are compared byte for byte.

-- +goose Up

CREATE TABLE organisations (
    id         TEXT NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL,
    created_at BIGINT
);

-- The organisation may be one that the configuration declares, so it references nothing. password_scheme is what stands
-- before the salt in password_hash. version moves on with every change but a rehash.
CREATE TABLE users (
    id              TEXT   NOT NULL PRIMARY KEY REFERENCES subjects (id),
    email           TEXT   NOT NULL UNIQUE,
    name            TEXT   NOT NULL,
    organisation    TEXT   NOT NULL,
    role            TEXT   NOT NULL,
    status          TEXT   NOT NULL,
    password_hash   TEXT   NOT NULL,
    password_scheme TEXT   NOT NULL,
    version         BIGINT NOT NULL,
    created_at      BIGINT
);
CREATE INDEX users_by_organisation ON users (organisation);
CREATE INDEX users_by_password_scheme ON users (password_scheme);

-- A token family with its code; no credential is in it. What the hot steps change (generation, rotated_at) is in no
-- index, so that a rotation writes one page, and in PostgreSQL no index entry. The user and the client may be ones that
-- the configuration declares, so they reference nothing.
CREATE TABLE families (
    id                 TEXT    NOT NULL PRIMARY KEY,
    user_id            TEXT    NOT NULL,
    user_version       TEXT    NOT NULL,
    user_declared      BOOLEAN NOT NULL,
    client_id          TEXT    NOT NULL,
    origin             TEXT    NOT NULL,
    scopes             TEXT    NOT NULL,
    actor_subject      TEXT    NOT NULL,
    actor_client_id    TEXT    NOT NULL,
    note               TEXT    NOT NULL,
    auth_time          BIGINT,
    created_at         BIGINT,
    expires_at         BIGINT,
    revoked_at         BIGINT,
    has_code           BOOLEAN NOT NULL,
    code_request_id    TEXT    NOT NULL,
    code_redirect_uri  TEXT    NOT NULL,
    code_challenge     TEXT    NOT NULL,
    code_refreshable   BOOLEAN NOT NULL,
    code_expires_at    BIGINT,
    code_spent_at      BIGINT,
    code_failures      BIGINT  NOT NULL,
    generation         BIGINT  NOT NULL,
    rotated_at         BIGINT
);
CREATE INDEX families_by_user ON families (user_id) WHERE revoked_at IS NULL;
CREATE INDEX families_by_actor ON families (actor_subject) WHERE revoked_at IS NULL AND actor_subject <> '';
CREATE INDEX families_by_expiry ON families (expires_at);

-- Authorization requests that were answered, until nobody can hold one any more.
CREATE TABLE decided_requests (
    id         TEXT NOT NULL PRIMARY KEY,
    expires_at BIGINT
);
CREATE INDEX decided_requests_by_expiry ON decided_requests (expires_at);

CREATE TABLE consents (
    user_id    TEXT NOT NULL,
    client_id  TEXT NOT NULL,
    scopes     TEXT NOT NULL,
    decided_at BIGINT,
    PRIMARY KEY (user_id, client_id)
);

-- What the configuration declared when it was loaded last.
CREATE TABLE declarations (
    kind    TEXT NOT NULL,
    id      TEXT NOT NULL,
    version TEXT NOT NULL,
    PRIMARY KEY (kind, id)
);
