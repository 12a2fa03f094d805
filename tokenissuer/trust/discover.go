package trust

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

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

// metadata holds the metadata members that we use (RFC 8414 §2, OpenID Connect Discovery §3). Names are case-sensitive;
// duplicates are an error.
type metadata struct {
	Issuer  string `json:"issuer"`
	JWKSURI string `json:"jwks_uri"`
}

// locate returns the URL of the keys: the configured one, or the one in the issuer's metadata.
func (k *remoteKeys) locate(ctx context.Context) (place, error) {
	if k.settings.JWKSURI != "" {
		return place{uri: k.settings.JWKSURI}, nil
	}
	now := k.now()
	if age := now.Sub(k.place.foundAt); k.place.uri != "" && age >= 0 && age < placeLife {
		return k.place, nil
	}
	found, err := k.discover(ctx)
	if err != nil {
		return place{}, err
	}
	found.foundAt = now
	k.place = found
	return found, nil
}

// discover requests the metadata at both well-known URLs concurrently: an issuer that has it at one may be slow to answer
// at the other.
func (k *remoteKeys) discover(ctx context.Context) (place, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	places, err := metadataPlaces(k.settings.Issuer)
	if err != nil {
		return place{}, err
	}
	if k.openID != nil {
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
		var uri string
		if got.err == nil {
			uri, got.err = k.readMetadata(got.document)
		}
		if got.err == nil {
			return place{uri: uri, metadata: got.document}, nil
		}
		failed = append(failed, got.err)
	}
	return place{}, fmt.Errorf("discovery: %w", errors.Join(failed...))
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
func (k *remoteKeys) readMetadata(document []byte) (string, error) {
	var m metadata
	if err := strictjson.Object(document, &m); err != nil {
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
	if k.openID != nil {
		return m.JWKSURI, k.openID.check(document)
	}
	return m.JWKSURI, nil
}

// checkPlace refuses keys from any URL but the configured one or, without one, from another origin than the issuer's:
// whoever can change the metadata could otherwise supply his own. The metadata of an OpenID provider names the
// endpoints too, some on hosts of their own, so that whoever can change it needs no keys.
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
	if k.openID != nil {
		return nil
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
