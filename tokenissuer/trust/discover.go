package trust

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// placeLife is how long we go by metadata that was read before.
const placeLife = time.Hour

// place is where an issuer's keys are, and when that was found out.
type place struct {
	uri     string
	foundAt time.Time
}

// metadata is what we read of an issuer's (RFC 8414 §2, OpenID Connect Discovery §3). Names are case-sensitive, duplicates an
// error.
type metadata struct {
	Issuer  string `json:"issuer"`
	JWKSURI string `json:"jwks_uri"`
}

// locate says where the keys are: where the operator says, or else the issuer's metadata.
func (k *remoteKeys) locate(ctx context.Context) (string, error) {
	if k.settings.JWKSURI != "" {
		return k.settings.JWKSURI, nil
	}
	now := k.now()
	if age := now.Sub(k.place.foundAt); k.place.uri != "" && age >= 0 && age < placeLife {
		return k.place.uri, nil
	}
	uri, err := k.discover(ctx)
	if err != nil {
		return "", err
	}
	k.place = place{uri: uri, foundAt: now}
	return uri, nil
}

// discover asks for the metadata in both of the places where it may be, at once: an issuer that has it in one of them may
// be slow to say that it is not in the other.
func (k *remoteKeys) discover(ctx context.Context) (uri string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	places, err := metadataPlaces(k.settings.Issuer)
	if err != nil {
		return "", err
	}
	type answer struct {
		document []byte
		err      error
	}
	answers := make(chan answer, len(places))
	for _, address := range places {
		go func() {
			var got answer
			got.err = guarded(func() (err error) {
				_, got.document, err = k.client.get(ctx, address, "application/json")
				return err
			})
			answers <- got
		}()
	}
	var failed []error
	for range places {
		got := <-answers
		if got.err == nil {
			uri, got.err = k.readMetadata(got.document)
		}
		if got.err == nil {
			return uri, nil
		}
		failed = append(failed, got.err)
	}
	return "", fmt.Errorf("discovery: %w", errors.Join(failed...))
}

// metadataPlaces are the well-known URLs of an issuer: RFC 8414 §3.1 puts the name before the path, OpenID Connect Discovery
// §4 behind it. Both drop a slash at the end.
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

// readMetadata returns jwks_uri of metadata that is the issuer's own (RFC 8414 §3.3). Keys that are somewhere else are
// believed to an operator, not to a document: whoever can change it could name his own.
func (k *remoteKeys) readMetadata(document []byte) (string, error) {
	var m metadata
	if err := json.Unmarshal(document, &m); err != nil {
		return "", fmt.Errorf("the metadata is malformed: %w", err)
	}
	if m.Issuer != k.settings.Issuer {
		return "", fmt.Errorf("the metadata is that of issuer %q, not of %q", m.Issuer, k.settings.Issuer)
	}
	if m.JWKSURI == "" {
		return "", errors.New("the metadata has no jwks_uri")
	}
	if err := k.checkPlace(m.JWKSURI); err != nil {
		return "", err
	}
	return m.JWKSURI, nil
}

// checkPlace refuses keys from anywhere but where the operator says, or from the issuer's own origin if he says nothing.
func (k *remoteKeys) checkPlace(uri string) error {
	if k.settings.JWKSURI != "" {
		if uri != k.settings.JWKSURI {
			return fmt.Errorf("its keys are from %s, not from %s", uri, k.settings.JWKSURI)
		}
		return nil
	}
	keys, err := k.client.guard.parseURL(uri)
	if err != nil {
		return fmt.Errorf("jwks_uri: %w", err)
	}
	issuer, err := k.client.guard.parseURL(k.settings.Issuer)
	if err != nil {
		return err
	}
	if originOf(keys) != originOf(issuer) {
		return fmt.Errorf("its keys are at %s, which is not the issuer's host: if that is right, set jwks_uri %s", originOf(keys), uri)
	}
	return nil
}
