-- Rows that a build of schema version 6 has left. NOW is the time of the test in microseconds. See populated_test.go.

-- A key of which a binding was left over when it was revoked.
INSERT INTO signing_keys (id, algorithm, private, sealed_with, created_at, active_from, revoked_at, binding)
VALUES ('revokedWithItsBinding', 'ES256', X'', '', NOW - 2 * 86400000000, NOW - 2 * 86400000000, NOW - 86400000000, X'00');
