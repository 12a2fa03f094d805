package backchannel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/trust"
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
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	form := url.Values{"logout_token": {token.Reveal()}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), strings.NewReader(form))
	if err != nil {
		return 0, withoutURL(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("User-Agent", trust.UserAgent)
	response, err := w.clientFor(application, target).Do(request)
	if err != nil {
		return 0, withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer) // so that the connection can be used again
	switch response.StatusCode {
	case http.StatusOK, http.StatusNoContent:
		return response.StatusCode, nil
	case http.StatusBadRequest:
		return response.StatusCode, errRefused
	}
	return response.StatusCode, fmt.Errorf("the application answered with status %d", response.StatusCode)
}

// withoutURL takes the URL out of an error.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// clients are the HTTP clients, by which addresses they reach.
type clients struct{ named, loopback, internet *http.Client }

// newClients returns clients for private networks, or for the internet alone.
func newClients(privateNetwork bool) clients {
	reach := trust.Internet
	if privateNetwork {
		reach = trust.PrivateNetwork
	}
	return clients{named: newClient(reach), loopback: newClient(trust.Loopback), internet: newClient(trust.Internet)}
}

func newClient(reach trust.Reach) *http.Client {
	return &http.Client{
		Transport:     trust.NewTransport(reach),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// clientFor returns the client that may call a URL of an application. One that names loopback by its own name may call that, because the
// operator who registered it meant this machine; one whose host only resolves to it may not. An application that made itself known reaches
// the internet alone.
func (w *Worker) clientFor(application *store.Client, target *url.URL) *http.Client {
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
