-- Rows that a build of schema version 11 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO subjects (id, kind, free_at) VALUES ('old-left', 'user', NOW + 86400000000);
INSERT INTO subjects (id, kind, free_at) VALUES ('old-free', 'client', NOW - 86400000000);
