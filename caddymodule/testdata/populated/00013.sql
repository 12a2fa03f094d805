-- Rows that a build of schema version 13 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO subjects (id, kind) VALUES ('old-wes', 'user');
INSERT INTO users (id, email, name, organisation, role, status, password_hash, password_scheme, version, created_at, external)
VALUES ('old-wes', 'old-wes@acme.example', 'Old old-wes', 'old-acme', 'member', 'active', '', '', 1, NOW - 90 * 86400000000, TRUE);
INSERT INTO identities (provider, subject, user_id, linked_at, last_used_at)
VALUES ('old-provider', 'old-subject', 'old-wes', NOW - 90 * 86400000000, NOW - 86400000000);
INSERT INTO families (id, user_id, user_version, user_declared, client_id, origin, scopes, actor_subject, actor_client_id, note, auth_time,
	created_at, expires_at, revoked_at, has_code, code_request_id, code_redirect_uri, code_challenge, code_refreshable, code_expires_at,
	code_spent_at, code_failures, generation, rotated_at, provider)
VALUES ('signInOfSchemaThirteen', 'old-wes', '1', FALSE, 'gatehouse', 'session', '["public"]', '', '', 'an old browser', NOW - 3600000000,
	NOW - 3600000000, NOW + 30 * 86400000000, NULL, FALSE, '', '', '', FALSE, NULL,
	NULL, 0, 0, NOW - 3600000000, 'old-provider');
INSERT INTO families (id, user_id, user_version, user_declared, client_id, origin, scopes, actor_subject, actor_client_id, note, auth_time,
	created_at, expires_at, revoked_at, has_code, code_request_id, code_redirect_uri, code_challenge, code_refreshable, code_expires_at,
	code_spent_at, code_failures, generation, rotated_at, session_id, provider)
VALUES ('atHostOfSchemaThirteen', 'old-wes', '1', FALSE, 'gatehouse', 'host_session', '["public"]', '', '', '', NOW - 3600000000,
	NOW - 3600000000, NOW + 30 * 86400000000, NULL, TRUE, 'request-atHostOfSchemaThirteen', 'https://app.old.example/oauth/callback', '', FALSE, NOW - 3500000000,
	NOW - 3600000000, 0, 1, NOW - 3600000000, 'signInOfSchemaThirteen', 'old-provider');
