-- These statements run on SQLite and on PostgreSQL, so they use what both understand. Times are microseconds since
-- 1970, NULL for the zero time. Lists are JSON texts. Ids are compared byte for byte.

-- +goose Up

-- Builds of earlier versions issue tokens without groups.
UPDATE counters SET position = 8 WHERE name = 'newest_schema';

ALTER TABLE users ADD COLUMN group_names TEXT NOT NULL DEFAULT '[]';
