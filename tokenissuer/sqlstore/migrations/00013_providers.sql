-- These statements run on SQLite and on PostgreSQL, so they use what both understand. Times are microseconds since
-- 1970, NULL for the zero time. Ids are compared byte for byte.

-- +goose Up

-- Builds of version 12 know nothing of providers. For them a user without a password cannot sign in, and a sign-in that they end
-- leaves its host sessions to the builds that know them.
UPDATE counters SET position = 13 WHERE name = 'newest_schema';

-- Accounts at identity providers. The user may be one that the configuration declares, so it references nothing.
CREATE TABLE identities (
    provider     TEXT NOT NULL,
    subject      TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    linked_at    BIGINT,
    last_used_at BIGINT,
    PRIMARY KEY (provider, subject)
);
CREATE INDEX identities_by_user ON identities (user_id);

-- A provider vouches for the user.
ALTER TABLE users ADD COLUMN external BOOLEAN NOT NULL DEFAULT FALSE;

-- Where the user has signed in; empty: here.
ALTER TABLE families ADD COLUMN provider TEXT NOT NULL DEFAULT '';

-- A host session's session_id is its sign-in, and ends it.
CREATE INDEX families_by_session ON families (session_id) WHERE origin = 'host_session' AND revoked_at IS NULL;
