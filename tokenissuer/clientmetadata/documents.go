package clientmetadata

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// maxFetches bounds the fetches that are under way; a host has one of them, and one source of requests a quarter at most. As many as
	// maxWaiting wait for at most waitTimeout.
	maxFetches  = 32
	maxWaiting  = 1024
	waitTimeout = 5 * time.Second
	// maxGoodBytes and maxBadBytes bound the caches: of usable documents, and of URLs without one.
	maxGoodBytes = 8 << 20
	maxBadBytes  = 1 << 20
	// refusedFor is how long a URL without a usable document is not fetched again, and awayFor one whose host did not answer.
	refusedFor = time.Minute
	awayFor    = 10 * time.Second
	// maxDocument is the largest document in bytes, of a client or of its keys. A longer one is refused.
	maxDocument = 64 << 10
	// staleFor is how much longer a document is used while its host does not answer.
	staleFor = 24 * time.Hour
)

// freshness bounds how long a document is used without asking again, whatever its headers say.
var freshness = fetch.Freshness{Least: 5 * time.Minute, Most: 24 * time.Hour}

// Settings say which documents may be read.
type Settings struct {
	// Allow and Deny are host names, or patterns as *.example.com, which stands for every name below it. Without Allow every host is
	// allowed that is not denied.
	Allow, Deny []string
	// AllowPrivateNetwork allows loopback, private and link-local addresses, and plain http on loopback.
	AllowPrivateNetwork bool
	// OpenID: the issuer is an OpenID provider, and takes what documents say of that.
	OpenID bool
	// Now is the clock by which documents age.
	Now func() time.Time
}

// Documents reads and caches client id metadata documents. It is safe for concurrent use.
type Documents struct {
	settings  Settings
	fetcher   *fetch.Client
	keys      *fetch.KeySets
	queue     *fairqueue.Queue
	allowance allowance
	good      *cache.Cache[*read]
	bad       *cache.Cache[*oauth.Error] // why a URL has no document
}

// read is a usable document.
type read struct {
	client            *store.Client
	freshAt, staleEnd time.Time // until when it is used without asking, and while its host is away
}

// entryWeight is the memory of an entry besides its texts, in bytes.
const entryWeight = 1 << 10

// New returns Documents with an empty cache. It follows no redirects: the document would be that of another URL, which the client's owner did not
// choose. Connections are not kept open, because a host is seldom asked again soon.
func New(settings Settings) *Documents {
	limits := fetch.Limits{Reach: fetch.ReachOf(settings.AllowPrivateNetwork), MaxBytes: maxDocument, JSON: true, Once: true}
	return &Documents{
		settings: settings, fetcher: fetch.NewClient(limits), queue: fairqueue.New(maxFetches, maxWaiting),
		keys: fetch.NewKeySets(fetch.Source{MaxStale: staleFor, Life: freshness, Strict: true}, limits, fetch.Options{Now: settings.Now}),
		good: cache.New[*read](maxGoodBytes), bad: cache.New[*oauth.Error](maxBadBytes),
	}
}

// Close closes idle connections.
func (d *Documents) Close() {
	d.fetcher.CloseIdleConnections()
	d.keys.Close()
}

// Client returns the client that the document at a URL describes. The caller must not change it. Source is the origin of the request; each gets
// a bounded share of the fetches. Known: a user has admitted the client. The error is an *oauth.Error: invalid_request for a URL without a
// usable document, whose description says why, and temporarily_unavailable if that cannot be decided.
func (d *Documents) Client(ctx context.Context, id, source string, known bool) (*store.Client, error) {
	if err := oauth.CheckClientURL(id, d.settings.AllowPrivateNetwork); err != nil {
		return nil, refusal("client_url_invalid", err)
	}
	u, err := url.Parse(id)
	if err != nil {
		return nil, refusal("client_url_invalid", err)
	}
	if !d.settings.admits(u.Hostname()) {
		return nil, oauth.NewError(oauth.InvalidRequest, "client_host_denied").WithDescription("Clients of this host are not admitted here.")
	}
	r, err := d.find(ctx, &question{url: strings.Clone(id), host: u.Host, source: source, known: known}) // the id is of the request, which a cache would keep
	if err != nil {
		return nil, err
	}
	return r.client, nil
}

// question is a document that a request needs.
type question struct {
	url, host, source string
	known             bool // it is that of a client which a user has let in
}

// find returns a cached document, or waits for its turn to fetch it.
func (d *Documents) find(ctx context.Context, q *question) (*read, error) {
	if known, err := d.recall(q); known != nil || err != nil {
		return known, err
	}
	leave, err := d.enter(ctx, q)
	if err != nil {
		return d.stale(q, oauth.AsError(err))
	}
	defer leave()
	if known, err := d.recall(q); known != nil || err != nil { // another request has fetched it
		return known, err
	}
	if _, remembered := d.good.Get(q.url); remembered {
		q.known = true
	}
	if err := d.begin(q); err != nil {
		return d.stale(q, oauth.AsError(err))
	}
	// The fetch continues if the client disconnects, because another may need the document.
	return d.fetch(context.WithoutCancel(ctx), q)
}

// enter waits for a turn to fetch.
func (d *Documents) enter(ctx context.Context, q *question) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	leave, err = d.queue.Enter(ctx, fairqueue.Share{Name: "source " + q.source, Most: maxFetches / 4}, fairqueue.Share{Name: "host " + q.host, Most: 1})
	if err != nil {
		return nil, oauth.ErrDocumentBusy.WithCause(err)
	}
	return leave, nil
}

// begin counts a fetch, or refuses it.
func (d *Documents) begin(q *question) error {
	retry, ok := d.allowance.take(d.settings.Now(), counted(q)...)
	if ok {
		return nil
	}
	return oauth.ErrDocumentThrottled.WithCause(errors.New("too many documents were fetched within a minute")).WithRetryAfter(retry)
}

// recall returns the cached document or error, or two nils.
func (d *Documents) recall(q *question) (*read, error) {
	now := d.settings.Now()
	if refused, ok := d.bad.GetAt(q.url, now); ok {
		if refused.Code == oauth.TemporarilyUnavailable {
			return d.stale(q, refused)
		}
		return nil, refused
	}
	if r, ok := d.good.Get(q.url); ok && now.Before(r.freshAt) {
		return r, nil
	}
	return nil, nil
}

// stale returns the cached document of a host that cannot be asked, else the reason.
func (d *Documents) stale(q *question, reason *oauth.Error) (*read, error) {
	if r, ok := d.good.Get(q.url); ok && d.settings.Now().Before(r.staleEnd) {
		return r, nil
	}
	return nil, reason
}

// fetch fetches the document and caches the result.
func (d *Documents) fetch(ctx context.Context, q *question) (*read, error) {
	answer, err := d.fetcher.Get(ctx, q.url, "application/json")
	now := d.settings.Now()
	got := new(read)
	if err == nil {
		got.client, err = d.parse(q.url, answer.Body)
	}
	switch {
	case errors.Is(err, fetch.ErrAway):
		away := oauth.ErrDocumentAway.WithCause(err)
		d.bad.PutFor(q.url, away, entryWeight, now, now.Add(awayFor))
		return d.stale(q, away)
	case err != nil:
		invalid := refusal("client_document_invalid", err)
		d.good.Forget(q.url)
		d.bad.PutFor(q.url, invalid, entryWeight, now, now.Add(refusedFor))
		return nil, invalid
	}
	got.freshAt = now.Add(freshness.Of(answer.Header, now))
	got.staleEnd = got.freshAt.Add(staleFor)
	d.bad.Forget(q.url)
	d.good.Put(q.url, got, uint64(entryWeight+2*len(answer.Body)))
	return got, nil
}

// refusal returns the error for a URL without a usable document.
func refusal(reason string, err error) *oauth.Error {
	description := oauth.Describable(fmt.Sprintf("The client_id leads to no client metadata: %v.", err))
	return oauth.NewError(oauth.InvalidRequest, reason).WithDescription(description).WithCause(err)
}

// admits reports whether documents of a host may be read.
func (s *Settings) admits(host string) bool {
	matches := func(pattern string) bool {
		if below, wild := strings.CutPrefix(pattern, "*."); wild {
			return strings.HasSuffix(host, "."+below)
		}
		return pattern == host
	}
	for _, pattern := range s.Deny {
		if matches(pattern) {
			return false
		}
	}
	for _, pattern := range s.Allow {
		if matches(pattern) {
			return true
		}
	}
	return len(s.Allow) == 0
}
