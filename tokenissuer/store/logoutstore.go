package store

import (
	"context"
	"time"
)

// LogoutStore keeps the clients that are to be told when a session ends (OpenID Connect Back-Channel Logout 1.0), and those that
// have to be told now. AddFamily adds the client of a family that TellsLogout to its session, once. Every step that ends a session
// (EndFamilies, ChangeUser, RemoveUser) makes the logouts of its clients due in the same step: DueAt and EndedAt are the Ending's At.
// A session that expires makes none due; DropFamilies deletes its records with it.
type LogoutStore interface {
	// DueLogouts lists at most limit logouts that are due at that time or before, the longest due first.
	DueLogouts(ctx context.Context, at time.Time, limit int) ([]Logout, error)
	// PostponeLogout makes a logout due at another time, and keeps its Attempts. ErrNotFound when the stored one is gone, or is no longer
	// due at logout.DueAt: of concurrent calls for one exactly one succeeds, and no other node takes the logout until then.
	PostponeLogout(ctx context.Context, logout Logout, next time.Time) error
	// DropLogout deletes a logout that is due, whenever that is. Nothing happens when there is none.
	DropLogout(ctx context.Context, logout Logout) error
	// SessionClients lists the clients that are to be told when the sessions end, by session, in the order of their ids. Sessions
	// that have ended and sessions without such clients are left out.
	SessionClients(ctx context.Context, sessionIDs ...string) (map[string][]string, error)
}

// Logout is a pending notice to a client that a session has ended.
type Logout struct {
	SessionID, ClientID string
	// UserID is whose session it was.
	UserID string
	// DueAt is when the client is to be told, EndedAt when the session ended.
	DueAt, EndedAt time.Time
	// Attempts counts how often it was tried; callers count.
	Attempts int
}
