-- These statements run on SQLite and on PostgreSQL, so they use what both understand. Times are microseconds since
-- 1970, NULL for the zero time.

-- +goose Up

-- Builds of version 13 take clients that made themselves known for clients that an operator has registered.
UPDATE counters SET position = 14 WHERE name = 'newest_schema';

-- How a client has come to be known; empty: by an operator. last_used_at NULL: never, or nobody has noted it.
ALTER TABLE clients ADD COLUMN origin TEXT NOT NULL DEFAULT '';
ALTER TABLE clients ADD COLUMN last_used_at BIGINT;
