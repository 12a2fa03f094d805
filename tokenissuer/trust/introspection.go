package trust

import (
	"cmp"
	"context"
	"errors"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
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
	endpoint endpoint
	now      func() time.Time
	answers  answerCache
	// waits deduplicates callers by token and source, questions deduplicates requests by token.
	waits, questions singleflight.Group

	queue       *fairqueue.Queue
	slotTimeout time.Duration
	wait        time.Duration // total time to wait for a response
	outage      outage
}

func newIntrospector(settings *Introspection, tokens token.TrustedTokens, c *fetch.Client, options fetch.Options) *introspector {
	i := &introspector{
		endpoint: endpoint{Introspection: *settings, tokens: tokens, client: c}, now: options.Now, outage: outage{warn: options.Warn},
		answers: newAnswerCache(), queue: fairqueue.New(maxQuestions, maxWaiting), slotTimeout: slotTimeout, wait: fetch.DefaultTimeout,
	}
	if i.endpoint.CacheFor <= 0 {
		i.endpoint.CacheFor = defaultCacheFor
	}
	return i
}

// verify returns the token if its issuer says that it is active, and it is valid now for one of the audiences. The error
// is an *oauth.Error: invalid_token, or temporarily_unavailable if the issuer does not answer.
func (i *introspector) verify(ctx context.Context, tok string, audiences []string, source string) (*token.AccessToken, error) {
	if len(tok) > token.MaxTokenBytes || !oauth.IsB64Token(tok) {
		return nil, oauth.NewError(oauth.InvalidToken, "token_malformed")
	}
	said, err := i.said(ctx, tok, source)
	if err != nil {
		return nil, err
	}
	return said.Verify(audiences, i.now())
}

// recall is verify for a token with a cached response. Otherwise it returns known false and a nil error.
func (i *introspector) recall(tok string, audiences []string) (t *token.AccessToken, known bool, err error) {
	now := i.now()
	said, err := i.answers.get(i.endpoint.key(tok), now)
	if said == nil {
		return nil, err != nil, err
	}
	t, err = said.Verify(audiences, now)
	return t, true, err
}

// said returns the issuer's statement about the token. Concurrent callers share one request, which continues when a
// client disconnects. A caller waits in the queue only with callers of its own source; otherwise a flooding source could
// delay a token that others also use.
func (i *introspector) said(ctx context.Context, tok, source string) (*token.Introspected, error) {
	key := i.endpoint.key(tok)
	if said, err := i.answers.get(key, i.now()); said != nil || err != nil {
		return said, err
	}
	if err := i.outage.paused(i.now()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, i.wait)
	defer cancel()
	flight := i.waits.DoChan(key+source, func() (any, error) { return i.find(key, tok, source) })
	select {
	case answer := <-flight:
		if answer.Err != nil {
			return nil, answer.Err
		}
		return answer.Val.(*token.Introspected), nil
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
func (i *introspector) question(key string, tok string) (*token.Introspected, error) {
	if said, err := i.answers.get(key, i.now()); said != nil || err != nil {
		return said, err
	}
	if err := i.outage.paused(i.now()); err != nil {
		return nil, err
	}
	at := i.now()
	var said *token.Introspected
	var err error
	panicked := fetch.Guard(func() error {
		said, err = i.endpoint.ask(tok, at)
		return nil
	})
	if err = cmp.Or(panicked, err); err != nil {
		return nil, i.refuse(key, tok, at, err)
	}
	i.outage.over()
	i.answers.put(key, said, at, i.endpoint.CacheFor)
	return said, nil
}

// refuse decides and caches the error for a token that is not active. After a failure it pauses the issuer, or at least
// this token, and warns the operator.
func (i *introspector) refuse(key string, token string, at time.Time, err error) error {
	e, judged := errors.AsType[*oauth.Error](err)
	if judged && e.Code == oauth.InvalidToken {
		i.outage.over()
		i.answers.putRefusal(key, e, at, min(i.endpoint.CacheFor, maxRefusal))
		return e
	}
	reason, cause := "introspection_failed", err
	if judged {
		reason, cause = e.Reason, errors.Unwrap(e)
	}
	e = unavailable(reason, i.endpoint.withoutSecrets(cause, token))
	ended := i.now()
	failed, ok := errors.AsType[failure](err)
	i.outage.note(ended, e, ok && failed.general)
	i.answers.putRefusal(key, e, ended, failurePause)
	return e
}
