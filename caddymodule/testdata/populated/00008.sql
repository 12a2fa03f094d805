-- Rows that a build of schema version 8 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO subjects (id, kind) VALUES ('old-gil', 'user');
INSERT INTO users (id, email, name, organisation, role, status, password_hash, password_scheme, version, created_at, group_names)
VALUES ('old-gil', 'old-gil@acme.example', 'Old old-gil', 'old-acme', 'member', 'active', '$argon2id$v=19$m=64,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$aq42HBL+IPAitHspChw/8mx5JRX2jFDkTmlsBskwH/0', '$argon2id$v=19$m=64,t=1,p=1', 1, NOW - 90 * 86400000000, '["old-staff"]');
