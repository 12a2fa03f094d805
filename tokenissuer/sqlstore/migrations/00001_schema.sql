-- These statements run on SQLite and on PostgreSQL, so they use what both understand. Times are microseconds since
-- 1970, NULL for the zero time. Lists are JSON texts. Ids are compared byte for byte.

-- Every id that was ever given to a client or a user, which never share one. free_at is from when on the id of a removed one may be given
-- to another; NULL: it is in use.
CREATE TABLE subjects (
    id      TEXT NOT NULL PRIMARY KEY,
    kind    TEXT NOT NULL,
    free_at BIGINT
);

-- members is the JSON object of what can be set of a client. origin is how the client has come to be known; empty: by an operator.
CREATE TABLE clients (
    id           TEXT    NOT NULL PRIMARY KEY REFERENCES subjects (id),
    members      TEXT    NOT NULL,
    disabled     BOOLEAN NOT NULL,
    origin       TEXT    NOT NULL,
    created_at   BIGINT,
    last_used_at BIGINT
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

-- private is PKCS #8, or its sealed form when sealed_with names the key-encryption key; that of a revoked key is empty.
CREATE TABLE signing_keys (
    id          TEXT  NOT NULL PRIMARY KEY,
    algorithm   TEXT  NOT NULL,
    private     BYTEA NOT NULL,
    sealed_with TEXT  NOT NULL,
    created_at  BIGINT,
    active_from BIGINT,
    revoked_at  BIGINT
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
CREATE INDEX revocations_by_expiry ON revocations ((COALESCE(expires_at, 0)));

-- A writer of a counter holds its row until the commit, so that the positions of a feed are in the order of commits. newest_schema is the
-- version of the last migration, and oldest_schema the oldest one whose builds can live with it. Every later migration sets the first,
-- and the second when it must.
CREATE TABLE counters (
    name     TEXT   NOT NULL PRIMARY KEY,
    position BIGINT NOT NULL
);
INSERT INTO counters (name, position)
VALUES ('revocations', 0), ('signing_keys', 0), ('declarations', 0), ('pings', 0), ('newest_schema', 1), ('oldest_schema', 1);

-- The latest positions of the feed of revocations, each with a random number: a database that has lost transactions may
-- have come to the same position again, and then has another number there. A slot is a position modulo their number.
CREATE TABLE feed_tags (
    slot     BIGINT NOT NULL PRIMARY KEY,
    position BIGINT NOT NULL,
    tag      BIGINT NOT NULL
);

CREATE TABLE organisations (
    id         TEXT NOT NULL PRIMARY KEY,
    name       TEXT NOT NULL,
    created_at BIGINT
);

-- members is the JSON object of what can be set of a user, without what has a column. The organisation may be one that the configuration
-- declares, so it references nothing. email_verified_by is by whose word the address is the user's own: 'operator', 'provider NAME', or
-- empty. provider_groups are those of the provider groups_by. password_scheme is what stands before the salt in password_hash. version moves
-- on with every change that ends tokens. external: a provider vouches for the user. service: a machine's account.
CREATE TABLE users (
    id                TEXT    NOT NULL PRIMARY KEY REFERENCES subjects (id),
    email             TEXT    NOT NULL UNIQUE,
    status            TEXT    NOT NULL,
    organisation      TEXT    NOT NULL,
    members           TEXT    NOT NULL,
    email_verified_by TEXT    NOT NULL,
    provider_groups   TEXT    NOT NULL,
    groups_by         TEXT    NOT NULL,
    external          BOOLEAN NOT NULL,
    service           BOOLEAN NOT NULL,
    password_hash     TEXT    NOT NULL,
    password_scheme   TEXT    NOT NULL,
    version           BIGINT  NOT NULL,
    created_at        BIGINT,
    updated_at        BIGINT
);
CREATE INDEX users_by_organisation ON users (organisation);
CREATE INDEX users_by_password_scheme ON users (password_scheme);

-- Accounts at identity providers. The user may be one that the configuration declares, so it references nothing; declared_email is then the
-- address that it gave the user when the identity was linked. source is what stood behind the provider's name. created: the user was made
-- for the identity. vouches: at the last use the provider vouched for the user's address.
CREATE TABLE identities (
    provider       TEXT    NOT NULL,
    subject        TEXT    NOT NULL,
    user_id        TEXT    NOT NULL,
    declared_email TEXT    NOT NULL,
    source         TEXT    NOT NULL,
    created        BOOLEAN NOT NULL,
    vouches        BOOLEAN NOT NULL,
    linked_at      BIGINT,
    last_used_at   BIGINT,
    PRIMARY KEY (provider, subject)
);
CREATE INDEX identities_by_user ON identities (user_id);
CREATE INDEX identities_by_source ON identities (provider, source);

-- A token family with its code; no credential is in it. What the hot steps change (generation, rotated_at) is in no
-- index, so that a rotation writes one page, and in PostgreSQL no index entry. The user and the client may be ones that
-- the configuration declares, so they reference nothing. session_id is the browser's session in which the family was approved; a host
-- session's is its sign-in, and ends it. provider is where the user has signed in, empty: here, and proof says how, as JSON.
-- token_lifetime is the longest that access tokens of the family live, in microseconds. rotated_by is a keyed digest of the address
-- and the user agent that asked for the newest refresh token; empty: unknown.
CREATE TABLE families (
    id                 TEXT    NOT NULL PRIMARY KEY,
    user_id            TEXT    NOT NULL,
    user_version       TEXT    NOT NULL,
    user_declared      BOOLEAN NOT NULL,
    client_id          TEXT    NOT NULL,
    origin             TEXT    NOT NULL,
    provider           TEXT    NOT NULL,
    proof              TEXT    NOT NULL,
    session_id         TEXT    NOT NULL,
    scopes             TEXT    NOT NULL,
    claims             TEXT    NOT NULL,
    audience           TEXT    NOT NULL,
    actor_subject      TEXT    NOT NULL,
    actor_client_id    TEXT    NOT NULL,
    note               TEXT    NOT NULL,
    auth_time          BIGINT,
    created_at         BIGINT,
    expires_at         BIGINT,
    revoked_at         BIGINT,
    token_lifetime     BIGINT  NOT NULL,
    has_code           BOOLEAN NOT NULL,
    code_request_id    TEXT    NOT NULL,
    code_redirect_uri  TEXT    NOT NULL,
    code_challenge     TEXT    NOT NULL,
    code_nonce         TEXT    NOT NULL,
    code_refreshable   BOOLEAN NOT NULL,
    code_expires_at    BIGINT,
    code_spent_at      BIGINT,
    code_failures      BIGINT  NOT NULL,
    generation         BIGINT  NOT NULL,
    rotated_at         BIGINT,
    rotated_by         TEXT    NOT NULL
);
CREATE INDEX families_by_user ON families (user_id) WHERE revoked_at IS NULL;
CREATE INDEX families_by_actor ON families (actor_subject) WHERE revoked_at IS NULL AND actor_subject <> '';
CREATE INDEX families_by_session ON families (session_id) WHERE origin = 'host_session' AND revoked_at IS NULL;
CREATE INDEX families_by_expiry ON families (expires_at);

-- Authorization requests that were answered, until none of them can be sent any more.
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

-- What the configuration declared when it was loaded last.
CREATE TABLE declarations (
    kind    TEXT NOT NULL,
    id      TEXT NOT NULL,
    version TEXT NOT NULL,
    PRIMARY KEY (kind, id)
);

-- What an earlier configuration had declared. It is ended again whenever a configuration takes over, because a node that
-- still went by the earlier one may have issued tokens meanwhile.
CREATE TABLE ended_declarations (
    kind     TEXT   NOT NULL,
    id       TEXT   NOT NULL,
    version  TEXT   NOT NULL,
    ended_at BIGINT NOT NULL,
    PRIMARY KEY (kind, id, version)
);

-- Which node does what one node at a time does, until when.
CREATE TABLE leases (
    name       TEXT   NOT NULL PRIMARY KEY,
    holder     TEXT   NOT NULL,
    expires_at BIGINT NOT NULL
);

-- Failed attempts that all nodes count together. The bucket is a digest of its name. What a failure changes (failures)
-- is in no index.
CREATE TABLE attempts (
    bucket   TEXT   NOT NULL PRIMARY KEY,
    failures BIGINT NOT NULL,
    ends_at  BIGINT NOT NULL
);
CREATE INDEX attempts_by_end ON attempts (ends_at);
