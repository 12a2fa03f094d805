-- These statements run on SQLite and on PostgreSQL, so they use what both understand. Lists are JSON texts.

-- +goose Up

-- Builds of version 8 and before let no page of another origin read answers, as ever.
UPDATE counters SET position = 9 WHERE name = 'newest_schema';

ALTER TABLE clients ADD COLUMN cors_origins TEXT NOT NULL DEFAULT '[]';
