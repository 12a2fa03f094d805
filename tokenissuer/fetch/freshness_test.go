package fetch

import (
	"net/http"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
)

// TestQ43Freshness: a document's cache headers → asked again between five minutes and a day.
func TestQ43Freshness(t *testing.T) {
	now := issuertest.Start
	least, most := 5*time.Minute, 24*time.Hour
	for _, test := range []struct {
		name    string
		headers http.Header
		want    time.Duration
	}{
		{"nothing", nil, least},
		{"max-age", http.Header{"Cache-Control": {"public, max-age=3600"}}, time.Hour},
		{"in quotes", http.Header{"Cache-Control": {`Max-Age="3600"`}}, time.Hour},
		{"two lines", http.Header{"Cache-Control": {"public", "max-age=3600"}}, time.Hour},
		{"less age", http.Header{"Cache-Control": {"max-age=3600"}, "Age": {"600"}}, 50 * time.Minute},
		{"too old", http.Header{"Cache-Control": {"max-age=3600"}, "Age": {"7200"}}, least},
		{"too short", http.Header{"Cache-Control": {"max-age=1"}}, least},
		{"too long", http.Header{"Cache-Control": {"max-age=99999999999999999"}}, most},
		{"no number", http.Header{"Cache-Control": {"max-age=-5"}, "Expires": {"0"}}, least},
		{"no-store", http.Header{"Cache-Control": {"no-store, max-age=3600"}}, least},
		{"expires", http.Header{"Expires": {now.Add(2 * time.Hour).Format(http.TimeFormat)}}, 2 * time.Hour},
		{"expired", http.Header{"Expires": {now.Add(-2 * time.Hour).Format(http.TimeFormat)}}, least},
	} {
		if got := (Freshness{Least: least, Most: most}).Of(test.headers, now); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
