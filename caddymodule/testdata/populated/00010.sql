-- Rows that a build of schema version 10 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO subjects (id, kind) VALUES ('old-swift', 'client');
INSERT INTO clients (id, name, type, grants, scopes, redirect_uris, lifetimes, first_party, disabled, created_at, pkce_required, revoke_previous)
VALUES ('old-swift', 'Old old-swift', 'confidential', '["client_credentials","authorization_code","refresh_token","password"]', '["public","trusted","refresh_token"]',
	'["https://old.example/cb"]', '{}', TRUE, FALSE, NOW - 90 * 86400000000, FALSE, TRUE);
INSERT INTO client_secrets (client_id, number, digest, created_at, expires_at) VALUES ('old-swift', 1, X'0000000000000000000000000000000000000000000000000000000000000000', NOW - 90 * 86400000000, NOW - 86400000000);
INSERT INTO client_secrets (client_id, number, digest, created_at, expires_at) VALUES ('old-swift', 2, X'894353ebda565538586a9fed496b612302d5306e31f40c51a420d7871842d019', NOW - 2 * 86400000000, NULL);
