-- Rows that a build of schema version 1 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO subjects (id, kind) VALUES ('old-app', 'client'), ('old-off', 'client'), ('old-gone', 'client');
INSERT INTO clients (id, name, type, grants, scopes, redirect_uris, lifetimes, first_party, disabled, created_at)
VALUES ('old-app', 'Old old-app', 'confidential', '["client_credentials","authorization_code","refresh_token","password"]', '["public","trusted","refresh_token"]',
	'["https://old.example/cb"]', '{}', TRUE, FALSE, NOW - 90 * 86400000000);
INSERT INTO client_secrets (client_id, number, digest, created_at, expires_at) VALUES ('old-app', 1, X'0000000000000000000000000000000000000000000000000000000000000000', NOW - 90 * 86400000000, NOW - 86400000000);
INSERT INTO client_secrets (client_id, number, digest, created_at, expires_at) VALUES ('old-app', 2, X'894353ebda565538586a9fed496b612302d5306e31f40c51a420d7871842d019', NOW - 2 * 86400000000, NULL);
INSERT INTO clients (id, name, type, grants, scopes, redirect_uris, lifetimes, first_party, disabled, created_at)
VALUES ('old-off', 'Old old-off', 'confidential', '["client_credentials","authorization_code","refresh_token","password"]', '["public","trusted","refresh_token"]',
	'["https://old.example/cb"]', '{}', TRUE, TRUE, NOW - 90 * 86400000000);
INSERT INTO client_secrets (client_id, number, digest, created_at, expires_at) VALUES ('old-off', 1, X'0000000000000000000000000000000000000000000000000000000000000000', NOW - 90 * 86400000000, NOW - 86400000000);
INSERT INTO client_secrets (client_id, number, digest, created_at, expires_at) VALUES ('old-off', 2, X'894353ebda565538586a9fed496b612302d5306e31f40c51a420d7871842d019', NOW - 2 * 86400000000, NULL);
INSERT INTO signing_keys (id, algorithm, private, sealed_with, created_at)
VALUES ('roNb7BVLco3a3HE7fNfwXfEdu0qYY_EwnD4HgpM601I', 'ES256', X'308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b020101042081def0a0faba9f62b56d334a03cdae7b8c131646794674ba4419a00cdd61d3b6a14403420004c408ad317b8d2b2acea81034b64e2f72df3b320bdc4b01359c2ec431fd9caddca7bb33725e1de5357f2b70494b2e72b35b500f10c5661d8da0f0b7140df2e9d6', '', 1577836800000000);
INSERT INTO signing_keys (id, algorithm, private, sealed_with, created_at)
VALUES ('_3dpBv5BBw7cMQImXstjyukwEg7eYuw8Nh-4KP3C7iY', 'ES256', X'308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b020101042038ff334e0006dc84adf790e49dbc9bb93c25353ff7961ec1df00e5741318c174a14403420004c486b44addb645e925e57c6a37299e2dabdd77e9e2968de0bf4c383c97219061e22dd5069bf272978f2e70c052862984c87eb49d37a910323f5303bdfbf7667a', '', 1577836700000000);
INSERT INTO revocations (kind, id, issued_until, expires_at, position) VALUES ('jti', 'old-jti', NULL, NOW + 30 * 86400000000, 1);
INSERT INTO revocations (kind, id, issued_until, expires_at, position) VALUES ('client', 'old-off', NOW - 3600000000, NOW + 30 * 86400000000, 2);
UPDATE counters SET position = 2 WHERE name IN ('revocations', 'signing_keys');
