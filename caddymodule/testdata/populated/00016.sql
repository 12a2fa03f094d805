-- Rows that a build of schema version 16 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO identities (provider, subject, user_id, linked_at, last_used_at, declared_email)
VALUES ('old-provider', 'old-subject-16', 'old-declared', NOW - 86400000000, NOW - 86400000000, 'old-declared@acme.example');
