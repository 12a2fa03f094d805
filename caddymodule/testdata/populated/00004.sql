-- Rows that a build of schema version 4 has left. NOW is the time of the test in microseconds. See populated_test.go.

INSERT INTO vouchers (position, node, number, issuer, written_at, digests, mac)
VALUES (1, 'a node that is gone', 1, 'https://old.example', NOW - 3600000000, X'0000000000000000000000000000000000000000000000000000000000000000', X'0000000000000000000000000000000000000000000000000000000000000000');
UPDATE counters SET position = 1 WHERE name = 'vouchers';
