package pages

import "time"

// Tokens are a user's personal access tokens. A form with the field `personal_token` ends the one with that id.
type Tokens struct {
	List []Token
	// Made is the token that was just made; nil: none was.
	Made *MadeToken
	// Fault is what was wrong with the form that was sent; empty: nothing.
	Fault string
	// New is the form for another token; nil: the user makes none.
	New *NewToken
	// SignIn: the user makes one after another sign-in, which a form with the field `make` of the value `sign_in` begins.
	SignIn bool
}

// Token is a personal access token.
type Token struct {
	ID, Name  string
	Scopes    []Scope
	Since     time.Time
	ExpiresAt time.Time
	Expired   bool
	// LastUsed is the day of the last use; zero: it was not used.
	LastUsed time.Time
}

// MadeToken is a new token, which is shown once.
type MadeToken struct{ Name, Text string }

// NewToken is the form for a token: the fields `make` with the value `token`, `name`, `scope_N`, N counting from 0, with the name of a scope,
// and `lifetime` in seconds.
type NewToken struct {
	Name string
	// MaxName is how many characters a name can have.
	MaxName   int
	Scopes    []Scope
	Lifetimes []Lifetime
}

// Lifetime is how long a token can live.
type Lifetime struct {
	time.Duration
	// Chosen: the form begins with it.
	Chosen bool
}

// InSeconds returns the value of the field.
func (l Lifetime) InSeconds() int64 { return int64(l.Duration / time.Second) }

// Lifetime returns a duration in words.
func (t texts) Lifetime(l Lifetime) string {
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}} {
		switch n := int64(l.Duration / unit.length); {
		case l.Duration%unit.length != 0 && unit.length > time.Minute:
		case n == 1:
			return t["lifetime."+unit.name]
		default:
			return t.count("lifetime."+unit.name+"s", n)
		}
	}
	return ""
}
