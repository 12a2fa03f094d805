-- These statements run on SQLite and on PostgreSQL, so they use what both understand.

-- +goose Up

-- Builds of version 18 exchange no tokens.
UPDATE counters SET position = 19 WHERE name = 'newest_schema';

-- By which rules a client may exchange tokens, as JSON.
ALTER TABLE clients ADD COLUMN exchange TEXT NOT NULL DEFAULT '[]';
