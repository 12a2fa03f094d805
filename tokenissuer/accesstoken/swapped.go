package accesstoken

import (
	"slices"
	"strconv"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ExchangeActor is who acts with a swapped token: the gate. No user and no other client can have this id.
var ExchangeActor = store.Actor{Subject: store.OwnClientID, ClientID: store.OwnClientID}

// The claims in which a swapped token names the one that it stands for.
const (
	OriginIssuer   = "token_iss"
	OriginID       = "token_jti"
	OriginIssuedAt = "token_iat"
)

// SaysTheSame compares what a swapped token takes over.
func (t *AccessToken) SaysTheSame(other *AccessToken) bool {
	return t.Subject == other.Subject && t.ClientID == other.ClientID && t.ID == other.ID && t.FamilyID == other.FamilyID &&
		t.Organisation == other.Organisation && t.Role == other.Role && t.AuthTime.Equal(other.AuthTime) &&
		t.IssuedAt.Equal(other.IssuedAt) && t.ExpiresAt.Equal(other.ExpiresAt) && slices.Equal(t.Scopes, other.Scopes) &&
		slices.Equal(t.ActorChain(), other.ActorChain()) && slices.Equal(t.extra[ClaimGroups], other.extra[ClaimGroups])
}

// IsSwapped tells whether a token of ours was made for one upstream, in the place of a client's.
func (t *AccessToken) IsSwapped() bool { return t.Actor == ExchangeActor }

// TokenOrigin is the client's token: itself, unless it was swapped.
type TokenOrigin struct {
	Issuer, ID string
	IssuedAt   time.Time
}

// Origin returns the token that a client had, when t is ours: what revokes that one revokes t.
func (t *AccessToken) Origin() TokenOrigin {
	if !t.IsSwapped() {
		return TokenOrigin{t.Issuer, t.ID, t.IssuedAt}
	}
	first := func(name string) string {
		if texts := t.extra[name]; len(texts) == 1 {
			return texts[0]
		}
		return ""
	}
	seconds, _ := strconv.ParseInt(first(OriginIssuedAt), 10, 64) // 0, and every revocation hits, when it is none
	return TokenOrigin{first(OriginIssuer), first(OriginID), time.Unix(seconds, 0)}
}
