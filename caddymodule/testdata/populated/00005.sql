-- Rows that a build of schema version 5 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO families (id, user_id, user_version, user_declared, client_id, origin, scopes, actor_subject, actor_client_id, note, auth_time,
	created_at, expires_at, revoked_at, has_code, code_request_id, code_redirect_uri, code_challenge, code_refreshable, code_expires_at,
	code_spent_at, code_failures, generation, rotated_at, token_lifetime, rotated_by)
VALUES ('AUmMsgFXPXgaHltd08lFuh', 'old-ada', '1', FALSE, 'old-app', 'authorization_code', '["public","refresh_token"]', '', '', 'an old browser', NOW - 3600000000,
	NOW - 3600000000, NOW + 90 * 86400000000, NULL, FALSE, '', '', '', FALSE, NULL,
	NULL, 0, 3, NOW - 3600000000, 3600000000, 'a digest');
