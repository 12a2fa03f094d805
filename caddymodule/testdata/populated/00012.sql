-- Rows that a build of schema version 12 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO subjects (id, kind) VALUES ('old-rp', 'client');
INSERT INTO clients (id, name, type, grants, scopes, redirect_uris, lifetimes, first_party, disabled, created_at, pkce_optional, openid)
VALUES ('old-rp', 'Old old-rp', 'confidential', '["client_credentials","authorization_code","refresh_token","password"]', '["public","openid","refresh_token"]',
	'["https://old.example/cb"]', '{}', TRUE, FALSE, NOW - 90 * 86400000000, TRUE, '{"id_token_signed_response_alg":"RS256","backchannel_logout_uri":"https://old.example/bye"}');
INSERT INTO client_secrets (client_id, number, digest, created_at, expires_at) VALUES ('old-rp', 1, X'0000000000000000000000000000000000000000000000000000000000000000', NOW - 90 * 86400000000, NOW - 86400000000);
INSERT INTO client_secrets (client_id, number, digest, created_at, expires_at) VALUES ('old-rp', 2, X'894353ebda565538586a9fed496b612302d5306e31f40c51a420d7871842d019', NOW - 2 * 86400000000, NULL);
INSERT INTO subjects (id, kind) VALUES ('old-una', 'user');
INSERT INTO users (id, email, name, organisation, role, status, password_hash, password_scheme, version, created_at, email_verified, profile, updated_at)
VALUES ('old-una', 'old-una@acme.example', 'Old old-una', 'old-acme', 'member', 'active', '$argon2id$v=19$m=64,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$aq42HBL+IPAitHspChw/8mx5JRX2jFDkTmlsBskwH/0', '$argon2id$v=19$m=64,t=1,p=1', 1, NOW - 90 * 86400000000, TRUE, '{"given_name":"Una"}', NOW - 86400000000);
INSERT INTO subjects (id, kind) VALUES ('old-vic', 'user');
INSERT INTO users (id, email, name, organisation, role, status, password_hash, password_scheme, version, created_at)
VALUES ('old-vic', 'old-vic@acme.example', 'Old old-vic', 'old-acme', 'member', 'active', '', '', 1, NOW - 90 * 86400000000);
INSERT INTO families (id, user_id, user_version, user_declared, client_id, origin, scopes, actor_subject, actor_client_id, note, auth_time,
	created_at, expires_at, revoked_at, has_code, code_request_id, code_redirect_uri, code_challenge, code_refreshable, code_expires_at,
	code_spent_at, code_failures, generation, rotated_at)
VALUES ('signInOfSchemaTwelve00', 'old-una', '1', FALSE, 'gatehouse', 'session', '["public"]', '', '', 'an old browser', NOW - 3600000000,
	NOW - 3600000000, NOW + 30 * 86400000000, NULL, FALSE, '', '', '', FALSE, NULL,
	NULL, 0, 0, NOW - 3600000000);
INSERT INTO families (id, user_id, user_version, user_declared, client_id, origin, scopes, actor_subject, actor_client_id, note, auth_time,
	created_at, expires_at, revoked_at, has_code, code_request_id, code_redirect_uri, code_challenge, code_refreshable, code_expires_at,
	code_spent_at, code_failures, generation, rotated_at, session_id, code_nonce, claims, audience)
VALUES ('openIDOfSchemaTwelve00', 'old-una', '1', FALSE, 'old-rp', 'authorization_code', '["openid","public"]', '', '', '', NOW - 3600000000,
	NOW - 3600000000, NOW + 90 * 86400000000, NULL, TRUE, 'request-openIDOfSchemaTwelve00', 'https://old.example/cb', '', FALSE, NOW - 3500000000,
	NOW - 3600000000, 0, 0, NOW - 3600000000, 'signInOfSchemaTwelve00', 'an old nonce', '{"userinfo":{"name":null}}', '["https://api.old.example"]');
INSERT INTO session_clients (session_id, client_id, user_id, expires_at) VALUES ('signInOfSchemaTwelve00', 'old-rp', 'old-una', NOW + 30 * 86400000000);
