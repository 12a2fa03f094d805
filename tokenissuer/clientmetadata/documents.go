package clientmetadata

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/gatehouse-auth/gatehouse/internal/fairqueue"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// maxFetches bounds the fetches that are under way; a host has one of them, and one source of requests a quarter at most. As many as
	// maxWaiting wait for at most waitTimeout.
	maxFetches  = 32
	maxWaiting  = 1024
	waitTimeout = 5 * time.Second
	// maxGoodBytes and maxBadBytes bound what is remembered: of documents that can be used, and of URLs that have none.
	maxGoodBytes = 8 << 20
	maxBadBytes  = 1 << 20
	// refusedFor is how long a URL is not asked again that has no good document, and awayFor one whose host did not answer.
	refusedFor = time.Minute
	awayFor    = 10 * time.Second
)

// Settings are which documents may be read.
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

// Documents reads client id metadata documents and remembers them. It is safe for concurrent use.
type Documents struct {
	settings  Settings
	fetcher   *fetcher
	queue     *fairqueue.Queue
	allowance allowance
	good      *otter.Cache[string, *read]
	bad       *otter.Cache[string, *refused]
}

// read is a document that could be used: of a client, or its keys.
type read struct {
	client            *store.Client
	keys              *keys.PublishedSet
	weight            uint32
	at                time.Time
	freshAt, staleEnd time.Time // until when it is used without asking, and while its host is away
}

// refused is why a URL has no document.
type refused struct {
	err   *oauth.Error
	until time.Time
}

// entryWeight is what an entry takes beside its texts, in bytes.
const entryWeight = 1 << 10

// New returns Documents that remember nothing yet.
func New(settings Settings) *Documents {
	return &Documents{
		settings: settings, fetcher: newFetcher(settings.AllowPrivateNetwork), queue: fairqueue.New(maxFetches, maxWaiting),
		good: otter.Must(&otter.Options[string, *read]{
			MaximumWeight: maxGoodBytes, Weigher: func(_ string, r *read) uint32 { return r.weight },
		}),
		bad: otter.Must(&otter.Options[string, *refused]{
			MaximumWeight: maxBadBytes, Weigher: func(string, *refused) uint32 { return entryWeight },
		}),
	}
}

// Close closes idle connections.
func (d *Documents) Close() { d.fetcher.transport.CloseIdleConnections() }

// Client returns the client that the document at a URL describes; nobody changes it. Source is where the request comes from, of which no
// one gets more than its share of the fetches. Known: a user has let the client in. The error is an *oauth.Error: invalid_request for a URL
// without a document that can be used, whose description says why, and temporarily_unavailable when nobody knows.
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

// question is a document that somebody wants.
type question struct {
	url, host, source string
	known             bool      // it is no stranger's
	keys              bool      // the document is a JWK Set, and not a client's
	after             time.Time // it must have been read later than this
}

// name is what the answer is remembered by: the same URL may be that of a client and of keys.
func (q *question) name() string {
	if q.keys {
		return "keys " + q.url
	}
	return q.url
}

// isAnsweredBy reports whether what was read will do.
func (q *question) isAnsweredBy(r *read) bool { return r.at.After(q.after) }

// find returns a document that is remembered, else it waits for its turn to fetch it.
func (d *Documents) find(ctx context.Context, q *question) (*read, error) {
	if known, err := d.recall(q); known != nil || err != nil {
		return known, err
	}
	waiting, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	leave, err := d.queue.Enter(waiting, fairqueue.Share{Name: "source " + q.source, Most: maxFetches / 4}, fairqueue.Share{Name: "host " + q.host, Most: 1})
	if err != nil {
		return d.stale(q, oauth.Unavailable(oauth.ReasonDocumentBusy, err))
	}
	defer leave()
	if known, err := d.recall(q); known != nil || err != nil { // somebody else has asked
		return known, err
	}
	if _, remembered := d.good.GetIfPresent(q.name()); remembered {
		q.known = true
	}
	if retry, ok := d.allowance.take(d.settings.Now(), counted(q)...); !ok {
		throttled := oauth.Unavailable(oauth.ReasonDocumentThrottled, errors.New("too many documents were fetched within a minute"))
		throttled.RetryAfter = retry
		return d.stale(q, throttled)
	}
	// A client that goes away has its document read all the same: the next one will ask for it.
	return d.fetch(context.WithoutCancel(ctx), q)
}

// recall returns what is known without asking; nil, nil: nothing.
func (d *Documents) recall(q *question) (*read, error) {
	now := d.settings.Now()
	if r, ok := d.bad.GetIfPresent(q.name()); ok && now.Before(r.until) {
		if r.err.Code == oauth.TemporarilyUnavailable {
			return d.stale(q, r.err)
		}
		return nil, r.err
	}
	if r, ok := d.good.GetIfPresent(q.name()); ok && now.Before(r.freshAt) && q.isAnsweredBy(r) {
		return r, nil
	}
	return nil, nil
}

// stale returns what was known of a document whose host cannot be asked, else why it cannot.
func (d *Documents) stale(q *question, reason *oauth.Error) (*read, error) {
	if r, ok := d.good.GetIfPresent(q.name()); ok && d.settings.Now().Before(r.staleEnd) && q.isAnsweredBy(r) {
		return r, nil
	}
	return nil, reason
}

// fetch asks for the document and remembers what comes of it.
func (d *Documents) fetch(ctx context.Context, q *question) (*read, error) {
	header, body, err := d.fetcher.get(ctx, q.url)
	now := d.settings.Now()
	got := &read{at: now, weight: uint32(entryWeight + 2*len(body))} //nolint:gosec // at most maxDocument
	switch {
	case err != nil:
	case q.keys:
		got.keys, err = assertion.ParseSet(string(body))
	default:
		got.client, err = d.parse(q.url, body)
	}
	switch {
	case errors.Is(err, errAway):
		away := oauth.Unavailable(oauth.ReasonDocumentAway, err)
		d.bad.Set(q.name(), &refused{away, now.Add(awayFor)})
		return d.stale(q, away)
	case err != nil:
		invalid := refusal("client_document_invalid", err)
		d.good.Invalidate(q.name())
		d.bad.Set(q.name(), &refused{invalid, now.Add(refusedFor)})
		return nil, invalid
	}
	got.freshAt = now.Add(freshness(header, now))
	got.staleEnd = got.freshAt.Add(staleFor)
	d.bad.Invalidate(q.name())
	d.good.Set(q.name(), got)
	return got, nil
}

// refusal is the error for a URL that has no document which can be used.
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
