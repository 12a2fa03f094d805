-- These statements run on SQLite and on PostgreSQL, so they use what both understand.

-- +goose Up

-- Builds of version 9 leave the access tokens of before a refresh alone, as before.
UPDATE counters SET position = 10 WHERE name = 'newest_schema';

ALTER TABLE clients ADD COLUMN revoke_previous BOOLEAN NOT NULL DEFAULT FALSE;
