package pages

import "time"

// Tokens are a user's personal access tokens. A form with the field `personal_token` ends the one with that id.
type Tokens struct {
	List []Token
	// Made is the token that was just made, or nil.
	Made *MadeToken
	// Fault is the fault of the submitted form, or empty.
	Fault string
	// New is the form for another token. It is nil if the user may make none.
	New *NewToken
	// SignIn reports that the user must sign in again to make a token. A form with the field `make` and the value `sign_in` begins that
	// sign-in.
	SignIn bool
}

// Token is a personal access token.
type Token struct {
	ID, Name  string
	Scopes    []Scope
	Since     time.Time
	ExpiresAt time.Time
	Expired   bool
	// LastUsed is the day of the last use. It is zero if the token was not used.
	LastUsed time.Time
}

// MadeToken is a new token, which is shown once.
type MadeToken struct{ Name, Text string }

// NewToken is the form for a token. Its fields are `make` with the value `token`, `name`, `scope_N` with the name of a scope and N counting
// from 0, and `lifetime` in seconds.
type NewToken struct {
	Name string
	// MaxName is the maximum number of characters in a name.
	MaxName   int
	Scopes    []Scope
	Lifetimes []Lifetime
}

// Lifetime is how long a token can live.
type Lifetime struct {
	time.Duration
	// Chosen reports that the form preselects it.
	Chosen bool
}

// InSeconds returns the value of the field.
func (l Lifetime) InSeconds() int64 { return int64(l.Duration / time.Second) }
