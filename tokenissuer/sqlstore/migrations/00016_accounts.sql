-- These statements run on SQLite and on PostgreSQL, so they use what both understand.

-- +goose Up

-- Builds of version 15 link identities without the address, and do not look at it.
UPDATE counters SET position = 16 WHERE name = 'newest_schema';

-- The address that the configuration gave the user when the identity was linked; empty: the user is stored.
ALTER TABLE identities ADD COLUMN declared_email TEXT NOT NULL DEFAULT '';
