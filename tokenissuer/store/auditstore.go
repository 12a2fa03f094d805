package store

import (
	"context"
	"time"
)

// AuditStore keeps events of the audit log. It stores texts as data: bytes that are no text, and NUL, become U+FFFD, in filters as well.
type AuditStore interface {
	// AddAuditEvents stores events, in one step. One that is there already, with the same key, stays as it is: after an error the caller
	// can add the same events again.
	AddAuditEvents(ctx context.Context, events ...AuditEvent) error
	// AuditEvents lists at most limit events that match the filter and stand before a key, newest first, and returns the key for the next
	// page, or the zero key when there are no more. A page can be short, or empty, before the end: the number of events that one call looks
	// at is bounded. An event that was there when the first page was read is on one page exactly, whatever is added meanwhile.
	AuditEvents(ctx context.Context, filter AuditFilter, before AuditKey, limit int) (events []AuditEvent, next AuditKey, err error)
	// CountAuditEvents counts the events with a message in each of n spans of time that follow one another from a time on: at most most in
	// each.
	CountAuditEvents(ctx context.Context, event string, from time.Time, span time.Duration, n, most int) ([]int, error)
	// AuditEventsBeyond returns the time of the newest event that has n or more newer ones, or the zero time when there is none.
	AuditEventsBeyond(ctx context.Context, n int) (time.Time, error)
}

// AuditKey is the key of an event, unique over all nodes. Keys are in the order of At, then of ID. The zero key stands behind all others.
type AuditKey struct {
	At time.Time
	// ID is random and positive.
	ID int64
}

// IsZero reports whether the key is the zero key.
func (k AuditKey) IsZero() bool { return k.ID == 0 && k.At.IsZero() }

// AuditEvent is a line of the audit log.
type AuditEvent struct {
	Key AuditKey
	// Event is the message. UserID is the person whom it is about, and the other fields are as in the line; each may be empty.
	Event, UserID, ClientID, Reason, Host string
	// Data is the whole line, as a JSON object.
	Data string
}

// AuditFilter selects events. An empty field matches every event, any other one those that are equal.
type AuditFilter struct {
	Event, UserID, ClientID, Reason, Host string
	// Since is the earliest time, and Until the first one after those that match; zero: there is no such bound.
	Since, Until time.Time
}
