-- +goose Up

-- Device authorizations that wait for a decision, which decided_requests records under the same id. user_code is a keyed digest. poll_interval is in
-- microseconds. What a poll changes (poll_interval, polled_at) is in no index.
CREATE TABLE devices (
    id            TEXT   NOT NULL PRIMARY KEY,
    client_id     TEXT   NOT NULL,
    user_code     TEXT   NOT NULL,
    scopes        TEXT   NOT NULL,
    audience      TEXT   NOT NULL,
    address       TEXT   NOT NULL,
    created_at    BIGINT,
    expires_at    BIGINT NOT NULL,
    poll_interval BIGINT NOT NULL,
    polled_at     BIGINT
);
CREATE UNIQUE INDEX devices_by_user_code ON devices (user_code);
CREATE INDEX devices_by_expiry ON devices (expires_at);

-- An older build ignores the table and does not end its rows: it serves no device, and lets nobody in.
UPDATE counters SET position = 4 WHERE name = 'newest_schema';
