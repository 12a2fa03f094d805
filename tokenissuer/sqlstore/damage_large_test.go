package sqlstore

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestF7LargeFiles: a file too large for a complete check at the start has the tables on which every token depends checked first, and the
// rest while it is in use.
func TestF7LargeFiles(t *testing.T) {
	before := checkedAtOnce
	checkedAtOnce = 0
	t.Cleanup(func() { checkedAtOnce = before })
	path := newPath(t)
	sound(t, path)
	s := openAt(t, path)
	_, err := s.db.write.ExecContext(t.Context(), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
		INSERT INTO decided_requests SELECT 'request ' || i, i FROM n`)
	must(t, err)
	page := func(table string) int64 {
		var root int64
		must(t, s.db.write.QueryRowContext(t.Context(), `SELECT rootpage FROM sqlite_schema WHERE name = $1`, table).Scan(&root))
		return (root - 1) * 4096
	}
	pages := map[string]int64{"signing_keys": page("signing_keys"), "revocations": page("revocations"), "decided_requests": page("decided_requests")}
	must(t, s.Close())
	content, err := os.ReadFile(path)
	must(t, err)
	for table, at := range pages {
		damaged := bytes.Clone(content)
		copy(damaged[at:at+4096], bytes.Repeat([]byte{0xa5}, 4096))
		must(t, os.WriteFile(path, damaged, 0o600))
		if table != "decided_requests" {
			refused(t, path, "damaged")
			continue
		}
		warned := make(chan string, 10)
		s, err := OpenSQLite(t.Context(), path, Options{Warn: func(m string) { warned <- m }})
		must(t, err)
		if message := <-warned; !strings.Contains(message, "damaged") {
			t.Errorf("the warning is %q", message)
		}
		must(t, s.Close())
	}
	must(t, os.WriteFile(path, content, 0o600))
	must(t, openAt(t, path).Ping(t.Context()))
}
