package store

import (
	"context"
	"time"
)

// LogoutStore stores which clients to notify when a session ends (OpenID Connect Back-Channel Logout 1.0), and the notices that are due.
// AddFamily adds the client of a family with TellsLogout to its session, once. Every step that ends a session (EndFamilies, ChangeUser,
// RemoveUser) makes the logouts of its clients due in the same step: DueAt and EndedAt are the Ending's At. A session that expires makes
// none due, and Housekeeper.Drop deletes its records.
type LogoutStore interface {
	// DueLogouts lists at most limit logouts that are due at the given time or before, earliest DueAt first.
	DueLogouts(ctx context.Context, at time.Time, limit int) ([]Logout, error)
	// PostponeLogout sets DueAt of a logout to next and stores its Attempts. It returns ErrNotFound when the logout does not exist or is
	// no longer due at logout.DueAt. Of concurrent calls for one logout exactly one succeeds, and no other node takes the logout until
	// next.
	PostponeLogout(ctx context.Context, logout Logout, next time.Time) error
	// DropLogout deletes a logout that is due, whatever its DueAt. It does nothing when there is none.
	DropLogout(ctx context.Context, logout Logout) error
	// SessionClients returns, by session, the clients to notify when the sessions end, sorted by id. Sessions that have ended and
	// sessions without such clients are omitted.
	SessionClients(ctx context.Context, sessionIDs ...string) (map[string][]string, error)
}

// Logout is a pending notice to a client that a session has ended.
type Logout struct {
	SessionID, ClientID string
	// UserID is the user of the session.
	UserID string
	// DueAt is when to notify the client, EndedAt when the session ended.
	DueAt, EndedAt time.Time
	// Attempts is the number of attempts so far. Callers count them.
	Attempts int
}
