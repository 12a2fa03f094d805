-- These statements run on SQLite and on PostgreSQL, so they use what both understand. Times are microseconds since
-- 1970, NULL for the zero time. Lists are JSON texts. Ids are compared byte for byte.

-- +goose Up

-- Builds of version 3 to 5 know nothing of bindings. They open sealed keys as ever; a key that they add is not used by newer
-- builds.
UPDATE counters SET position = 6 WHERE name = 'newest_schema';

-- What shows that somebody who has the key-encryption key wrote the row; NULL: nothing does.
ALTER TABLE signing_keys ADD COLUMN binding BYTEA;
