package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"time"
)

// countFailures is one statement, and therefore loses no failure of concurrent nodes: a second caller waits for the row and adds to what
// the first has written.
const countFailures = `INSERT INTO attempts (bucket, failures, ends_at) VALUES ($1, $2, $3)
	ON CONFLICT (bucket) DO UPDATE SET
	failures = CASE WHEN attempts.failures > 0 AND attempts.ends_at > $4 THEN attempts.failures ELSE 0 END + excluded.failures,
	ends_at = CASE WHEN attempts.failures > 0 AND attempts.ends_at > $4 THEN attempts.ends_at ELSE excluded.ends_at END
	RETURNING failures, ends_at`

const forgiveFailures = `UPDATE attempts SET failures = CASE WHEN failures > $2 THEN failures - $2 ELSE 0 END
	WHERE bucket = $1 AND failures > 0 AND ends_at > $3
	RETURNING failures, ends_at`

// CountAttempt adds to the failures of a bucket, or takes some back.
func (s attempts) CountAttempt(ctx context.Context, bucket string, window time.Duration, now time.Time, by int) (int, time.Time, error) {
	text, args := countFailures, []any{bucketKey(bucket), by, now.Add(window).UnixMicro(), now.UnixMicro()}
	if by < 0 {
		text, args = forgiveFailures, []any{bucketKey(bucket), -by, now.UnixMicro()}
	}
	var n int
	var ends int64
	err := s.db.statement(ctx, "counting attempt", func(ctx context.Context, tx session) error {
		err := tx.QueryRowContext(ctx, text, args...).Scan(&n, &ends)
		if errors.Is(err, sql.ErrNoRows) { // there is nothing to take back
			n, ends, err = 0, 0, nil
		}
		return err
	})
	if err != nil || n == 0 {
		return 0, time.Time{}, err
	}
	return n, time.UnixMicro(ends).UTC(), nil
}

// bucketKey returns a digest of the bucket's name. Its size does not depend on the name, and no name that a person typed is stored.
func bucketKey(bucket string) string {
	digest := sha256.Sum256([]byte(bucket))
	return base64.RawURLEncoding.EncodeToString(digest[:])
}
