package trust

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// endpoint is the introspection endpoint of an issuer.
type endpoint struct {
	Introspection
	tokens token.TrustedTokens
	client *fetch.Client
}

// key returns the cache key of a token. It differs between tokens, issuers, endpoints and clients.
func (n *endpoint) key(token string) string {
	text := fmt.Appendf(make([]byte, 0, 256), "%q %q %q ", n.tokens.Issuer, n.Endpoint, n.ClientID)
	digest := sha256.Sum256(append(text, token...))
	return string(digest[:])
}

// ask sends the introspection request (RFC 7662 §2.1). It authenticates as in RFC 6749 §2.3.1, with id and secret
// form-encoded.
func (n *endpoint) ask(tok string, at time.Time) (*token.Introspected, error) {
	form := url.Values{"token": {tok}, "token_type_hint": {"access_token"}}
	ctx := context.Background() // the client has its own timeout
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, failure{err, true}
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Authorization", "Basic "+n.credentials())
	answer, err := n.client.Do(request)
	switch {
	case err != nil:
		return nil, failure{err, isGeneral(err)}
	case answer.Status != http.StatusOK:
		return nil, failure{fmt.Errorf("the introspection endpoint answered with status %d", answer.Status), pausing[answer.Status]}
	}
	said, err := token.ParseIntrospection(answer.Body, n.tokens)
	if err == nil {
		err = said.CheckExpiry(at)
	}
	return said, err
}

// pausing lists statuses that do not depend on the token: our credentials are wrong, we ask too often, or a proxy does
// not reach the issuer. Any other status must not pause: a client with a token that makes the issuer fail could have all
// tokens refused. A web application firewall answers 403 to what looks like an attack.
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

// failure is an introspection without a usable response. general means that it would have failed with any token.
type failure struct {
	error
	general bool
}

// withoutSecrets removes the token and our secret from an error.
func (n *endpoint) withoutSecrets(err error, token string) error {
	return fetch.WithoutSecrets(err, oauth.NewSecret(token), n.ClientSecret, oauth.NewSecret(n.credentials()))
}

// credentials returns the credentials for HTTP Basic authentication.
func (n *endpoint) credentials() string {
	pair := url.QueryEscape(n.ClientID) + ":" + url.QueryEscape(n.ClientSecret.Reveal())
	return base64.StdEncoding.EncodeToString([]byte(pair))
}
