package clientmetadata

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// leastFresh and mostFresh bound how long a document is used without asking again, whatever its headers say.
	leastFresh = 5 * time.Minute
	mostFresh  = 24 * time.Hour
	// staleFor is how much longer it is used while its host does not answer.
	staleFor = 24 * time.Hour
)

// freshness returns how long a response may be used (RFC 9111 §4.2.1), within the bounds.
func freshness(header http.Header, now time.Time) time.Duration {
	return min(max(lifetime(header, now), leastFresh), mostFresh)
}

// lifetime returns how much longer a response is fresh by its headers; zero or less: not at all, or nobody says.
func lifetime(header http.Header, now time.Time) time.Duration {
	var maxAge time.Duration
	has := false
	for directive := range strings.SplitSeq(strings.ToLower(strings.Join(header.Values("Cache-Control"), ",")), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch name {
		case "no-store", "no-cache":
			return 0
		case "max-age":
			if seconds, ok := deltaSeconds(value); ok && !has {
				maxAge, has = seconds, true
			}
		}
	}
	if has {
		age, _ := deltaSeconds(header.Get("Age"))
		return maxAge - age
	}
	if expires, err := http.ParseTime(header.Get("Expires")); err == nil {
		return expires.Sub(now)
	}
	return 0
}

// deltaSeconds reads a number of seconds (RFC 9111 §1.2.2), and takes a large one for a year.
func deltaSeconds(text string) (time.Duration, bool) {
	const year = 365 * 24 * 60 * 60
	seconds, err := strconv.ParseUint(strings.Trim(text, `"`), 10, 63)
	if err != nil {
		return 0, false
	}
	return time.Duration(min(seconds, year)) * time.Second, true
}
