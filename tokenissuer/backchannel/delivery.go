package backchannel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// deliveryTimeout bounds a delivery, from the look-up of the host to the end of the answer.
	deliveryTimeout = 5 * time.Second
	// maxAnswer is how much is read of an answer, in bytes. It says nothing beyond its status.
	maxAnswer = 64 << 10
)

// errRefused says that the application has judged the logout token, and will judge it so again (§2.8).
var errRefused = errors.New("the application refuses the logout token")

// post sends the logout token to the application (§2.5). It follows no redirect. The error is without the URL, whose query may hold
// what is not for a log.
func (w *Worker) post(ctx context.Context, application *store.Client, target *url.URL, token oauth.Secret) (status int, err error) {
	form := url.Values{"logout_token": {token.Reveal()}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), strings.NewReader(form))
	if err != nil {
		return 0, errors.New("the URL of the application cannot be called")
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := w.clientFor(application, target).Do(request)
	if err != nil {
		return 0, err
	}
	switch answer.Status {
	case http.StatusOK, http.StatusNoContent:
		return answer.Status, nil
	case http.StatusBadRequest:
		return answer.Status, errRefused
	}
	return answer.Status, fmt.Errorf("the application answered with status %d", answer.Status)
}

// clients are the HTTP clients, by which addresses they reach.
type clients struct{ named, loopback, internet *fetch.Client }

// newClients returns clients for private networks, or for the internet alone.
func newClients(privateNetwork bool) clients {
	return clients{named: newClient(fetch.ReachOf(privateNetwork)), loopback: newClient(fetch.Loopback), internet: newClient(fetch.Internet)}
}

func newClient(reach fetch.Reach) *fetch.Client {
	return fetch.NewClient(fetch.Limits{Reach: reach, Timeout: deliveryTimeout, MaxBytes: maxAnswer, StatusOnly: true})
}

// clientFor returns the client that may call a URL of an application. One that names loopback by its own name may call that, because the
// operator who registered it meant this machine; one whose host only resolves to it may not. An application that made itself known reaches
// the internet alone.
func (w *Worker) clientFor(application *store.Client, target *url.URL) *fetch.Client {
	switch {
	case application.Origin != store.FromOperator:
		return w.clients.internet
	case oauth.IsLoopback(target.Hostname()):
		return w.clients.loopback
	}
	return w.clients.named
}

// close closes idle connections.
func (c clients) close() {
	c.named.CloseIdleConnections()
	c.loopback.CloseIdleConnections()
	c.internet.CloseIdleConnections()
}
