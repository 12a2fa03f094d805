-- Rows that a build of schema version 18 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO identities (provider, subject, user_id, linked_at, last_used_at, declared_email, source)
VALUES ('old-provider', 'old-subject-18', 'old-declared', NOW - 86400000000, NOW - 86400000000, 'old-declared@acme.example', 'https://accounts.old.example');
