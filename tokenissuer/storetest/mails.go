package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// manyMails does not bind.
var manyMails = store.MailLimits{All: 1000, PerAddress: 1000}

// mail returns a mail in which every field has a distinct value.
func mail(id string) store.Mail {
	return store.Mail{
		ID: id, To: id + "@é.example", Sealed: []byte("\x00sealed " + id), CreatedAt: now.Add(-time.Minute), DueAt: now, ExpiresAt: now.Add(time.Hour), Attempts: 3, Unanswered: 2,
	}
}

// dueMails returns the ids of the mails that are due.
func dueMails(t *testing.T, s store.MailStore, at time.Time, limit int) (ids []string) {
	t.Helper()
	for _, m := range ok(s.DueMails(t.Context(), at, limit))(t) {
		ids = append(ids, m.ID)
	}
	return ids
}

func mailCalls(s store.Store) []call {
	return []call{
		{"AddMail", func(ctx context.Context) error { return s.Mails.AddMail(ctx, mail("m"), manyMails) }},
		{"DueMails", func(ctx context.Context) error { return errOf(s.Mails.DueMails(ctx, now, 10)) }},
		{"PostponeMail", func(ctx context.Context) error { return s.Mails.PostponeMail(ctx, mail("m"), now.Add(time.Minute)) }},
		{"DropMail", func(ctx context.Context) error { return s.Mails.DropMail(ctx, "m") }},
	}
}

var mailChecks = []check{
	// A mail waits → reads back from when it is due, earliest first; dropped → gone, also twice.
	{name: "E1MailsReadBack", test: func(t *testing.T, s store.Store) {
		first, second := mail("b"), mail("a")
		second.DueAt = now.Add(time.Second)
		must(t, s.Mails.AddMail(t.Context(), second, manyMails))
		must(t, s.Mails.AddMail(t.Context(), first, manyMails))
		again := first
		again.Sealed = []byte("another")
		must(t, s.Mails.AddMail(t.Context(), again, manyMails)) // changes nothing
		wantSize(t, dueMails(t, s.Mails, now.Add(-time.Microsecond), 10), 0)
		same(t, ok(s.Mails.DueMails(t.Context(), now, 10))(t), []store.Mail{first})
		same(t, ok(s.Mails.DueMails(t.Context(), now.Add(time.Second), 10))(t), []store.Mail{first, second})
		same(t, dueMails(t, s.Mails, now.Add(time.Hour), 1), []string{"b"})
		must(t, s.Mails.DropMail(t.Context(), "b"))
		must(t, s.Mails.DropMail(t.Context(), "b"))
		must(t, s.Mails.DropMail(t.Context(), "\x00"))
		same(t, dueMails(t, s.Mails, now.Add(time.Hour), 10), []string{"a"})
	}},
	// More mails than may wait, in all or for one address → ErrFull, and none of them waits; others still may.
	{name: "E2MailsAreBounded", test: func(t *testing.T, s store.Store) {
		limits := store.MailLimits{All: 4, PerAddress: 2}
		to := func(id, address string) store.Mail {
			m := mail(id)
			m.To = address
			return m
		}
		for _, id := range []string{"a1", "a2"} {
			must(t, s.Mails.AddMail(t.Context(), to(id, "ada@example.com"), limits))
		}
		mustBe(t, s.Mails.AddMail(t.Context(), to("a3", "ada@example.com"), limits), store.ErrFull)
		for _, id := range []string{"b", "c"} {
			must(t, s.Mails.AddMail(t.Context(), to(id, id+"@example.com"), limits))
		}
		mustBe(t, s.Mails.AddMail(t.Context(), to("d", "d@example.com"), limits), store.ErrFull)
		same(t, dueMails(t, s.Mails, now, 10), []string{"a1", "a2", "b", "c"})
		must(t, s.Mails.DropMail(t.Context(), "a1"))
		must(t, s.Mails.AddMail(t.Context(), to("a3", "ada@example.com"), limits))
	}},
	// Several nodes see a due mail → exactly one gets it, and no other before the claim ends.
	{name: "E3OneCallerGetsAMail", races: func(t *testing.T, s store.Store) {
		m, next := mail("m"), now.Add(time.Minute)
		must(t, s.Mails.AddMail(t.Context(), m, manyMails))
		m.Attempts, m.Unanswered = 4, 1
		oneWinner(t, race(racers, func(int) error { return s.Mails.PostponeMail(t.Context(), m, next) }), store.ErrNotFound)
		wantSize(t, dueMails(t, s.Mails, next.Add(-time.Microsecond), 10), 0)
		claimed := ok(s.Mails.DueMails(t.Context(), next, 10))(t)
		m.DueAt = next
		same(t, claimed, []store.Mail{m})
		must(t, s.Mails.DropMail(t.Context(), "m"))
		mustBe(t, s.Mails.PostponeMail(t.Context(), m, next), store.ErrNotFound)
	}},
}
