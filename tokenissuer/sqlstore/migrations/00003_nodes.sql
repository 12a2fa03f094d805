-- These statements run on SQLite and on PostgreSQL, so they use what both understand. Times are microseconds since
-- 1970, NULL for the zero time. Lists are JSON texts. Ids are compared byte for byte.

-- +goose Up

-- newest_schema is the version of the last migration, and oldest_schema the oldest one whose builds can live with it. Every
-- later migration sets the first, and the second when it must.
INSERT INTO counters (name, position)
VALUES ('declarations', 0), ('pings', 0), ('newest_schema', 3), ('oldest_schema', 3);

-- Who does what one node at a time does, until when.
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

CREATE INDEX revocations_by_expiry ON revocations ((COALESCE(expires_at, 0)));

-- active_from NULL is created_at. The private part of a revoked key is empty.
ALTER TABLE signing_keys ADD COLUMN active_from BIGINT;
ALTER TABLE signing_keys ADD COLUMN revoked_at BIGINT;

-- The longest that access tokens of the family live, in microseconds; 0: nobody knows.
ALTER TABLE families ADD COLUMN token_lifetime BIGINT NOT NULL DEFAULT 0;

-- What an earlier configuration had declared. It is ended again whenever a configuration takes over, because a node that
-- still went by the earlier one may have issued tokens meanwhile.
CREATE TABLE ended_declarations (
    kind     TEXT   NOT NULL,
    id       TEXT   NOT NULL,
    version  TEXT   NOT NULL,
    ended_at BIGINT NOT NULL,
    PRIMARY KEY (kind, id, version)
);

-- The latest positions of the feed of revocations, each with a random number: a database that has lost transactions may
-- have come to the same position again, and then has another number there. A slot is a position modulo their number.
CREATE TABLE feed_tags (
    slot     BIGINT NOT NULL PRIMARY KEY,
    position BIGINT NOT NULL,
    tag      BIGINT NOT NULL
);
