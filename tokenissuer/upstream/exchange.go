package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/oauth2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// maxAtOnce bounds concurrent sign-ins that talk to one provider. A slow provider occupies at most that many requests for some seconds.
const maxAtOnce = 64

// channel calls the endpoints of one provider.
type channel struct {
	client *fetch.Client
	http   *http.Client
	turns  chan struct{}
}

func newChannel(allowPrivateNetwork bool) *channel {
	c := &channel{client: fetch.NewClient(fetch.Limits{Reach: fetch.ReachOf(allowPrivateNetwork)}), turns: make(chan struct{}, maxAtOnce)}
	c.http = &http.Client{Transport: strictAnswers{c.client}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	return c
}

// enter acquires a slot, or fails at once.
func (c *channel) enter() (leave func(), err error) {
	select {
	case c.turns <- struct{}{}:
		return func() { <-c.turns }, nil
	default:
		return nil, ErrUnavailable.WithCause(fmt.Errorf("%d sign-ins wait for the provider already", maxAtOnce))
	}
}

// strictAnswers is an http.RoundTripper for the libraries that call the provider. Responses must be complete, bounded and unencoded, and
// JSON must not have duplicate members, because the libraries would use the last one.
type strictAnswers struct{ client *fetch.Client }

// RoundTrip sends one request.
func (s strictAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.client.Do(r)
	if r.Body != nil {
		_ = r.Body.Close()
	}
	if err != nil {
		return nil, err
	}
	if start := bytes.TrimLeft(answer.Body, " \t\r\n"); len(start) > 0 && (start[0] == '{' || start[0] == '[') && !jsontext.Value(answer.Body).IsValid() {
		return nil, fmt.Errorf("%s answered with JSON that is malformed or has a member twice", r.URL.Redacted())
	}
	return &http.Response{
		Status: http.StatusText(answer.Status), StatusCode: answer.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: answer.Header,
		Request: r, Body: io.NopCloser(bytes.NewReader(answer.Body)), ContentLength: int64(len(answer.Body)),
	}, nil
}

// redeem exchanges a code for tokens (RFC 6749 §4.1.3) with the PKCE verifier.
func (c *channel) redeem(ctx context.Context, config oauth2.Config, flow Flow, code oauth.Secret) (*oauth2.Token, error) {
	tokens, err := config.Exchange(oidc.ClientContext(ctx, c.http), code.Reveal(), oauth2.VerifierOption(flow.Verifier.Reveal()))
	if err != nil {
		return nil, refusal(err, code, flow.Verifier, oauth.NewSecret(config.ClientSecret), basic(config))
	}
	return tokens, nil
}

// basic returns the credentials in the Authorization header of a request to the token endpoint (RFC 6749 §2.3.1).
func basic(config oauth2.Config) oauth.Secret {
	return oauth.NewSecret(base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(config.ClientID) + ":" + url.QueryEscape(config.ClientSecret))))
}

// get fetches a document with an access token.
func (c *channel) get(ctx context.Context, address string, accessToken oauth.Secret) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, misconfigured("%w", err)
	}
	request.Header.Set("Authorization", "Bearer "+accessToken.Reveal())
	answer, err := c.client.Do(request)
	switch {
	case err != nil:
		return nil, unavailable(withoutSecrets(err, []oauth.Secret{accessToken}))
	case answer.Status >= 500, answer.Status == http.StatusTooManyRequests:
		return nil, ErrUnavailable.WithCause(fmt.Errorf("%s answered with status %d", address, answer.Status))
	case answer.Status != http.StatusOK:
		return nil, misconfigured("%s answered with status %d", address, answer.Status)
	}
	return answer.Body, nil
}
