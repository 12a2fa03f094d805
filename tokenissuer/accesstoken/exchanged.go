package accesstoken

import (
	"slices"
	"strconv"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ExchangeActor is the actor of an exchanged token: the gate. No user and no other client can have this id.
var ExchangeActor = store.Actor{Subject: store.BuiltInClientID, ClientID: store.BuiltInClientID}

// The claims of an exchanged token that identify the original token.
const (
	OriginIssuer   = "token_iss" // iss of the original
	OriginID       = "token_jti" // jti of the original
	OriginIssuedAt = "token_iat" // iat of the original
)

// SaysTheSame reports whether two tokens agree in everything that an exchanged token takes over.
func (t *AccessToken) SaysTheSame(other *AccessToken) bool {
	return t.Subject == other.Subject && t.ClientID == other.ClientID && t.ID == other.ID && t.FamilyID == other.FamilyID &&
		t.Organisation == other.Organisation && t.Role == other.Role && t.AuthTime.Equal(other.AuthTime) &&
		t.IssuedAt.Equal(other.IssuedAt) && t.ExpiresAt.Equal(other.ExpiresAt) && slices.Equal(t.Scopes, other.Scopes) &&
		slices.Equal(t.ActorChain(), other.ActorChain()) && slices.Equal(t.Claim(ClaimGroups), other.Claim(ClaimGroups))
}

// IsExchanged reports whether our issuer made the token for one upstream in exchange for a client's (RFC 8693).
func (t *AccessToken) IsExchanged() bool { return t.Actor == ExchangeActor }

// TokenOrigin identifies the client's token: the token itself, unless it was exchanged.
type TokenOrigin struct {
	Issuer, ID string
	IssuedAt   time.Time
}

// Origin returns the client's token behind t, a token of ours. Revoking the former revokes t.
func (t *AccessToken) Origin() TokenOrigin {
	if !t.IsExchanged() {
		return TokenOrigin{t.Issuer, t.ID, t.IssuedAt}
	}
	first := func(name string) string {
		if texts := t.extra[name]; len(texts) == 1 {
			return texts[0]
		}
		return ""
	}
	seconds, _ := strconv.ParseInt(first(OriginIssuedAt), 10, 64) // 0 on an error: then every revocation applies
	return TokenOrigin{first(OriginIssuer), first(OriginID), time.Unix(seconds, 0)}
}
