-- Rows that a build of schema version 17 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO subjects (id, kind) VALUES ('old-signer', 'client');
INSERT INTO clients (id, name, type, grants, scopes, redirect_uris, lifetimes, first_party, disabled, created_at, keys)
VALUES ('old-signer', 'Old signer', 'confidential', '["client_credentials","authorization_code","refresh_token","password"]', '["public"]', '["https://old-signer.example/cb"]', '{}', FALSE, FALSE, NOW - 90 * 86400000000,
	'{"token_endpoint_auth_method":"private_key_jwt","jwks_uri":"https://old-signer.example/jwks.json"}');
INSERT INTO identities (provider, subject, user_id, linked_at, last_used_at, declared_email)
VALUES ('old-provider', 'old-subject-17', 'old-declared', NOW - 86400000000, NOW - 86400000000, 'old-declared@acme.example');
