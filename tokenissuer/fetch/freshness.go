package fetch

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Freshness bounds how long an answer is used without asking again, whatever its headers say.
type Freshness struct {
	Least, Most time.Duration
	// Default is for an answer that does not say; zero: Least.
	Default time.Duration
}

// Of returns how much longer an answer may be used (RFC 9111 §4.2.1).
func (f Freshness) Of(header http.Header, now time.Time) time.Duration {
	life, said := lifetime(header, now)
	if !said {
		life = f.Default
	}
	return min(max(life, f.Least), f.Most)
}

// lifetime returns how much longer an answer is fresh by its headers; zero or less: not at all.
func lifetime(header http.Header, now time.Time) (life time.Duration, said bool) {
	for directive := range strings.SplitSeq(strings.ToLower(strings.Join(header.Values("Cache-Control"), ",")), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch name {
		case "no-store", "no-cache":
			return 0, true
		case "max-age":
			if !said {
				life, said = deltaSeconds(value), true
			}
		}
	}
	if said {
		return life - deltaSeconds(header.Get("Age")), true
	}
	if expires := header.Get("Expires"); expires != "" {
		at, err := http.ParseTime(expires)
		if err != nil {
			return 0, true // RFC 9111 §5.3: it has expired
		}
		return at.Sub(now), true
	}
	return 0, false
}

// deltaSeconds reads a number of seconds (RFC 9111 §1.2.2). It takes a large one for a year, and what is none for zero.
func deltaSeconds(text string) time.Duration {
	const year = 365 * 24 * 60 * 60
	seconds, err := strconv.ParseUint(strings.Trim(text, `"`), 10, 63)
	if err != nil {
		return 0
	}
	return time.Duration(min(seconds, year)) * time.Second
}
