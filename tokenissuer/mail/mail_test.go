package mail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/words"
)

// office is a queue with a worker whose time only the test moves.
type office struct {
	*testing.T
	store  *sqlstore.Store
	clock  *tokentest.Clock
	post   *Post
	worker *Worker
	sender *fakeSender

	mu      sync.Mutex
	results []Result
	failed  []error
	lost    []string
}

// fakeSender is a mail server; answer nil: it takes everything.
type fakeSender struct {
	answer func(context.Context, Message) error
	mu     sync.Mutex
	sent   []Message
}

func (f *fakeSender) Send(ctx context.Context, m Message) (string, error) {
	if f.answer != nil {
		if err := f.answer(ctx, m); err != nil {
			return "", err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, m)
	return "250 OK", nil
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{T: t, store: teststore.New(t), clock: tokentest.NewClock(), sender: new(fakeSender)}
	o.post = &Post{
		Now: o.clock.Now, Opened: Opened{Store: o.store.Mails, Master: testkeys.Master(t, 7, tokentest.Start)},
		Lost: func(kind Kind, userID string, _ error) { o.lost = append(o.lost, string(kind)+" of "+userID) },
	}
	o.worker = o.newWorker(o.sender)
	return o
}

// newWorker returns the worker of a node.
func (o *office) newWorker(sender Sender) *Worker {
	o.Helper()
	catalogues, err := words.Load("")
	if err != nil {
		o.Fatal(err)
	}
	return &Worker{
		Post: o.post, Writer: Writer{Words: catalogues, Brand: "Acme", AccountURL: "https://id.example/oauth/account"}, Sender: sender,
		Report: func(r Result) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.results = append(o.results, r)
		},
		StoreFailed: func(err error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.failed = append(o.failed, err)
		},
	}
}

// round sends what is due now, and returns the outcomes.
func (o *office) round(ctx context.Context, w *Worker) (outcomes []Outcome) {
	o.Helper()
	free := make(chan struct{}, maxSending)
	for range maxSending {
		free <- struct{}{}
	}
	w.sendDue(ctx, free, func(m store.Mail) { w.send(ctx, m) })
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.results {
		outcomes = append(outcomes, r.Outcome)
	}
	o.results = nil
	return outcomes
}

// waiting returns the mails in the store.
func (o *office) waiting() []store.Mail {
	o.Helper()
	list, err := o.store.Mails.DueMails(context.Background(), o.clock.Now().Add(1000*time.Hour), 1000)
	if err != nil {
		o.Fatal(err)
	}
	return list
}

func (o *office) send(l Letter) {
	o.Helper()
	if err := o.post.Send(o.Context(), l); err != nil {
		o.Fatal(err)
	}
}

const secretLink = "https://id.example/oauth/reset?link=live-secret"

// letter returns a letter with a link that works for half an hour.
func (o *office) letter() Letter {
	return Letter{Kind: Reset, To: "ada@example.com", Name: "Ada", Link: secretLink, Until: o.clock.Now().Add(30 * time.Minute)}
}

// TestE5ALetterIsSealedInTheStore: whoever reads the database → finds neither link nor name; a row that was given another address, or that was
// copied to another id → not sent, and dropped; the row as it was → the letter with its link.
func TestE5ALetterIsSealedInTheStore(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.send(o.letter())
	m := o.waiting()[0]
	if text := fmt.Sprintf("%+v %s", m, m.Sealed); strings.Contains(text, "live-secret") || strings.Contains(text, "Ada") {
		t.Errorf("the row is %s", text)
	}
	redirected, copied := m, m
	redirected.To, redirected.ID = "eve@example.com", m.ID
	copied.ID = "copy"
	for _, forged := range []store.Mail{redirected, copied} {
		if err := o.store.Mails.DropMail(t.Context(), forged.ID); err != nil {
			t.Fatal(err)
		}
		if err := o.store.Mails.AddMail(t.Context(), forged, waiting); err != nil {
			t.Fatal(err)
		}
		if got := o.round(t.Context(), o.worker); !slices.Equal(got, []Outcome{Damaged}) || len(o.sender.sent) != 0 || len(o.waiting()) != 0 {
			t.Errorf("%q: %q, sent %d, waiting %d", forged.To, got, len(o.sender.sent), len(o.waiting()))
		}
	}
	if err := o.store.Mails.AddMail(t.Context(), m, waiting); err != nil {
		t.Fatal(err)
	}
	if got := o.round(t.Context(), o.worker); !slices.Equal(got, []Outcome{Sent}) || len(o.waiting()) != 0 {
		t.Errorf("%q, waiting %d", got, len(o.waiting()))
	}
	if sent := o.sender.sent[0]; sent.ID != m.ID || sent.To != "ada@example.com" || !strings.Contains(sent.Text, secretLink) || !sent.Date.Equal(m.CreatedAt) {
		t.Errorf("%+v", sent)
	}
}

// TestE6ATemporaryFailureIsRetried: a server that says 451, or does not answer → tried again after growing pauses, each time with the same
// Message-ID; it recovers → sent once; it does not → given up after 24 hours.
func TestE6ATemporaryFailureIsRetried(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"451": &Refusal{Code: 451, Step: "DATA"}, "silence": errors.New("i/o timeout")} {
		o := newOffice(t)
		tries := map[string]int{}
		o.sender.answer = func(_ context.Context, m Message) error {
			if tries[m.ID]++; tries[m.ID] == 4 {
				return nil
			}
			return failure
		}
		o.send(Letter{Kind: PasswordChanged, To: "ada@example.com"})
		for _, pause := range []time.Duration{firstRetry, 2 * firstRetry, 4 * firstRetry} {
			if got := o.round(t.Context(), o.worker); !slices.Equal(got, []Outcome{Failed}) {
				t.Fatalf("%s: %q", name, got)
			}
			o.clock.Add(pause - time.Second)
			if got := o.round(t.Context(), o.worker); len(got) != 0 {
				t.Fatalf("%s: tried again too early: %q", name, got)
			}
			o.clock.Add(time.Second)
		}
		if got := o.round(t.Context(), o.worker); !slices.Equal(got, []Outcome{Sent}) || len(o.waiting()) != 0 || len(tries) != 1 {
			t.Errorf("%s: %q, %v", name, got, tries)
		}

		o.sender.answer = func(context.Context, Message) error { return failure }
		o.send(Letter{Kind: PasswordChanged, To: "ada@example.com"})
		began, attempts := o.clock.Now(), 0
		for last := Failed; last == Failed; attempts++ {
			if got := o.round(t.Context(), o.worker); len(got) == 1 {
				last = got[0]
			} else {
				t.Fatalf("%s: %q", name, got)
			}
			if last != Failed && last != GivenUp {
				t.Fatalf("%s: %q", name, last)
			}
			if left := o.waiting(); len(left) == 1 {
				o.clock.Add(left[0].DueAt.Sub(o.clock.Now()))
			}
		}
		if took := o.clock.Now().Sub(began); took > GiveUpAfter || took < GiveUpAfter-2*maxRetry || attempts > 40 || len(o.waiting()) != 0 {
			t.Errorf("%s: given up after %s and %d attempts, %d wait", name, took, attempts, len(o.waiting()))
		}
	}
}

// TestE16AnUnansweredLetterIsNotRepeatedForEver: a server that takes a letter and never says so, or a node that dies each time in between → three
// attempts, whatever failed before, and the letter is given up; an answer in between → sent.
func TestE16AnUnansweredLetterIsNotRepeatedForEver(t *testing.T) {
	t.Parallel()
	unanswered := &Unanswered{Err: errors.New("i/o timeout")}
	refused := &Refusal{Code: 451, Step: "DATA"}
	for name, test := range map[string]struct {
		answers []error
		dies    int // after so many attempts, always
		want    Outcome
		sent    int
	}{
		"never answered":            {answers: []error{unanswered, unanswered, unanswered, nil}, dies: 9, want: GivenUp, sent: 3},
		"after other failures":      {answers: []error{refused, refused, unanswered, refused, unanswered, refused, unanswered, nil}, dies: 9, want: GivenUp, sent: 7},
		"answered in the end":       {answers: []error{unanswered, unanswered, nil}, dies: 9, want: Sent, sent: 3},
		"the node dies":             {answers: []error{nil, nil, nil, nil}, dies: 0, want: GivenUp, sent: 3},
		"unanswered and then death": {answers: []error{unanswered, nil, nil, nil}, dies: 1, want: GivenUp, sent: 3},
	} {
		o := newOffice(t)
		tries := 0
		o.sender.answer = func(context.Context, Message) error {
			tries++
			return test.answers[tries-1]
		}
		o.send(Letter{Kind: PasswordChanged, To: "ada@example.com"})
		last := Failed
		for round := 0; last == Failed && round < 20; round++ {
			o.clock.Add(o.waiting()[0].DueAt.Sub(o.clock.Now()))
			if tries < test.dies || tries >= 3 {
				if got := o.round(t.Context(), o.worker); len(got) == 1 {
					last = got[0]
				} else {
					t.Fatalf("%s: %q", name, got)
				}
				continue
			}
			free := make(chan struct{}, 1)
			free <- struct{}{}
			o.worker.sendDue(t.Context(), free, func(store.Mail) { tries++ }) // the server has it, and the node is no more
		}
		if last != test.want || tries != test.sent || len(o.waiting()) != 0 {
			t.Errorf("%s: %s after %d attempts, %d wait", name, last, tries, len(o.waiting()))
		}
	}
}

// TestE7AnExpiredLinkIsNotSent: the link expires while its letter waits → the letter is dropped unsent.
func TestE7AnExpiredLinkIsNotSent(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.send(o.letter())
	o.clock.Add(30 * time.Minute)
	if got := o.round(t.Context(), o.worker); !slices.Equal(got, []Outcome{GivenUp}) || len(o.sender.sent) != 0 || len(o.waiting()) != 0 {
		t.Errorf("%q, sent %d, waiting %d", got, len(o.sender.sent), len(o.waiting()))
	}
}

// TestE8APermanentRefusalEndsIt: a server that says 550 to the recipient → one attempt, and the letter is dropped.
func TestE8APermanentRefusalEndsIt(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.sender.answer = func(context.Context, Message) error { return &Refusal{Permanent: true, Code: 550, Step: "RCPT TO"} }
	o.send(o.letter())
	if got := o.round(t.Context(), o.worker); !slices.Equal(got, []Outcome{Refused}) || len(o.waiting()) != 0 {
		t.Errorf("%q, waiting %d", got, len(o.waiting()))
	}
}

// TestE9OneNodeSends: two nodes see a letter → one sends it; the sending node is stopped → the letter is due at once and another node sends it;
// it dies → another node sends it after the claim.
func TestE9OneNodeSends(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	began, release := make(chan struct{}), make(chan struct{})
	slow := &fakeSender{answer: func(ctx context.Context, _ Message) error {
		close(began)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	ctx, stop := context.WithCancel(t.Context())
	o.send(o.letter())
	done := make(chan []Outcome)
	go func() { done <- o.round(ctx, o.newWorker(slow)) }()
	<-began
	if got := o.round(t.Context(), o.worker); len(got) != 0 || len(o.sender.sent) != 0 {
		t.Errorf("the other node: %q", got)
	}
	stop()
	if got := <-done; len(got) != 0 {
		t.Errorf("the node that was stopped: %q", got)
	}
	if left := o.waiting(); len(left) != 1 || left[0].Attempts != 0 || left[0].DueAt.After(o.clock.Now()) {
		t.Fatalf("%+v", left)
	}
	// A node that dies leaves its claim.
	dead := o.waiting()[0]
	if err := o.store.Mails.PostponeMail(t.Context(), dead, o.clock.Now().Add(claim)); err != nil {
		t.Fatal(err)
	}
	o.clock.Add(claim - time.Second)
	if got := o.round(t.Context(), o.worker); len(got) != 0 {
		t.Errorf("before the claim has ended: %q", got)
	}
	o.clock.Add(time.Second)
	if got := o.round(t.Context(), o.worker); !slices.Equal(got, []Outcome{Sent}) || len(o.waiting()) != 0 {
		t.Errorf("after the claim: %q", got)
	}
}

// TestE10NobodyWaitsForTheMailServer: a mail server that never answers, and letters beyond what a node sends at a time → Send returns at once,
// and Run ends when it is told to.
func TestE10NobodyWaitsForTheMailServer(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	began := make(chan struct{}, 100)
	o.sender.answer = func(ctx context.Context, _ Message) error {
		began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	for i := range 3 * maxSending {
		o.send(Letter{Kind: PasswordChanged, To: fmt.Sprintf("u%d@example.com", i)})
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { o.worker.Run(ctx); close(ended) }()
	for range maxSending {
		<-began
	}
	o.send(Letter{Kind: PasswordChanged, To: "late@example.com"})
	stop()
	<-ended
	if len(began) != 0 || len(o.waiting()) != 3*maxSending+1 {
		t.Errorf("%d more were begun, %d wait", len(began), len(o.waiting()))
	}
}

// TestE11TheQueueIsBounded: letters to one address beyond twenty → temporarily_unavailable, and letters to others are taken.
func TestE11TheQueueIsBounded(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for range waiting.PerAddress {
		o.send(o.letter())
	}
	if err := o.post.Send(t.Context(), o.letter()); oauth.AsError(err).Code != oauth.TemporarilyUnavailable || oauth.AsError(err).Reason != "mail_queue_full" {
		t.Errorf("%v", err)
	}
	o.send(Letter{Kind: PasswordChanged, To: "bob@example.com"})
}

// TestE12ANoticeNeverFailsTheChange: the store is away or the queue full → Notify returns and the loss is reported with the user's id; no mail
// is configured, or the user has no address of their own → nothing.
func TestE12ANoticeNeverFailsTheChange(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	ada := &store.User{ID: "u-ada", Email: "ada@example.com", Name: "Ada", Profile: &store.Profile{Locale: "de"}}
	o.post.Notify(t.Context(), ada, FactorAdded, "Telefon")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	o.post.Notify(cancelled, ada, PasswordChanged, "") // the browser has gone away
	for _, nobody := range []*store.User{{ID: "none"}, {ID: "s", Email: store.ServiceEmail("s"), Service: true}} {
		o.post.Notify(t.Context(), nobody, FactorAdded, "")
	}
	(*Post)(nil).Notify(t.Context(), ada, FactorAdded, "")
	if got := o.round(t.Context(), o.worker); !slices.Equal(got, []Outcome{Sent, Sent}) || len(o.lost) != 0 {
		t.Fatalf("%q, lost %q", got, o.lost)
	}
	if first := o.sender.sent[0]; !strings.Contains(first.Text+o.sender.sent[1].Text, "Guten Tag Ada") {
		t.Errorf("not in the user's language: %q", first.Text)
	}
	if err := o.store.Close(); err != nil {
		t.Fatal(err)
	}
	o.post.Notify(t.Context(), ada, FactorRemoved, "")
	if !slices.Equal(o.lost, []string{"factor_removed of u-ada"}) {
		t.Errorf("lost %q", o.lost)
	}
	if err := o.post.Send(t.Context(), o.letter()); oauth.AsError(err).Code != oauth.TemporarilyUnavailable {
		t.Errorf("%v", err)
	}
	if err := (*Post)(nil).Send(t.Context(), o.letter()); err == nil {
		t.Error("a letter without mail is no error")
	}
}

// TestE13OnlyAddressesGetMail: an address with a line break, NUL, a name, several addresses, a comment, a space, or without a domain, and a
// link with a line break → refused before it is stored; plain addresses, in UTF-8 too → stored.
func TestE13OnlyAddressesGetMail(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, address := range []string{
		"", "ada", "ada@", "@example.com", "ada@example.com\r\nBcc: eve@example.com", "ada@example.com\n", "a\x00da@example.com", "Ada <ada@example.com>",
		"ada@example.com, eve@example.com", "ada@example.com (work)", "a da@example.com", `"a\r\nb"@example.com`, "<ada@example.com>", "ada@example.com\u2028x",
		"ada\xff@example.com", strings.Repeat("a", 250) + "@example.com", "=?utf-8?q?a=0d=0ab?=@example.com>", `"a b"@example.com`, "ada@[127.0.0.1]",
	} {
		l := o.letter()
		l.To = address
		if err := o.post.Send(t.Context(), l); err == nil {
			t.Errorf("%.60q is taken", address)
		}
	}
	for _, link := range []string{"", "https://id.example/\r\nx", "javascript:alert(1)", "https://id.example/ x"} {
		l := o.letter()
		l.Link = link
		if err := o.post.Send(t.Context(), l); err == nil {
			t.Errorf("the link %q is taken", link)
		}
	}
	if n := len(o.waiting()); n != 0 {
		t.Errorf("%d wait", n)
	}
	for _, address := range []string{"ada@example.com", "a.b+c@xn--bcher-kva.example", "jürgen@bücher.example", "o'hara@example.com"} {
		l := o.letter()
		l.To = address
		if err := o.post.Send(t.Context(), l); err != nil {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestE14WhatPeopleAreCalledIsText: a name or detail with markup, line breaks, placeholders, control characters or a direction override, or of
// 100 kB → one line of text of bounded length, in both parts, and the subject is one line.
func TestE14WhatPeopleAreCalledIsText(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, name := range []string{
		"<script>alert(1)</script>", `"><img src=x onerror=y>`, "Ada\r\nBcc: eve@example.com", "{until} {link}", "a\u202eb\u2066c", "a\x00b\x1b[31m", "\xff\xfe",
		strings.Repeat("ß", 50_000), "=?utf-8?q?=0d=0a?=", "a\u2028b\u0085c", " ",
	} {
		for _, kind := range Kinds {
			l := o.letter()
			l.Kind, l.Name, l.Detail, l.At = kind, name, name, o.clock.Now()
			w := o.worker.Writer
			w.Brand = "Acme & Söhne <x>"
			m := w.Write(store.Mail{ID: "id", To: l.To}, l)
			if strings.ContainsAny(m.Subject, "\r\n\x00") || len(m.Subject) > 500 || len(m.Text) > 3000 || len(m.HTML) > 6000 {
				t.Errorf("%s, %.20q: subject %.100q, %d and %d bytes", kind, name, m.Subject, len(m.Text), len(m.HTML))
			}
			if strings.ContainsAny(m.Text, "\x00\x1b\u202e\u2066\u2028\u0085\ufffd") || strings.Contains(m.Text, "\nBcc") {
				t.Errorf("%s, %.20q: %q", kind, name, m.Text)
			}
			if strings.Contains(m.HTML, "<script") || strings.Contains(m.HTML, "<img") || strings.Contains(m.HTML, "<x>") {
				t.Errorf("%s, %.20q: %q", kind, name, m.HTML)
			}
			if greeting, _, _ := strings.Cut(m.Text, "\r\n"); name == " " && greeting != "Hello," || strings.Contains(greeting, "2026") {
				t.Errorf("%s, %.20q: greeting %q", kind, name, greeting)
			}
		}
	}
}

// TestE15EveryLetterInEveryLanguage: each kind of letter, in each language → subject and texts without a placeholder, the link if it has one,
// otherwise the account page, and nothing to be fetched; every text for mail in the catalogue is in one of them.
func TestE15EveryLetterInEveryLanguage(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	w := o.worker.Writer
	for _, language := range w.Words.Languages() {
		_, texts := w.Words.In(words.Language(language))
		var all strings.Builder
		for _, kind := range Kinds {
			for _, named := range []bool{true, false} {
				l := o.letter()
				l.Kind, l.Languages, l.At, l.Detail = kind, language, o.clock.Now(), "Pixel"
				if !named {
					l.Name, l.Detail = l.To, ""
				}
				m := w.Write(store.Mail{ID: "id", To: l.To}, l)
				all.WriteString(m.Subject + "\n" + m.Text + "\n")
				if strings.ContainsAny(m.Subject+m.Text+m.HTML, "{}") || !strings.Contains(m.HTML, `<html lang="`+language+`">`) {
					t.Errorf("%s in %s: %q\n%s\n%s", kind, language, m.Subject, m.Text, m.HTML)
				}
				if got := strings.Contains(m.Text, secretLink); got != kind.HasLink() {
					t.Errorf("%s in %s has the link: %v", kind, language, got)
				}
				if got := strings.Contains(m.Text, w.AccountURL); got == (kind.HasLink() || kind == Test) {
					t.Errorf("%s in %s has the account page: %v", kind, language, got)
				}
				if strings.Contains(m.HTML, "src=") || strings.Contains(m.HTML, "url(") {
					t.Errorf("%s in %s fetches something: %s", kind, language, m.HTML)
				}
			}
		}
		for key := range texts {
			text, is := strings.CutPrefix(key, "mail.")
			if !is {
				continue
			}
			shown := strings.NewReplacer("{brand}", "Acme", "{name}", "Ada", "{time}", texts.Moment(o.clock.Now()).Words,
				"{until}", texts.Moment(o.letter().Until).Words).Replace(texts[key])
			if !strings.Contains(all.String(), shown) && !strings.Contains(all.String(), strings.ReplaceAll(shown, "{detail}", "Pixel")) {
				t.Errorf("no letter in %s says %s: %q", language, text, shown)
			}
		}
	}
	for languages, want := range map[string]string{"": "Hello", "fr de": "Bonjour", "de-AT,de;q=0.9,en;q=0.8": "Guten", "it, es;q=0.5": "Hola", "\r\nx": "Hello"} {
		l := o.letter()
		l.Languages = languages
		if m := w.Write(store.Mail{}, l); !strings.HasPrefix(m.Text, want) {
			t.Errorf("%q: %q", languages, m.Text)
		}
	}
}
