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

// read is a document that could be used.
type read struct {
	client            *store.Client
	weight            uint32
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
// one gets more than its share of the fetches. The error is an *oauth.Error: invalid_request for a URL without a document that can be
// used, whose description says why, and temporarily_unavailable when nobody knows.
func (d *Documents) Client(ctx context.Context, id, source string) (*store.Client, error) {
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
	id = strings.Clone(id) // of the request, which a cache would keep
	if known, err := d.recall(id); known != nil || err != nil {
		return known, err
	}
	waiting, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	leave, err := d.queue.Enter(waiting, fairqueue.Share{Name: "source " + source, Most: maxFetches / 4}, fairqueue.Share{Name: "host " + u.Host, Most: 1})
	if err != nil {
		return d.stale(id, oauth.Unavailable(oauth.ReasonDocumentBusy, err))
	}
	defer leave()
	if known, err := d.recall(id); known != nil || err != nil { // somebody else has asked
		return known, err
	}
	if retry, ok := d.allowance.take(d.settings.Now(), "source "+source, "host "+u.Host); !ok {
		throttled := oauth.Unavailable(oauth.ReasonDocumentThrottled, errors.New("too many documents were fetched within a minute"))
		throttled.RetryAfter = retry
		return d.stale(id, throttled)
	}
	// A client that goes away has its document read all the same: the next one will ask for it.
	return d.fetch(context.WithoutCancel(ctx), id)
}

// recall returns what is known of a URL without asking; nil, nil: nothing.
func (d *Documents) recall(id string) (*store.Client, error) {
	now := d.settings.Now()
	if r, ok := d.bad.GetIfPresent(id); ok && now.Before(r.until) {
		if r.err.Code == oauth.TemporarilyUnavailable {
			return d.stale(id, r.err)
		}
		return nil, r.err
	}
	if r, ok := d.good.GetIfPresent(id); ok && now.Before(r.freshAt) {
		return r.client, nil
	}
	return nil, nil
}

// stale returns what was known of a URL whose host cannot be asked, else why it cannot.
func (d *Documents) stale(id string, reason *oauth.Error) (*store.Client, error) {
	if r, ok := d.good.GetIfPresent(id); ok && d.settings.Now().Before(r.staleEnd) {
		return r.client, nil
	}
	return nil, reason
}

// fetch asks for the document and remembers what comes of it.
func (d *Documents) fetch(ctx context.Context, id string) (*store.Client, error) {
	header, body, err := d.fetcher.get(ctx, id)
	now := d.settings.Now()
	var client *store.Client
	if err == nil {
		client, err = parse(id, body)
	}
	switch {
	case errors.Is(err, errAway):
		away := oauth.Unavailable(oauth.ReasonDocumentAway, err)
		d.bad.Set(id, &refused{away, now.Add(awayFor)})
		return d.stale(id, away)
	case err != nil:
		invalid := refusal("client_document_invalid", err)
		d.good.Invalidate(id)
		d.bad.Set(id, &refused{invalid, now.Add(refusedFor)})
		return nil, invalid
	}
	fresh := now.Add(freshness(header, now))
	d.bad.Invalidate(id)
	d.good.Set(id, &read{client, uint32(entryWeight + 2*len(body)), fresh, fresh.Add(staleFor)}) //nolint:gosec // at most maxDocument
	return client, nil
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
