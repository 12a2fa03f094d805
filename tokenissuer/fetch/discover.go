package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// placeLife is how long discovered metadata is used.
const placeLife = time.Hour

// place is the discovered URL of the keys.
type place struct {
	uri      string
	metadata []byte // the document that names it; nil: it was configured
	foundAt  time.Time
}

// server reads what a source publishes. Its methods that fetch are not safe for concurrent use.
type server struct {
	source Source
	client *Client
	place  place
}

// metadata holds the metadata members that we use (RFC 8414 §2, OpenID Connect Discovery §3). Names are case-sensitive;
// duplicates are an error.
type metadata struct {
	Issuer  string `json:"issuer"`
	JWKSURI string `json:"jwks_uri"`
}

// locate returns the URL of the keys: the configured one, or the one in the issuer's metadata.
func (s *server) locate(ctx context.Context, now time.Time) (place, error) {
	if s.source.JWKSURI != "" {
		return place{uri: s.source.JWKSURI}, nil
	}
	if age := now.Sub(s.place.foundAt); s.place.uri != "" && age >= 0 && age < placeLife {
		return s.place, nil
	}
	found, err := s.discover(ctx)
	if err != nil {
		return place{}, err
	}
	found.foundAt = now
	s.place = found
	return found, nil
}

// discover requests the metadata at both well-known URLs concurrently: an issuer that has it at one may be slow to answer
// at the other.
func (s *server) discover(ctx context.Context) (place, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	places, err := metadataPlaces(s.source.Issuer)
	if err != nil {
		return place{}, err
	}
	if s.source.OpenID != nil {
		places = places[1:]
	}
	type answer struct {
		document []byte
		err      error
	}
	answers := make(chan answer, len(places))
	for _, address := range places {
		go func() {
			var got answer
			got.document, got.err = s.getMetadata(ctx, address)
			answers <- got
		}()
	}
	var failed []error
	for range places {
		got := <-answers
		var uri string
		if got.err == nil {
			uri, got.err = s.readMetadata(got.document)
		}
		if got.err == nil {
			return place{uri: uri, metadata: got.document}, nil
		}
		failed = append(failed, got.err)
	}
	return place{}, fmt.Errorf("discovery: %w", errors.Join(failed...))
}

// getMetadata fetches the metadata at a well-known URL.
func (s *server) getMetadata(ctx context.Context, address string) ([]byte, error) {
	answer, err := s.client.Get(ctx, address, "application/json")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return answer.Body, nil
}

// metadataPlaces returns the well-known URLs of an issuer: RFC 8414 §3.1 inserts the name before the path, OpenID Connect
// Discovery §4 appends it. Both drop a trailing slash.
func metadataPlaces(issuer string) ([]string, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil, err
	}
	origin := u.Scheme + "://" + u.Host
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	return []string{
		origin + "/.well-known/oauth-authorization-server" + path,
		origin + path + "/.well-known/openid-configuration",
	}, nil
}

// readMetadata returns the jwks_uri of metadata that names the issuer (RFC 8414 §3.3).
func (s *server) readMetadata(document []byte) (string, error) {
	var m metadata
	if err := strictjson.Object(document, &m); err != nil {
		return "", fmt.Errorf("the metadata is malformed: %w", err)
	}
	if m.Issuer != s.source.Issuer {
		return "", fmt.Errorf("the metadata is that of issuer %q, not of %q", m.Issuer, s.source.Issuer)
	}
	if m.JWKSURI == "" {
		return "", errors.New("the metadata has no jwks_uri")
	}
	if err := s.checkPlace(m.JWKSURI); err != nil {
		return "", err
	}
	if s.source.OpenID != nil {
		return m.JWKSURI, s.source.OpenID(document)
	}
	return m.JWKSURI, nil
}

// checkPlace refuses keys from any URL but the configured one or, without one, from another origin than the issuer's:
// an attacker who can change the metadata could otherwise supply other keys. For an OpenID provider the keys may be
// elsewhere: its metadata names the endpoints too, so that such an attacker needs no keys.
func (s *server) checkPlace(uri string) error {
	if s.source.JWKSURI != "" {
		if uri != s.source.JWKSURI {
			return fmt.Errorf("its keys are from %s, not from %s", uri, s.source.JWKSURI)
		}
		return nil
	}
	keys, err := s.client.guard.parseURL(uri)
	if err != nil {
		return fmt.Errorf("jwks_uri: %w", err)
	}
	if s.source.OpenID != nil {
		return nil
	}
	issuer, err := s.client.guard.parseURL(s.source.Issuer)
	if err != nil {
		return err
	}
	if originOf(keys) != originOf(issuer) {
		return fmt.Errorf("its keys are at %s, which is not the issuer's host: if that is right, set jwks_uri %s", originOf(keys), uri)
	}
	return nil
}

// ask locates and downloads the keys.
func (s *server) ask(ctx context.Context, now func() time.Time) (*keySet, time.Duration, error) {
	before := s.place
	found, err := s.locate(ctx, now())
	if err != nil {
		return nil, 0, err
	}
	at := now()
	set, header, err := s.download(ctx, found.uri, at)
	if err == nil {
		if s.source.OpenID != nil {
			set.metadata = found.metadata
		}
		return set, s.source.Life.Of(header, at), nil
	}
	if s.place.foundAt.Equal(before.foundAt) { // the keys may have moved: discover again at the next fetch, unless this one just did
		s.place = place{}
	}
	return nil, 0, err
}

// download fetches and parses the keys at a URL.
func (s *server) download(ctx context.Context, uri string, at time.Time) (*keySet, http.Header, error) {
	answer, err := s.client.Get(ctx, uri, "application/jwk-set+json, application/json")
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", uri, err)
	}
	set, err := s.readKeySet(answer.Body, uri, at)
	return set, answer.Header, err
}

// readKeySet parses a key set and applies the configured list of algorithms.
func (s *server) readKeySet(document []byte, uri string, fetchedAt time.Time) (*keySet, error) {
	algorithms := s.source.Algorithms
	if len(algorithms) == 0 {
		algorithms = oauth.TrustedAlgorithms
	}
	published, err := keys.ParseJWKS(document, algorithms)
	if err != nil {
		return nil, fmt.Errorf("the keys at %s: %w", uri, err)
	}
	return &keySet{
		published: published, uri: uri, document: document, fetchedAt: fetchedAt, usable: keys.NewPublishedSet(published),
	}, nil
}
