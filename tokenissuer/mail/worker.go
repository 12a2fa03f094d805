package mail

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// pollInterval is how often the store is asked for what is due.
	pollInterval = time.Second
	// storeTimeout bounds each call of the store.
	storeTimeout = 5 * time.Second

	// maxSending is the number of letters that a node sends at a time.
	maxSending = 8

	// MaxTimeout is the longest time that a Sender may take until the server has the message, and again until it has accepted it. claim is how
	// long a node holds a letter; it is longer.
	MaxTimeout = 2 * time.Minute
	claim      = 2*MaxTimeout + time.Minute

	// firstRetry doubles with each attempt, to maxRetry at most.
	firstRetry = 10 * time.Second
	maxRetry   = time.Hour

	// maxUnanswered bounds the attempts after which the server may have the letter: a person gets no more copies of it.
	maxUnanswered = 3
)

// Sender hands a message to a mail server. It returns what the server said when it took the message. The error is a *Refusal if the server
// answered with one, and *Unanswered if it may have the message. It contains neither the address of the recipient nor a credential.
type Sender interface {
	Send(ctx context.Context, m Message) (answer string, err error)
}

// Refusal is the answer of a mail server that does not take a message.
type Refusal struct {
	// Permanent reports that the server will not take this message, or no message to this recipient (RFC 5321 §4.2.1).
	Permanent bool
	// Step is the command that was refused, such as "RCPT TO".
	Step string
	// Code is the reply code, Text what the server said, without the recipient's address.
	Code int
	Text string
}

// Error includes the step and the server's answer.
func (r *Refusal) Error() string { return "the mail server refuses " + r.Step + ": " + r.Text }

// Unanswered is the error of an attempt after which the server may have the whole message: it did not say.
type Unanswered struct{ Err error }

func (u *Unanswered) Error() string { return u.Err.Error() + ": the server may have it" }

// Unwrap returns the cause.
func (u *Unanswered) Unwrap() error { return u.Err }

var errUnanswered = errors.New("the server may have it: it did not answer, or this server stopped, in each of the last attempts")

// Outcome is the result of an attempt to send a letter.
type Outcome string

// The outcomes.
const (
	Sent Outcome = "sent"
	// Refused is a permanent refusal by the server.
	Refused Outcome = "refused"
	// Failed is retried, GivenUp is not.
	Failed  Outcome = "failed"
	GivenUp Outcome = "given_up"
	// Damaged means that the letter in the store cannot be opened.
	Damaged Outcome = "damaged"
)

// Result describes an attempt. It contains neither the address nor the link.
type Result struct {
	// ID is the letter's, and part of its Message-ID. Kind is empty for a damaged one.
	ID   string
	Kind Kind
	// Attempts includes this one.
	Attempts int
	Outcome  Outcome
	// Err is why the letter was not sent.
	Err error
}

// Worker sends the letters that are due. Its fields are set before Run.
type Worker struct {
	Post   *Post
	Writer Writer
	Sender Sender
	// Report is called with each result, by any goroutine.
	Report func(Result)
	// StoreFailed is called with an error of the store. The letters concerned stay due.
	StoreFailed func(error)
}

// Run sends due letters until ctx ends. It then cancels what it is sending, which another worker may take over at once.
func (w *Worker) Run(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	// free has a value for each letter that may be sent beside those that are being sent.
	free, freed := make(chan struct{}, maxSending), make(chan struct{}, 1)
	for range maxSending {
		free <- struct{}{}
	}
	for {
		w.sendDue(ctx, free, func(m store.Mail) {
			sending.Go(func() {
				w.send(ctx, m)
				free <- struct{}{}
				select {
				case freed <- struct{}{}:
				default: // Run has not looked since
				}
			})
		})
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		case <-freed:
		}
	}
}

// sendDue claims due letters and begins to send them, up to the number that is free.
func (w *Worker) sendDue(ctx context.Context, free chan struct{}, begin func(store.Mail)) {
	n := len(free)
	if n == 0 || ctx.Err() != nil {
		return
	}
	step, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	due, err := w.Post.Store.DueMails(step, w.Post.Now(), n)
	if err != nil {
		w.failed(err)
		return
	}
	for _, m := range due {
		until := w.Post.Now().Add(claim)
		m.Attempts++
		m.Unanswered++ // until the outcome is known: this node may die
		switch err := w.Post.Store.PostponeMail(step, m, until); {
		case errors.Is(err, store.ErrNotFound): // another node was faster
			continue
		case err != nil:
			w.failed(err)
			return
		}
		m.DueAt = until
		<-free
		begin(m)
	}
}

// failed reports an error of the store, unless the worker is ending or another node was faster.
func (w *Worker) failed(err error) {
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, store.ErrNotFound) {
		w.StoreFailed(err)
	}
}

// send makes one attempt with a letter that this node has claimed, and stores the outcome.
func (w *Worker) send(ctx context.Context, m store.Mail) {
	result := Result{ID: m.ID, Attempts: m.Attempts, Outcome: Sent}
	letter, err := w.Post.open(m)
	result.Kind = letter.Kind
	var refusal *Refusal
	switch now := w.Post.Now(); {
	case err != nil:
		result.Outcome = Damaged
	case !now.Before(m.ExpiresAt):
		result.Outcome, err = GivenUp, errors.New("it has waited too long, or its link has expired")
		result.Attempts--
	case m.Unanswered > maxUnanswered:
		result.Outcome, err = GivenUp, errUnanswered
		result.Attempts--
	default:
		attempt, cancel := context.WithTimeout(ctx, 2*MaxTimeout)
		_, err = w.Sender.Send(attempt, w.Writer.Write(m, letter))
		cancel()
		switch {
		case err == nil:
		case errors.As(err, new(*Unanswered)):
			result.Outcome = Failed
		case errors.As(err, &refusal) && refusal.Permanent:
			result.Outcome = Refused
		default:
			result.Outcome = Failed
			m.Unanswered--
		}
	}
	// The outcome is stored even if the worker is ending.
	step, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	next := w.Post.Now().Add(pause(m.Attempts))
	if result.Outcome == Failed && ctx.Err() != nil { // the attempt was cancelled
		m.Attempts--
		w.failed(w.Post.Store.PostponeMail(step, m, w.Post.Now()))
		return
	}
	if result.Outcome == Failed && (m.Unanswered >= maxUnanswered || !next.Before(m.ExpiresAt)) {
		result.Outcome = GivenUp
	}
	if err != nil {
		result.Err = told(err, letter.Link)
	}
	w.Report(result)
	if result.Outcome == Failed {
		w.failed(w.Post.Store.PostponeMail(step, m, next))
		return
	}
	w.failed(w.Post.Store.DropMail(step, m.ID))
}

// maxTold bounds what a server's answer adds to a log, in bytes.
const maxTold = 500

// told returns an error as it may be logged: a server can quote the letter, with its link.
func told(err error, link string) error {
	text := err.Error()
	if link != "" {
		text = strings.ReplaceAll(text, link, "(link)")
	}
	return errors.New(strings.ToValidUTF8(text[:min(len(text), maxTold)], ""))
}

// pause returns the time to wait after the n-th failed attempt.
func pause(n int) time.Duration {
	wait := firstRetry
	for range n - 1 {
		if wait *= 2; wait >= maxRetry {
			return maxRetry
		}
	}
	return wait
}
