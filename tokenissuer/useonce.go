package tokenissuer

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// useOnce notes, for all nodes and durably, that somebody's id of a kind was used, and reports whether it had not been. It is kept until
// then at least. Whatever the owner and the id are, what is kept is a digest of both.
func (k *Records) useOnce(ctx context.Context, kind, owner, id string, until time.Time) (fresh bool, err error) {
	named := sha256.Sum256([]byte(owner))
	digest := sha256.Sum256([]byte(kind + "\x00" + string(named[:]) + id))
	switch outcome, err := k.Store.DecideRequest(ctx, base64.RawURLEncoding.EncodeToString(digest[:]), until.Add(store.RevocationMargin)); {
	case err != nil:
		return false, oauth.Unavailable("store_unavailable", err)
	default:
		return outcome == store.Done, nil
	}
}
