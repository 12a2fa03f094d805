package fetch

import (
	"context"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// KeysReport describes the known keys of a source.
type KeysReport struct {
	// JWKSURI is where they were found, and FetchedAt when; both are empty if no keys are known.
	JWKSURI   string    `json:"jwks_uri,omitzero"`
	FetchedAt time.Time `json:"fetched_at,omitzero"`
	// Failed is the error of the last fetch; empty: it succeeded, or there was none.
	Failed string      `json:"fetch_failed,omitzero"`
	Keys   []KeyReport `json:"keys"`
}

// KeyReport describes a published key.
type KeyReport struct {
	// ID is the kid; empty: none.
	ID string `json:"kid,omitzero"`
	// Type is the kty, with the crv if there is one.
	Type string `json:"type"`
	// Algorithms lists what it may be used for.
	Algorithms []oauth.Algorithm `json:"algorithms,omitzero"`
	// Unusable explains why Algorithms is empty.
	Unusable string `json:"unusable,omitzero"`
}

// Report reports which of the keys are used, and why others are not.
func (k *Keys) Report() KeysReport {
	known := k.known.Load()
	r := KeysReport{Keys: []KeyReport{}}
	if known.Failed != nil {
		r.Failed = known.Failed.Error()
	}
	if known.set != nil {
		r.JWKSURI, r.FetchedAt, r.Keys = known.set.uri, known.set.fetchedAt, known.set.report()
	}
	return r
}

// Look fetches the metadata of an OpenID provider now, for a test by the operator, and changes nothing of what is known.
func (k *Keys) Look(ctx context.Context) ([]byte, error) {
	places, err := metadataPlaces(k.server.source.Issuer)
	if err != nil {
		return nil, err
	}
	return k.server.getMetadata(ctx, places[1])
}

// LookAtKeys fetches the keys at a URL now, and reports which can be used.
func (k *Keys) LookAtKeys(ctx context.Context, uri string) (list []KeyReport, err error) {
	err = Guard(func() error {
		set, _, err := k.server.download(ctx, uri, k.options.Now())
		if err == nil {
			list = set.report()
		}
		return err
	})
	return list, err
}

func (s *keySet) report() []KeyReport {
	list := make([]KeyReport, len(s.published))
	for i, published := range s.published {
		r := KeyReport{ID: published.ID, Type: published.Type}
		for _, key := range published.Keys {
			// A key without kid is usable only if it is the only one for its algorithm.
			if key.ID != "" || s.usable.IsOnly(key) {
				r.Algorithms = append(r.Algorithms, key.Algorithm)
			}
		}
		switch {
		case published.Unusable != nil:
			r.Unusable = brief(published.Unusable).Error()
		case len(r.Algorithms) == 0:
			r.Unusable = fmt.Sprintf("the key has no kid, and is not the only one for %s: no token can mean it", published.Keys[0].Algorithm)
		}
		list[i] = r
	}
	return list
}
