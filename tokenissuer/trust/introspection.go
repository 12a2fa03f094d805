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
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	// defaultCacheFor is how long an active response is cached, and maxRefusal bounds it for an inactive one.
	defaultCacheFor = 30 * time.Second
	maxRefusal      = 5 * time.Second
	// failurePause is how long an issuer is not asked again after a failure.
	failurePause = time.Second
	// maxQuestions bounds the concurrent requests; one source gets at most half of them. Up to maxWaiting more wait, for
	// at most slotTimeout: each takes memory, even when its client has disconnected.
	maxQuestions = 64
	maxWaiting   = 8192
	slotTimeout  = 2 * time.Second
	// warnInterval is the minimum time between two warnings about an issuer.
	warnInterval = time.Minute
)

// introspector introspects opaque tokens at their issuer (RFC 7662). It caches responses for a short time, and checks
// expiry and audience for every request.
type introspector struct {
	settings Introspection
	issuer   string
	tokens   accesstoken.TrustedTokens
	client   *fetch.Client
	now      func() time.Time
	warn     func(message string, err error)

	space   [sha256.Size]byte // hash of what responses depend on besides the token
	answers answerCache
	// waits deduplicates callers by token and source, questions deduplicates requests by token.
	waits, questions singleflight.Group

	queue       *fairqueue.Queue
	slotTimeout time.Duration
	wait        time.Duration // total time to wait for a response
	pause       atomic.Int64  // do not ask the issuer before this time, in Unix nanoseconds
	warned      atomic.Int64  // time of the last warning, in Unix nanoseconds

	failed atomic.Pointer[failedQuestion] // nil: the last introspection succeeded, or there was none
}

func newIntrospector(settings *Introspection, tokens accesstoken.TrustedTokens, c *fetch.Client, now func() time.Time) *introspector {
	i := &introspector{
		settings: *settings, issuer: tokens.Issuer, tokens: tokens, client: c, now: now, warn: func(string, error) {},
		answers: newAnswerCache(), queue: fairqueue.New(maxQuestions, maxWaiting), slotTimeout: slotTimeout, wait: fetch.DefaultTimeout,
	}
	if i.settings.CacheFor <= 0 {
		i.settings.CacheFor = defaultCacheFor
	}
	i.space = sha256.Sum256(fmt.Appendf(nil, "%q %q %q", tokens.Issuer, settings.Endpoint, settings.ClientID))
	return i
}

// key returns the cache key of a token. It differs between tokens, issuers, endpoints and clients.
func (i *introspector) key(token string) string {
	text := make([]byte, 0, 256)
	digest := sha256.Sum256(append(append(text, i.space[:]...), token...))
	return string(digest[:])
}

// verify returns the token if its issuer says that it is active, and it is valid now for one of the audiences. The error
// is an *oauth.Error: invalid_token, or temporarily_unavailable if the issuer does not answer.
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

// recall is verify for a token with a cached response. Otherwise it returns known false and a nil error.
func (i *introspector) recall(token string, audiences []string) (t *accesstoken.AccessToken, known bool, err error) {
	now := i.now()
	said, err := i.answers.get(i.key(token), now)
	if said == nil {
		return nil, err != nil, err
	}
	t, err = said.Verify(audiences, now)
	return t, true, err
}

// said returns the issuer's statement about the token. Concurrent callers share one request, which continues when a
// client disconnects. A caller waits in the queue only with callers of its own source; otherwise a flooding source could
// delay a token that others also use.
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
	flight := i.waits.DoChan(key+source, func() (any, error) { return i.find(key, token, source) })
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

// find waits for the source's turn in the queue and then asks.
func (i *introspector) find(key string, token, source string) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), i.slotTimeout)
	defer cancel()
	leave, err := i.queue.Enter(ctx, fairqueue.Share{Name: source, Most: maxQuestions / 2})
	if err != nil {
		return nil, oauth.ErrIntrospectionBusy.WithCause(err).WithRetryAfter(failurePause)
	}
	defer leave()
	said, err, _ := i.questions.Do(key, func() (any, error) { return i.question(key, token) })
	return said, err
}

// question asks the issuer, unless a response or a pause has arrived in the meantime.
func (i *introspector) question(key string, token string) (*accesstoken.Introspected, error) {
	if said, err := i.answers.get(key, i.now()); said != nil || err != nil {
		return said, err
	}
	if err := i.paused(); err != nil {
		return nil, err
	}
	at := i.now()
	var said *accesstoken.Introspected
	var err error
	panicked := fetch.Guard(func() error {
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

// ask sends the introspection request (RFC 7662 §2.1). It authenticates as in RFC 6749 §2.3.1, with id and secret
// form-encoded.
func (i *introspector) ask(token string, at time.Time) (*accesstoken.Introspected, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	ctx := context.Background() // i.client has its own timeout
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, i.settings.Endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, failure{err, true}
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Authorization", "Basic "+i.credentials())
	answer, err := i.client.Do(request)
	switch {
	case err != nil:
		return nil, failure{err, isGeneral(err)}
	case answer.Status != http.StatusOK:
		return nil, failure{fmt.Errorf("the introspection endpoint answered with status %d", answer.Status), pausing[answer.Status]}
	}
	said, err := accesstoken.ParseIntrospection(answer.Body, i.tokens)
	if err == nil {
		err = said.CheckExpiry(at)
	}
	return said, err
}

// pausing lists statuses that do not depend on the token: our credentials are wrong, we ask too often, or a proxy does
// not reach the issuer. Any other status must not pause: somebody who knows a token that makes the issuer fail could have
// all tokens refused. A web application firewall answers 403 to what looks like an attack.
var pausing = map[int]bool{
	http.StatusUnauthorized: true, http.StatusTooManyRequests: true,
	http.StatusBadGateway: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true,
}

// isGeneral reports whether the issuer is unreachable or too slow, as it would be for any token. A closed connection or a
// malformed response may be due to the token, and costs little time.
func isGeneral(err error) bool {
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// failure is an introspection without a usable response. General: it would have failed with any token.
type failure struct {
	error
	general bool
}

// refuse decides and caches the error for a token that is not active. After a failure it pauses the issuer, or at least
// this token, and warns the operator.
func (i *introspector) refuse(key string, token string, at time.Time, err error) error {
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

// unavailable returns the error with Retry-After.
func unavailable(reason string, cause error) *oauth.Error {
	e := oauth.NewError(oauth.TemporarilyUnavailable, reason).WithCause(cause)
	e.RetryAfter = failurePause
	return e
}

// paused returns an error while the issuer must not be asked. It ignores a pause from before the clock was set back.
func (i *introspector) paused() error {
	left := time.Unix(0, i.pause.Load()).Sub(i.now())
	if left <= 0 || left > failurePause {
		return nil
	}
	return unavailable("introspection_paused", nil)
}

// tell warns the operator, at most once in warnInterval.
func (i *introspector) tell(err error) {
	now, last := i.now(), i.warned.Load()
	since := now.Sub(time.Unix(0, last))
	if last != 0 && 0 <= since && since < warnInterval || !i.warned.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	i.warn("a trusted issuer does not answer questions about tokens", err)
}

// withoutSecrets removes the token and our secret from an error.
func (i *introspector) withoutSecrets(err error, token string) error {
	return fetch.WithoutSecrets(err, oauth.NewSecret(token), i.settings.ClientSecret, oauth.NewSecret(i.credentials()))
}

// credentials returns the credentials for HTTP Basic authentication.
func (i *introspector) credentials() string {
	pair := url.QueryEscape(i.settings.ClientID) + ":" + url.QueryEscape(i.settings.ClientSecret.Reveal())
	return base64.StdEncoding.EncodeToString([]byte(pair))
}
