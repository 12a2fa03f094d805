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
	// storeTimeout bounds each question and step.
	storeTimeout = 5 * time.Second
	// page is how many logouts are read at a time.
	page = 100

	// maxDeliveries is how many deliveries run at a time, and maxPerHost how many of them to one host: one that is slow holds up its
	// own alone.
	maxDeliveries = 64
	maxPerHost    = 4
	// waitPerLogout is how long a logout waits for each one before it that waits for the same host.
	waitPerLogout = deliveryTimeout / maxPerHost

	// claim is for how long a node has a logout for itself: longer than a delivery takes.
	claim = 30 * time.Second

	// firstRetry doubles with each attempt, to maxRetry at most. No attempt begins later than giveUpAfter after the session has
	// ended, but for the first.
	firstRetry  = 5 * time.Second
	maxRetry    = 10 * time.Minute
	giveUpAfter = time.Hour
)

// Outcome is what an attempt to tell an application came to.
type Outcome string

// The outcomes.
const (
	Delivered Outcome = "delivered"
	// Refused is a 400: the application does not take the token.
	Refused Outcome = "refused"
	// Failed is to be tried again, GivenUp is not.
	Failed  Outcome = "failed"
	GivenUp Outcome = "given_up"
	// Dropped says that there is nobody to tell: the client was removed, disabled, or wants to be told no more.
	Dropped Outcome = "dropped"
)

// Result is what became of a logout that was due. It holds no credential.
type Result struct {
	// Logout counts the attempts, this one included.
	Logout  store.Logout
	Outcome Outcome
	// Host is that of the application; empty: it was not looked for.
	Host string
	// Status is that of the answer; 0: there was none.
	Status int
	// Err is why it was not delivered.
	Err error
}

// Settings are what a Worker needs. Every member must be set but AllowPrivateNetwork.
type Settings struct {
	Store store.LogoutStore
	// Clients is asked for a client's URI at each delivery.
	Clients store.ClientDirectory
	Issuer  string
	Keys    *keys.Set
	// Now is the store's time.
	Now func() time.Time
	// AllowPrivateNetwork allows loopback, private and link-local addresses, and plain http on loopback.
	AllowPrivateNetwork bool
	// Report is called with each result, by any goroutine.
	Report func(Result)
	// StoreFailed is called with an error of the store. What it concerns stays due.
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

// NewWorker returns a worker. Run lets it work.
func NewWorker(settings Settings) *Worker {
	return &Worker{
		Settings: settings, clients: newClients(settings.AllowPrivateNetwork),
		freed: make(chan struct{}, 1), perHost: make(map[string]int),
	}
}

// Run delivers what is due until ctx ends. Then it breaks off what is under way, which another worker may take at once.
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

// deliverDue begins to deliver all that is due, as far as there is room for it.
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

// begin takes a logout and delivers it beside the caller, or puts it off while its host is busy. It reports whether there may be room
// for another.
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

// receiver returns a client and where it is told; no target when nobody is to be told.
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

// take takes a place for a delivery to the host. Full: there is none for any host.
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

// free gives the place back.
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

// stored reports whether the store did what it was asked for, or another node was first.
func (w *Worker) stored(err error) bool {
	if err == nil || errors.Is(err, store.ErrNotFound) {
		return true
	}
	if !errors.Is(err, context.Canceled) {
		w.StoreFailed(err)
	}
	return false
}

// deliver makes one attempt with a logout that this node has for itself, and notes in the store what it came to.
func (w *Worker) deliver(ctx context.Context, logout store.Logout, client *store.Client, target *url.URL) {
	result := Result{Logout: logout, Outcome: Delivered, Host: target.Host}
	token, err := w.token(logout, client)
	if err == nil {
		result.Status, err = w.post(ctx, client, target, token)
	}
	// What was begun is noted, also when the worker is to end.
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

// pause is the time after a failed attempt, of which it was the n-th.
func pause(n int) time.Duration {
	wait := firstRetry
	for range n - 1 {
		if wait *= 2; wait >= maxRetry {
			return maxRetry
		}
	}
	return wait
}
