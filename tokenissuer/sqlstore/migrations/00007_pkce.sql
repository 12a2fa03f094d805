-- These statements run on SQLite and on PostgreSQL, so they use what both understand.

-- +goose Up

-- Builds of version 6 ask no confidential client for PKCE, as before.
UPDATE counters SET position = 7 WHERE name = 'newest_schema';

ALTER TABLE clients ADD COLUMN pkce_required BOOLEAN NOT NULL DEFAULT FALSE;
