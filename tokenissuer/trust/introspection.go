package trust

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	// defaultCacheFor is how long a good answer stands, and maxRefusal how long a bad one does, at most.
	defaultCacheFor = 30 * time.Second
	maxRefusal      = 5 * time.Second
	// failurePause is how long an issuer that has failed is left alone.
	failurePause = time.Second
	// maxQuestions are asked at once, half of them for one source. So many others wait for slotPatience at most: each of them
	// takes memory, even when its client has hung up.
	maxQuestions = 64
	maxWaiting   = 8192
	slotTimeout  = 2 * time.Second
	// warnInterval is how long after a warning about an issuer there is none.
	warnInterval = time.Minute
)

// introspector asks an issuer about opaque tokens (RFC 7662). What the issuer says of a token is cached for a short time;
// whether that is good enough for a request is asked every time.
type introspector struct {
	settings Introspection
	issuer   string
	tokens   accesstoken.TrustedTokens
	client   *client
	now      func() time.Time
	warn     func(message string, err error)

	space   [sha256.Size]byte // what the answers depend on beside the token
	answers *answerCache
	// waits are for the turn of a source with a token, and questions for what the issuer says of a token.
	waits, questions singleflight.Group

	queue    *fairqueue.Queue
	patience time.Duration
	wait     time.Duration // for an answer, in all
	pause    atomic.Int64  // until when the issuer is left alone, in nanoseconds since 1970
	warned   atomic.Int64  // when the last warning was given, likewise

	failed atomic.Pointer[failedQuestion] // nil: the last question was answered, or there was none
}

func newIntrospector(settings *Introspection, tokens accesstoken.TrustedTokens, c *client, now func() time.Time) *introspector {
	i := &introspector{
		settings: *settings, issuer: tokens.Issuer, tokens: tokens, client: c, now: now, warn: func(string, error) {},
		answers: newAnswerCache(), queue: fairqueue.New(maxQuestions, maxWaiting), patience: slotTimeout, wait: fetchTimeout,
	}
	if i.settings.CacheFor <= 0 {
		i.settings.CacheFor = defaultCacheFor
	}
	i.space = sha256.Sum256(fmt.Appendf(nil, "%q %q %q", tokens.Issuer, settings.Endpoint, settings.ClientID))
	return i
}

// key is what an answer is found by: no two tokens share one, and no issuer, endpoint or client takes that of another.
func (i *introspector) key(token string) [sha256.Size]byte {
	text := make([]byte, 0, 256)
	return sha256.Sum256(append(append(text, i.space[:]...), token...))
}

// verify returns the token if its issuer says that it is active and it is good now for one of the audiences. The error is
// an *tokenissuer.Error: invalid_token, or temporarily_unavailable when the issuer does not say.
func (i *introspector) verify(ctx context.Context, token string, audiences []string, source string) (*accesstoken.AccessToken, error) {
	if len(token) > accesstoken.MaxTokenBytes || !oauth.IsB64Token(token) {
		return nil, oauth.NewError(oauth.InvalidToken, "token_malformed")
	}
	said, err := i.said(ctx, token, source)
	if err != nil {
		return nil, err
	}
	return said.Verify(audiences, i.now())
}

// recall is verify for a token that the issuer has spoken of not long ago. Known is false, and the error nil, when it has not.
func (i *introspector) recall(token string, audiences []string) (t *accesstoken.AccessToken, known bool, err error) {
	now := i.now()
	said, err := i.answers.get(i.key(token), now)
	if said == nil {
		return nil, err != nil, err
	}
	t, err = said.Verify(audiences, now)
	return t, true, err
}

// said is what the issuer says of the token. Whoever asks while the same question is under way gets its answer. The question
// lives on when its client hangs up: others may wait for it. They wait for a turn only with those of their own source, or a
// source that floods could hold up a token that others show too.
func (i *introspector) said(ctx context.Context, token, source string) (*accesstoken.Introspected, error) {
	key := i.key(token)
	if said, err := i.answers.get(key, i.now()); said != nil || err != nil {
		return said, err
	}
	if err := i.paused(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, i.wait)
	defer cancel()
	flight := i.waits.DoChan(string(key[:])+source, func() (any, error) { return i.find(key, token, source) })
	select {
	case answer := <-flight:
		if answer.Err != nil {
			return nil, answer.Err
		}
		return answer.Val.(*accesstoken.Introspected), nil
	case <-ctx.Done():
		return nil, unavailable("introspection_awaited", ctx.Err())
	}
}

// find asks, once it is the source's turn.
func (i *introspector) find(key [sha256.Size]byte, token, source string) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), i.patience)
	defer cancel()
	leave, err := i.queue.Enter(ctx, fairqueue.Share{Name: source, Most: maxQuestions / 2})
	if err != nil {
		return nil, unavailable(oauth.ReasonIntrospectionBusy, err)
	}
	defer leave()
	said, err, _ := i.questions.Do(string(key[:]), func() (any, error) { return i.question(key, token) })
	return said, err
}

// question asks, unless the answer has come or the issuer has failed meanwhile.
func (i *introspector) question(key [sha256.Size]byte, token string) (*accesstoken.Introspected, error) {
	if said, err := i.answers.get(key, i.now()); said != nil || err != nil {
		return said, err
	}
	if err := i.paused(); err != nil {
		return nil, err
	}
	at := i.now()
	var said *accesstoken.Introspected
	var err error
	panicked := guarded(func() error {
		said, err = i.ask(token, at)
		return nil
	})
	if err = cmp.Or(panicked, err); err != nil {
		return nil, i.refuse(key, token, at, err)
	}
	i.failed.Store(nil)
	i.answers.put(key, said, at, i.settings.CacheFor)
	return said, nil
}

// ask puts the question (RFC 7662 §2.1). The client authenticates as RFC 6749 §2.3.1 says, with both halves form-encoded.
func (i *introspector) ask(token string, at time.Time) (*accesstoken.Introspected, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	ctx := context.Background() // the client has its own timeout
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, i.settings.Endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, failure{err, true}
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Authorization", "Basic "+i.credentials())
	status, _, body, err := i.client.do(ctx, request)
	switch {
	case err != nil:
		return nil, failure{err, isGeneral(err)}
	case status != http.StatusOK:
		return nil, failure{fmt.Errorf("the introspection endpoint answered with status %d", status), pausing[status]}
	}
	said, err := accesstoken.ParseIntrospection(body, i.tokens, at.Add(i.settings.CacheFor))
	if err == nil {
		err = said.CheckExpiry(at)
	}
	return said, err
}

// pausing are the statuses that have nothing to do with the token that was asked about: our credentials are wrong, we ask
// too much, or what stands before the issuer does not reach it. With any other, whoever knows of a token that its issuer
// stumbles over could have everybody refused: 403 is how a filter before an issuer answers what looks like an attack.
var pausing = map[int]bool{
	http.StatusUnauthorized: true, http.StatusTooManyRequests: true,
	http.StatusBadGateway: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
}

// isGeneral reports whether the issuer cannot be reached, or takes too long: others would wait for the same. One that hangs up
// or answers strangely may do so because of the token, and does it soon.
func isGeneral(err error) bool {
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// failure is a question without an answer. General: it would have been so with any token.
type failure struct {
	error
	general bool
}

// refuse settles what a token gets that was not found good. An issuer that fails is left alone for a moment, at least with
// this token, and the operator is told.
func (i *introspector) refuse(key [sha256.Size]byte, token string, at time.Time, err error) error {
	e, judged := errors.AsType[*oauth.Error](err)
	if judged && e.Code == oauth.InvalidToken {
		i.failed.Store(nil)
		i.answers.putRefusal(key, e, at, min(i.settings.CacheFor, maxRefusal))
		return e
	}
	reason, cause := "introspection_failed", err
	if judged {
		reason, cause = e.Reason, errors.Unwrap(e)
	}
	e = unavailable(reason, i.withoutSecrets(cause, token))
	ended := i.now()
	if failed, ok := errors.AsType[failure](err); ok && failed.general {
		i.pause.Store(ended.Add(failurePause).UnixNano())
	}
	i.failed.Store(&failedQuestion{ended, e})
	i.answers.putRefusal(key, e, ended, failurePause)
	i.tell(e)
	return e
}

// unavailable says when to come back.
func unavailable(reason string, cause error) *oauth.Error {
	e := oauth.NewError(oauth.TemporarilyUnavailable, reason).WithCause(cause)
	e.RetryAfter = failurePause
	return e
}

// paused refuses while the issuer is left alone. A clock that was set back has forgotten why.
func (i *introspector) paused() error {
	left := time.Unix(0, i.pause.Load()).Sub(i.now())
	if left <= 0 || left > failurePause {
		return nil
	}
	return unavailable("introspection_paused", nil)
}

// tell warns the operator, who hears of it again after a while only.
func (i *introspector) tell(err error) {
	now, last := i.now(), i.warned.Load()
	since := now.Sub(time.Unix(0, last))
	if last != 0 && 0 <= since && since < warnInterval || !i.warned.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	i.warn("a trusted issuer does not answer questions about tokens", err)
}

// withoutSecrets is an error without the token and our secret: it may quote what the issuer wrote, and that what we sent.
func (i *introspector) withoutSecrets(err error, token string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, secret := range []string{token, i.settings.ClientSecret.Reveal(), i.credentials()} {
		for _, spelling := range []string{secret, url.QueryEscape(secret), inPointer.Replace(secret), strings.Trim(strconv.Quote(secret), `"`)} {
			if spelling != "" {
				text = strings.ReplaceAll(text, spelling, "[secret]")
			}
		}
	}
	return brief(errors.New(text))
}

// inPointer spells a text as a JSON Pointer does (RFC 6901 §3), which is how errors name a place in an answer.
var inPointer = strings.NewReplacer("~", "~0", "/", "~1")

// credentials are what Basic authentication shows.
func (i *introspector) credentials() string {
	pair := url.QueryEscape(i.settings.ClientID) + ":" + url.QueryEscape(i.settings.ClientSecret.Reveal())
	return base64.StdEncoding.EncodeToString([]byte(pair))
}
