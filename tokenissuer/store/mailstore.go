package store

import (
	"context"
	"time"
)

// MailStore is a queue of mails to send. Each node that sends claims a mail first, by postponing it.
type MailStore interface {
	// AddMail stores a mail. Adding it again changes nothing. It returns ErrFull when as many mails wait as the limits allow. Concurrent calls may exceed a limit by their
	// number.
	AddMail(ctx context.Context, m Mail, limits MailLimits) error
	// DueMails lists at most limit mails that are due at the given time or before, earliest DueAt first.
	DueMails(ctx context.Context, at time.Time, limit int) ([]Mail, error)
	// PostponeMail sets DueAt of a mail to next and stores its Attempts and Unanswered. It returns ErrNotFound when the mail does not exist or is no longer
	// due at m.DueAt. Of concurrent calls for one mail exactly one succeeds, and no other node takes the mail until next.
	PostponeMail(ctx context.Context, m Mail, next time.Time) error
	// DropMail deletes a mail. It does nothing when there is none.
	DropMail(ctx context.Context, id string) error
}

// Mail is a mail that waits to be sent.
type Mail struct {
	ID string
	// To is the address of the recipient.
	To string
	// Sealed is the letter, encrypted under the master key.
	Sealed []byte
	// CreatedAt is when it was written, DueAt when to send it. From ExpiresAt on it is dropped.
	CreatedAt, DueAt, ExpiresAt time.Time
	// Attempts is the number of attempts so far, and Unanswered of those after which the server may have the mail. Callers count them.
	Attempts, Unanswered int
}

// MailLimits bound how many mails wait: in all, and for one address.
type MailLimits struct{ All, PerAddress int }
