-- Rows that a build of schema version 2 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO signing_keys (id, algorithm, private, sealed_with, created_at)
VALUES ('masterOfTheOldStore000', 'HKDF-SHA256', X'00070e151c232a31383f464d545b626970777e858c939aa1a8afb6bdc4cbd2d9', '', 1577836800000000);
INSERT INTO organisations (id, name, created_at) VALUES ('old-acme', 'Old Acme', NOW - 90 * 86400000000);
INSERT INTO subjects (id, kind) VALUES ('old-ada', 'user');
INSERT INTO users (id, email, name, organisation, role, status, password_hash, password_scheme, version, created_at)
VALUES ('old-ada', 'old-ada@acme.example', 'Old old-ada', 'old-acme', 'admin', 'active', '$argon2id$v=19$m=64,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$aq42HBL+IPAitHspChw/8mx5JRX2jFDkTmlsBskwH/0', '$argon2id$v=19$m=64,t=1,p=1', 1, NOW - 90 * 86400000000);
INSERT INTO subjects (id, kind) VALUES ('old-ben', 'user');
INSERT INTO users (id, email, name, organisation, role, status, password_hash, password_scheme, version, created_at)
VALUES ('old-ben', 'old-ben@acme.example', 'Old old-ben', 'old-acme', 'member', 'disabled', '$argon2id$v=19$m=64,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$aq42HBL+IPAitHspChw/8mx5JRX2jFDkTmlsBskwH/0', '$argon2id$v=19$m=64,t=1,p=1', 1, NOW - 90 * 86400000000);
INSERT INTO families (id, user_id, user_version, user_declared, client_id, origin, scopes, actor_subject, actor_client_id, note, auth_time,
	created_at, expires_at, revoked_at, has_code, code_request_id, code_redirect_uri, code_challenge, code_refreshable, code_expires_at,
	code_spent_at, code_failures, generation, rotated_at)
VALUES ('hL3ugOJkbI0OvfVXTDrguS', 'old-ada', '1', FALSE, 'old-app', 'authorization_code', '["public","refresh_token"]', '', '', 'an old browser', NOW - 3600000000,
	NOW - 3600000000, NOW + 90 * 86400000000, NULL, TRUE, 'request-hL3ugOJkbI0OvfVXTDrguS', 'https://old.example/cb', 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM', TRUE, NOW + 3600000000,
	NULL, 0, 0, NULL);
INSERT INTO families (id, user_id, user_version, user_declared, client_id, origin, scopes, actor_subject, actor_client_id, note, auth_time,
	created_at, expires_at, revoked_at, has_code, code_request_id, code_redirect_uri, code_challenge, code_refreshable, code_expires_at,
	code_spent_at, code_failures, generation, rotated_at)
VALUES ('rVhNukbfz28rj2Rq6Jrnkj', 'old-ada', '1', FALSE, 'old-app', 'authorization_code', '["public","refresh_token"]', '', '', 'an old browser', NOW - 3600000000,
	NOW - 3600000000, NOW + 90 * 86400000000, NULL, TRUE, 'request-rVhNukbfz28rj2Rq6Jrnkj', 'https://old.example/cb', 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM', TRUE, NOW + 3600000000,
	NOW - 3600000000, 0, 2, NOW - 3600000000);
INSERT INTO families (id, user_id, user_version, user_declared, client_id, origin, scopes, actor_subject, actor_client_id, note, auth_time,
	created_at, expires_at, revoked_at, has_code, code_request_id, code_redirect_uri, code_challenge, code_refreshable, code_expires_at,
	code_spent_at, code_failures, generation, rotated_at)
VALUES ('KwgKpyxUZf83551QmrgAQx', 'old-ada', '1', FALSE, 'old-app', 'session', '["public","refresh_token"]', '', '', 'an old browser', NOW - 3600000000,
	NOW - 3600000000, NOW + 90 * 86400000000, NULL, FALSE, '', '', '', FALSE, NULL,
	NULL, 0, 1, NOW - 3600000000);
INSERT INTO families (id, user_id, user_version, user_declared, client_id, origin, scopes, actor_subject, actor_client_id, note, auth_time,
	created_at, expires_at, revoked_at, has_code, code_request_id, code_redirect_uri, code_challenge, code_refreshable, code_expires_at,
	code_spent_at, code_failures, generation, rotated_at)
VALUES ('7eaPmyQ9ac0Ho7APUyKy0v', 'old-ada', '1', FALSE, 'old-app', 'password', '["public","refresh_token"]', '', '', 'an old browser', NOW - 3600000000,
	NOW - 3600000000, NOW + 90 * 86400000000, NOW - 3600000000, FALSE, '', '', '', FALSE, NULL,
	NULL, 0, 1, NOW - 3600000000);
INSERT INTO families (id, user_id, user_version, user_declared, client_id, origin, scopes, actor_subject, actor_client_id, note, auth_time,
	created_at, expires_at, revoked_at, has_code, code_request_id, code_redirect_uri, code_challenge, code_refreshable, code_expires_at,
	code_spent_at, code_failures, generation, rotated_at)
VALUES ('expiredFamily000000000', 'old-ada', '1', FALSE, 'old-app', 'password', '["public","refresh_token"]', '', '', 'an old browser', NOW - 3600000000,
	NOW - 3600000000, NOW - 86400000000, NULL, FALSE, '', '', '', FALSE, NULL,
	NULL, 0, 1, NOW - 3600000000);
INSERT INTO revocations (kind, id, issued_until, expires_at, position) VALUES ('family', '7eaPmyQ9ac0Ho7APUyKy0v', NULL, NOW + 30 * 86400000000, 3);
UPDATE counters SET position = 3 WHERE name = 'revocations';
INSERT INTO decided_requests (id, expires_at) VALUES ('request-rVhNukbfz28rj2Rq6Jrnkj', NOW + 86400000000);
INSERT INTO consents (user_id, client_id, scopes, decided_at) VALUES ('old-ada', 'old-app', '["public"]', NOW - 86400000000);
INSERT INTO declarations (kind, id, version) VALUES ('client', 'old-declared', '');
