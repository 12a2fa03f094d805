-- +goose Up

-- Mails that wait to be sent. sealed is the letter, encrypted under the master key. A node that sends one makes it due later first.
CREATE TABLE mails (
    id         TEXT    NOT NULL PRIMARY KEY,
    recipient  TEXT    NOT NULL,
    sealed     BYTEA   NOT NULL,
    created_at BIGINT  NOT NULL,
    due_at     BIGINT  NOT NULL,
    expires_at BIGINT  NOT NULL,
    attempts   INTEGER NOT NULL
);
CREATE INDEX mails_by_due ON mails (due_at);
CREATE INDEX mails_by_recipient ON mails (recipient);

-- An older build leaves the mails alone.
UPDATE counters SET position = 3 WHERE name = 'newest_schema';
