-- Rows that a build of schema version 3 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO leases (name, holder, expires_at) VALUES ('housekeeping', 'a node that is gone', NOW - 3600000000);
INSERT INTO attempts (bucket, failures, ends_at) VALUES ('a digest', 3, NOW + 3600000000);
INSERT INTO signing_keys (id, algorithm, private, sealed_with, created_at, active_from, revoked_at)
VALUES ('revokedInTheOldStore', 'ES256', X'', '', NOW - 2 * 86400000000, NOW - 2 * 86400000000, NOW - 86400000000);
INSERT INTO revocations (kind, id, issued_until, expires_at, position) VALUES ('key', 'revokedInTheOldStore', NULL, NOW + 30 * 86400000000, 4);
UPDATE counters SET position = 4 WHERE name IN ('revocations', 'signing_keys');
INSERT INTO ended_declarations (kind, id, version, ended_at) VALUES ('user', 'old-undeclared', 'v', NOW - 86400000000);
INSERT INTO feed_tags (slot, position, tag) VALUES (4, 4, 4711);
INSERT INTO families (id, user_id, user_version, user_declared, client_id, origin, scopes, actor_subject, actor_client_id, note, auth_time,
	created_at, expires_at, revoked_at, has_code, code_request_id, code_redirect_uri, code_challenge, code_refreshable, code_expires_at,
	code_spent_at, code_failures, generation, rotated_at, token_lifetime)
VALUES ('familyOfVersion3000000', 'old-ada', '1', FALSE, 'old-app', 'password', '["public","refresh_token"]', '', '', 'an old browser', NOW - 3600000000,
	NOW - 3600000000, NOW + 90 * 86400000000, NULL, FALSE, '', '', '', FALSE, NULL,
	NULL, 0, 1, NOW - 3600000000, 3600000000);
