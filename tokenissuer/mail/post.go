package mail

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// GiveUpAfter is how long a letter waits for a mail server that does not take it, unless its link expires before.
const GiveUpAfter = 24 * time.Hour

// maxLanguages is how many bytes of a letter's Languages count.
const maxLanguages = 200

// waiting bounds the queue. One person cannot fill it.
var waiting = store.MailLimits{All: 10_000, PerAddress: 20}

// Post is the queue of letters. A nil Post is off. Its fields are set before use, but for Opened.
type Post struct {
	// Now is the store's time.
	Now func() time.Time
	// Lost is called with each notice that could not be put into the queue, by any goroutine.
	Lost func(kind Kind, userID string, err error)
	// Opened is set when the store has opened, before the first letter.
	Opened
}

// Opened is what a Post has once the store is open.
type Opened struct {
	Store  store.MailStore
	Master *keys.MasterKey
}

// IsOff reports whether no mail is configured. Send fails then.
func (p *Post) IsOff() bool { return p == nil }

// Send puts a letter into the queue. It does not wait for a mail server: a nil error means that the letter is stored, not that it arrives.
// The error is temporarily_unavailable when the queue is full or the store does not answer, and server_error for a letter that cannot be
// sent at all.
func (p *Post) Send(ctx context.Context, l Letter) error {
	if p.IsOff() {
		return oauth.AsError(errors.New("sending a letter: no mail is configured"))
	}
	now := p.Now().UTC()
	if l.At.IsZero() {
		l.At = now
	}
	l.Languages = l.Languages[:min(len(l.Languages), maxLanguages)]
	if err := l.check(); err != nil {
		return oauth.AsError(fmt.Errorf("sending a letter: %w", err))
	}
	m := store.Mail{ID: oauth.NewID(), To: l.To, CreatedAt: now, DueAt: now, ExpiresAt: now.Add(GiveUpAfter)}
	if l.Kind.HasLink() && l.Until.Before(m.ExpiresAt) {
		m.ExpiresAt = l.Until
	}
	sealed, err := keys.Wrap(p.Master.Mails, ownerOf(m), l, now)
	if err != nil {
		return err
	}
	m.Sealed = []byte(sealed.Reveal())
	err = p.Store.AddMail(ctx, m, waiting)
	if errors.Is(err, store.ErrFull) {
		return oauth.Unavailable("mail_queue_full", err)
	}
	return err
}

// Notify puts a notice about a user's account into the queue, in the language that the user has stated. What the letter is about has
// happened already, so a failure only goes to Lost. A user without an address gets none.
func (p *Post) Notify(ctx context.Context, user *store.User, kind Kind, detail string) {
	if p.IsOff() || user.Email == "" || store.IsReservedEmail(user.Email) {
		return
	}
	l := Letter{Kind: kind, To: user.Email, Name: user.Name, Detail: detail}
	if user.Profile != nil {
		l.Languages = user.Profile.Locale
	}
	if err := p.Send(context.WithoutCancel(ctx), l); err != nil {
		p.Lost(kind, user.ID, err)
	}
}

// open returns the letter of a mail.
func (p *Post) open(m store.Mail) (Letter, error) {
	l, _, err := keys.UnwrapAny[Letter](p.Master.Mails, ownerOf(m), oauth.NewSecret(string(m.Sealed)))
	return l, err
}

// ownerOf returns what a letter is sealed to, so that whoever can write to the database cannot send a letter to another address.
func ownerOf(m store.Mail) string { return m.ID + "\x00" + m.To }

// check refuses a letter that cannot be sent.
func (l *Letter) check() error {
	if err := CheckAddress(l.To); err != nil {
		return err
	}
	if !l.Kind.HasLink() {
		return nil
	}
	link, err := url.Parse(l.Link)
	if err != nil || link.Host == "" || link.Scheme != "https" && link.Scheme != "http" || link.String() != l.Link || l.Until.IsZero() {
		return fmt.Errorf("a letter of the kind %q needs a link of https or http, and the time until which it works", l.Kind)
	}
	return nil
}
