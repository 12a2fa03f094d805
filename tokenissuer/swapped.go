package tokenissuer

import (
	"slices"
	"strconv"
	"time"
)

// swapActor is who acts with a swapped token: the gate. No user and no other client can have this id.
var swapActor = Actor{Subject: OwnClientID, ClientID: OwnClientID}

// The claims in which a swapped token names the one that it stands for.
const (
	originIssuer   = "token_iss"
	originID       = "token_jti"
	originIssuedAt = "token_iat"
)

// saysTheSame compares what a swapped token takes over.
func (t *AccessToken) saysTheSame(other *AccessToken) bool {
	return t.Subject == other.Subject && t.ClientID == other.ClientID && t.ID == other.ID && t.FamilyID == other.FamilyID &&
		t.Organisation == other.Organisation && t.Role == other.Role && t.AuthTime.Equal(other.AuthTime) &&
		t.IssuedAt.Equal(other.IssuedAt) && t.ExpiresAt.Equal(other.ExpiresAt) && slices.Equal(t.Scopes, other.Scopes) &&
		slices.Equal(t.actorChain(), other.actorChain()) && slices.Equal(t.extra[claimGroups], other.extra[claimGroups])
}

// IsSwapped tells whether a token of ours was made for one upstream, in the place of a client's.
func (t *AccessToken) IsSwapped() bool { return t.Actor == swapActor }

// tokenOrigin is the client's token: itself, unless it was swapped.
type tokenOrigin struct {
	issuer, id string
	issuedAt   time.Time
}

// origin returns the token that a client had, when t is ours: what revokes that one revokes t.
func (t *AccessToken) origin() tokenOrigin {
	if !t.IsSwapped() {
		return tokenOrigin{t.Issuer, t.ID, t.IssuedAt}
	}
	first := func(name string) string {
		if texts := t.extra[name]; len(texts) == 1 {
			return texts[0]
		}
		return ""
	}
	seconds, _ := strconv.ParseInt(first(originIssuedAt), 10, 64) // 0, and every revocation hits, when it is none
	return tokenOrigin{first(originIssuer), first(originID), time.Unix(seconds, 0)}
}
