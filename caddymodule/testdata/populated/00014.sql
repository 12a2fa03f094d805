-- Rows that a build of schema version 14 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO subjects (id, kind) VALUES ('https://old-agent.example/client.json', 'client');
INSERT INTO clients (id, name, type, grants, scopes, redirect_uris, lifetimes, first_party, disabled, created_at, origin, last_used_at)
VALUES ('https://old-agent.example/client.json', 'Old agent', 'confidential', '["client_credentials","authorization_code","refresh_token","password"]', '["public"]',
	'["https://old-agent.example/cb"]', '{}', FALSE, FALSE, NOW - 90 * 86400000000, 'metadata', NOW - 86400000000);
INSERT INTO client_secrets (client_id, number, digest, created_at, expires_at) VALUES ('https://old-agent.example/client.json', 1, X'0000000000000000000000000000000000000000000000000000000000000000', NOW - 90 * 86400000000, NOW - 86400000000);
INSERT INTO client_secrets (client_id, number, digest, created_at, expires_at) VALUES ('https://old-agent.example/client.json', 2, X'894353ebda565538586a9fed496b612302d5306e31f40c51a420d7871842d019', NOW - 2 * 86400000000, NULL);
