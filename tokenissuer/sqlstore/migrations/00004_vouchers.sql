-- These statements run on SQLite and on PostgreSQL, so they use what both understand. Times are microseconds since
-- 1970, NULL for the zero time. Lists are JSON texts. Ids are compared byte for byte.

-- +goose Up

-- Builds of version 3 know nothing of vouchers, and miss nothing by it.
UPDATE counters SET position = 4 WHERE name = 'newest_schema';
INSERT INTO counters (name, position) VALUES ('vouchers', 0);

-- Earlier builds wrote here which tokens each node had signed in the last half minute, for the others: the SHA-256 of each, one
-- after the other. Later builds do not use it (docs/decisions/0035). It stays while such builds may run beside.
CREATE TABLE vouchers (
    position   BIGINT NOT NULL PRIMARY KEY,
    node       TEXT   NOT NULL,
    number     BIGINT NOT NULL,
    issuer     TEXT   NOT NULL,
    written_at BIGINT NOT NULL,
    digests    BYTEA  NOT NULL,
    mac        BYTEA  NOT NULL
);
