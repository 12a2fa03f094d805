-- These statements run on SQLite and on PostgreSQL, so they use what both understand.

-- +goose Up

-- For builds of version 16 a client that signs assertions is one that has no secret: nobody passes for it.
UPDATE counters SET position = 17 WHERE name = 'newest_schema';

-- How a client proves who it is when it has no secret of ours, as JSON.
ALTER TABLE clients ADD COLUMN keys TEXT NOT NULL DEFAULT '{}';
