-- These statements run on SQLite and on PostgreSQL, so they use what both understand. Times are microseconds since
-- 1970, NULL for the zero time. Lists are JSON texts. Ids are compared byte for byte.

-- +goose Up

-- Builds of version 3 do not say who has used a refresh token, and their repeats are judged by what was said before.
UPDATE counters SET position = 5 WHERE name = 'newest_schema';

-- A keyed digest of the address and the user agent that asked for the newest refresh token; empty: nobody knows.
ALTER TABLE families ADD COLUMN rotated_by TEXT NOT NULL DEFAULT '';
