-- These statements run on SQLite and on PostgreSQL, so they use what both understand.

-- +goose Up

-- Builds of version 10 never give the id of a removed client or user to another.
UPDATE counters SET position = 11 WHERE name = 'newest_schema';

-- From when on the id of a removed client or user may be given to another; NULL: somebody has it, or it was removed by a
-- build that kept it for ever.
ALTER TABLE subjects ADD COLUMN free_at BIGINT;
