package backchannel

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

const (
	// pollInterval is how often the store is asked for what is due.
	pollInterval = time.Second
	// storeTimeout bounds each call of the store.
	storeTimeout = 5 * time.Second
	// page is the number of logouts read at a time.
	page = 100

	// maxDeliveries is the number of concurrent deliveries, and maxPerHost that to one host, so that a slow host delays no other.
	maxDeliveries = 64
	maxPerHost    = 4
	// waitPerLogout is how long a logout waits for each earlier one of the same host.
	waitPerLogout = deliveryTimeout / maxPerHost

	// claim is how long a node holds a logout; it is longer than a delivery.
	claim = 30 * time.Second

	// firstRetry doubles with each attempt, to maxRetry at most. No attempt but the first begins later than giveUpAfter after the end of
	// the session.
	firstRetry  = 5 * time.Second
	maxRetry    = 10 * time.Minute
	giveUpAfter = time.Hour
)

// Outcome is the result of an attempt to deliver a logout.
type Outcome string

// The outcomes.
const (
	Delivered Outcome = "delivered"
	// Refused is a 400: the application rejects the token.
	Refused Outcome = "refused"
	// Failed is retried, GivenUp is not.
	Failed  Outcome = "failed"
	GivenUp Outcome = "given_up"
	// Dropped means that there is no receiver: the client was removed or disabled, or has no URI.
	Dropped Outcome = "dropped"
)

// Result describes an attempt. It contains no credential.
type Result struct {
	// Logout counts the attempts, this one included.
	Logout  store.Logout
	Outcome Outcome
	// Host is that of the application; empty: it was not determined.
	Host string
	// Status is that of the response; 0: there was none.
	Status int
	// Err is why the logout was not delivered.
	Err error
}

// Settings configure a Worker. All fields but AllowPrivateNetwork are required.
type Settings struct {
	Store store.LogoutStore
	// Clients provides a client's URI for each delivery.
	Clients store.ClientDirectory
	Issuer  string
	Keys    *keys.Set
	// Now is the store's time.
	Now func() time.Time
	// AllowPrivateNetwork allows loopback, private and link-local addresses, and plain http on loopback.
	AllowPrivateNetwork bool
	// Report is called with each result, by any goroutine.
	Report func(Result)
	// StoreFailed is called with an error of the store. The logouts concerned stay due.
	StoreFailed func(error)
}

// Worker delivers the logouts that are due.
type Worker struct {
	Settings

	clients clients
	freed   chan struct{} // has a value when a delivery has ended since

	deliveries sync.WaitGroup
	mu         sync.Mutex // guards what follows
	running    int
	perHost    map[string]int
}

// NewWorker returns a Worker. Start it with Run.
func NewWorker(settings Settings) *Worker {
	return &Worker{
		Settings: settings, clients: newClients(settings.AllowPrivateNetwork),
		freed: make(chan struct{}, 1), perHost: make(map[string]int),
	}
}

// Run delivers due logouts until ctx ends. It then cancels deliveries, which another worker may take over at once.
func (w *Worker) Run(ctx context.Context) {
	defer w.clients.close()
	defer w.deliveries.Wait()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		w.deliverDue(ctx)
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		case <-w.freed:
		}
	}
}

// deliverDue starts the deliveries that are due, up to maxDeliveries.
func (w *Worker) deliverDue(ctx context.Context) {
	waiting := make(map[string]time.Duration) // by host: for how long the next logout is put off
	for ctx.Err() == nil {
		due, err := w.due(ctx)
		if err != nil {
			if ctx.Err() == nil {
				w.StoreFailed(err)
			}
			return
		}
		for _, logout := range due {
			if goOn := w.begin(ctx, logout, waiting); !goOn {
				return
			}
		}
		if len(due) < page {
			return
		}
	}
}

func (w *Worker) due(ctx context.Context) ([]store.Logout, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return w.Store.DueLogouts(ctx, w.Now(), page)
}

// begin claims a logout and delivers it in the background, or postpones it while its host is busy. It reports whether another may begin.
func (w *Worker) begin(ctx context.Context, logout store.Logout, waiting map[string]time.Duration) (goOn bool) {
	step, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	client, target, err := w.receiver(step, logout.ClientID)
	switch {
	case err != nil:
		w.StoreFailed(err)
		return false
	case target == nil:
		if goOn = w.stored(w.Store.DropLogout(step, logout)); goOn {
			w.Report(Result{Logout: logout, Outcome: Dropped})
		}
		return goOn
	}
	host := target.Host
	taken, full := w.take(host)
	switch {
	case full:
		return false
	case !taken:
		waiting[host] = min(waiting[host]+waitPerLogout, maxRetry)
		return w.stored(w.Store.PostponeLogout(step, logout, w.Now().Add(waiting[host])))
	}
	until := w.Now().Add(claim)
	logout.Attempts++
	if err := w.Store.PostponeLogout(step, logout, until); err != nil {
		w.free(host)
		return w.stored(err)
	}
	logout.DueAt = until
	w.deliveries.Go(func() {
		defer w.free(host)
		w.deliver(ctx, logout, client, target)
	})
	return true
}

// receiver returns a client and its target, or no target if the logout is to be dropped.
func (w *Worker) receiver(ctx context.Context, clientID string) (*store.Client, *url.URL, error) {
	client, err := w.Clients.Client(ctx, clientID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case client.Disabled || client.BackchannelLogoutURI == "":
		return nil, nil, nil
	}
	target, err := url.Parse(client.BackchannelLogoutURI)
	if err != nil {
		return nil, nil, nil // validation lets none of them in
	}
	return client, target, nil
}

// take reserves a delivery to the host. Full: none is left for any host.
func (w *Worker) take(host string) (taken, full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.running == maxDeliveries:
		return false, true
	case w.perHost[host] == maxPerHost:
		return false, false
	}
	w.running++
	w.perHost[host]++
	return true, false
}

// free releases a reservation.
func (w *Worker) free(host string) {
	w.mu.Lock()
	w.running--
	if w.perHost[host]--; w.perHost[host] == 0 {
		delete(w.perHost, host)
	}
	w.mu.Unlock()
	select {
	case w.freed <- struct{}{}:
	default: // the worker has not looked since
	}
}

// stored reports whether the store took the step; if not, another node was faster.
func (w *Worker) stored(err error) bool {
	if err == nil || errors.Is(err, store.ErrNotFound) {
		return true
	}
	if !errors.Is(err, context.Canceled) {
		w.StoreFailed(err)
	}
	return false
}

// deliver makes one attempt with a logout that this node has claimed, and stores the outcome.
func (w *Worker) deliver(ctx context.Context, logout store.Logout, client *store.Client, target *url.URL) {
	result := Result{Logout: logout, Outcome: Delivered, Host: target.Host}
	token, err := w.token(logout, client)
	if err == nil {
		result.Status, err = w.post(ctx, client, target, token)
	}
	// The outcome is stored even if the worker is ending.
	step, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err != nil && ctx.Err() != nil {
		logout.Attempts--
		w.stored(w.Store.PostponeLogout(step, logout, w.Now()))
		return
	}
	next := w.Now().Add(pause(logout.Attempts))
	switch {
	case err == nil:
	case errors.Is(err, errRefused):
		result.Outcome = Refused
	case next.After(logout.EndedAt.Add(giveUpAfter)):
		result.Outcome = GivenUp
	default:
		result.Outcome = Failed
	}
	result.Err = err
	w.Report(result)
	if result.Outcome == Failed {
		w.stored(w.Store.PostponeLogout(step, logout, next))
		return
	}
	w.stored(w.Store.DropLogout(step, logout))
}

func (w *Worker) token(logout store.Logout, client *store.Client) (oauth.Secret, error) {
	now := w.Now()
	key, err := w.Keys.SigningWith(client.Algorithm(), now)
	if err != nil {
		return oauth.Secret{}, err
	}
	told := token.LogoutToken{Issuer: w.Issuer, ClientID: client.ID, Subject: logout.UserID, SessionID: logout.SessionID, IssuedAt: now}
	return told.Sign(key)
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
