-- apart: a person has come to the user by an address for which no one had vouched. The person with the id at the source of an import may be
-- another one.
ALTER TABLE users ADD COLUMN apart BOOLEAN NOT NULL DEFAULT FALSE;

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

-- Mails that wait to be sent. sealed is the letter, encrypted under the master key. A node that sends one makes it due later first.
CREATE TABLE mails (
    id         TEXT    NOT NULL PRIMARY KEY,
    recipient  TEXT    NOT NULL,
    sealed     BYTEA   NOT NULL,
    created_at BIGINT  NOT NULL,
    due_at     BIGINT  NOT NULL,
    expires_at BIGINT  NOT NULL,
    attempts   INTEGER NOT NULL,
    unanswered INTEGER NOT NULL
);
CREATE INDEX mails_by_due ON mails (due_at);
CREATE INDEX mails_by_recipient ON mails (recipient);

-- Device authorizations that wait for a decision, which decided_requests records under the same id. user_code is a keyed digest. poll_interval is in
-- microseconds. What a poll changes (poll_interval, polled_at) is in no index.
CREATE TABLE devices (
    id            TEXT   NOT NULL PRIMARY KEY,
    client_id     TEXT   NOT NULL,
    user_code     TEXT   NOT NULL,
    scopes        TEXT   NOT NULL,
    audience      TEXT   NOT NULL,
    address       TEXT   NOT NULL,
    created_at    BIGINT,
    expires_at    BIGINT NOT NULL,
    poll_interval BIGINT NOT NULL,
    polled_at     BIGINT
);
CREATE UNIQUE INDEX devices_by_user_code ON devices (user_code);
CREATE INDEX devices_by_expiry ON devices (expires_at);

-- Events of the audit log. at and id, a random number, are the order of the pages: no two events have both. user_id is the person whom the
-- event is about, and data the whole line, a JSON object. What an event does not have is NULL, and in no index.
CREATE TABLE audit_events (
    at        BIGINT NOT NULL,
    id        BIGINT NOT NULL,
    event     TEXT   NOT NULL,
    user_id   TEXT,
    client_id TEXT,
    reason    TEXT,
    host      TEXT,
    data      TEXT   NOT NULL,
    PRIMARY KEY (at, id)
);
CREATE INDEX audit_events_by_event ON audit_events (event, at, id);
CREATE INDEX audit_events_by_user ON audit_events (user_id, at, id) WHERE user_id IS NOT NULL;
CREATE INDEX audit_events_by_client ON audit_events (client_id, at, id) WHERE client_id IS NOT NULL;
CREATE INDEX audit_events_by_reason ON audit_events (reason, at, id) WHERE reason IS NOT NULL;
CREATE INDEX audit_events_by_host ON audit_events (host, at, id) WHERE host IS NOT NULL;

-- What users are found by: a letter for the kind, and the text. See userTerms. Terms are compared byte for byte.
CREATE TABLE user_terms (
    term    BYTEA NOT NULL,
    user_id TEXT  NOT NULL,
    PRIMARY KEY (term, user_id)
);
CREATE INDEX user_terms_by_user ON user_terms (user_id);
-- The same of clients. See clientTerms.
CREATE TABLE client_terms (
    term      BYTEA NOT NULL,
    client_id TEXT  NOT NULL,
    PRIMARY KEY (term, client_id)
);
CREATE INDEX client_terms_by_client ON client_terms (client_id);
CREATE INDEX users_invited ON users (id) WHERE status = 'active' AND password_hash = '' AND NOT external AND NOT service;
CREATE INDEX identities_by_provider ON identities (provider, user_id) WHERE declared_email = '';

-- A build that knows no factors would let people in with a password alone.
UPDATE counters SET position = 2 WHERE name IN ('newest_schema', 'oldest_schema');
