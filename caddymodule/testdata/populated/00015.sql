-- Rows that a build of schema version 15 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO subjects (id, kind) VALUES ('old-bot', 'user');
INSERT INTO users (id, email, name, organisation, role, status, password_hash, password_scheme, version, created_at, service)
VALUES ('old-bot', 'old-bot@acme.example', 'Old old-bot', '', '', 'active', '', '', 1, NOW - 90 * 86400000000, TRUE);
INSERT INTO personal_tokens (id, digest, user_id, user_declared, name, scopes, audience, created_at, expires_at, last_used_at, changed_at)
VALUES ('old-token', X'894353ebda565538586a9fed496b612302d5306e31f40c51a420d7871842d019', 'old-bot', FALSE, 'Old token', '["public"]', '[]',
	NOW - 90 * 86400000000, NOW + 90 * 86400000000, NULL, NULL);
