-- These statements run on SQLite and on PostgreSQL, so they use what both understand.

-- +goose Up

-- Builds of version 17 link identities without a source, and do not look at it. This build claims such when it starts.
UPDATE counters SET position = 18 WHERE name = 'newest_schema';

-- What stood behind the provider's name when the identity was linked or used last; empty: nobody has said.
ALTER TABLE identities ADD COLUMN source TEXT NOT NULL DEFAULT '';
CREATE INDEX identities_by_source ON identities (provider, source);
