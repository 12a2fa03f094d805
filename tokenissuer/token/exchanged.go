package token

import (
	"slices"
	"strconv"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ExchangeActor is the actor of a swapped token: the gate. No user and no other client can have this id.
var ExchangeActor = store.Actor{Subject: store.BuiltInClientID, ClientID: store.BuiltInClientID}

// The claims of an exchanged token that identify the tokens from which it came.
const (
	OriginIssuer   = "token_iss"    // iss of the first
	OriginID       = "token_jti"    // jti of the first
	OriginIssuedAt = "token_iat"    // iat of the first
	OriginClient   = "token_client" // client_id of the first, if it is another than the token's
	OriginVia      = "token_via"    // jti of those that were exchanged since, in their order
	OriginKeys     = "token_kid"    // kid of the keys that have signed those before, if they are others than the token's
)

// Delegate sets the claims that t, a new token of ours, takes over from the token for which it is exchanged, and actor as the current actor.
// The KeyID of t must be set before.
func (t *AccessToken) Delegate(source *AccessToken, actor store.Actor) {
	t.Subject, t.SignIn = source.Subject, source.SignIn
	t.Actors = append([]store.Actor{actor}, source.Actors...)
	t.WithGroups(source.Claim(ClaimGroups))
	t.WithProof(proofOf(source))
	origin := source.Origin()
	t.extra.add(OriginIssuer, origin.Issuer)
	t.extra.add(OriginID, origin.ID)
	t.extra.add(OriginIssuedAt, strconv.FormatInt(origin.IssuedAt.Unix(), 10))
	if origin.ClientID != t.ClientID {
		t.extra.add(OriginClient, origin.ClientID)
	}
	if source.IsExchanged() {
		t.extra.add(OriginVia, append(slices.Clone(source.extra.texts(OriginVia)), source.ID)...)
	}
	signers := append(slices.Clone(source.extra.texts(OriginKeys)), source.KeyID)
	t.extra.add(OriginKeys, slices.DeleteFunc(slices.Compact(signers), func(kid string) bool { return kid == t.KeyID || kid == "" })...)
}

// SaysTheSame reports whether two tokens agree in everything that an exchanged token takes over.
func (t *AccessToken) SaysTheSame(other *AccessToken) bool {
	return t.Subject == other.Subject && t.ClientID == other.ClientID && t.ID == other.ID && t.FamilyID == other.FamilyID &&
		t.Organisation == other.Organisation && t.Role == other.Role && t.AuthTime.Equal(other.AuthTime) &&
		t.IssuedAt.Equal(other.IssuedAt) && t.ExpiresAt.Equal(other.ExpiresAt) && slices.Equal(t.Scopes, other.Scopes) &&
		slices.Equal(t.Actors, other.Actors) && slices.Equal(t.Claim(ClaimGroups), other.Claim(ClaimGroups)) &&
		t.ACR() == other.ACR() && slices.Equal(t.Claim(claimAMR), other.Claim(claimAMR))
}

// IsSwapped reports whether a gate made the token for one upstream in exchange for a client's.
func (t *AccessToken) IsSwapped() bool { return t.Actor() == ExchangeActor }

// IsExchanged reports whether our issuer made the token in exchange for another (RFC 8693), at a gate or at the token endpoint.
func (t *AccessToken) IsExchanged() bool {
	return len(t.Actors) > 0 && t.extra.one(OriginIssuedAt) != ""
}

// Origin identifies the first token of a chain of exchanges.
type Origin struct {
	Issuer, ID, ClientID string
	IssuedAt             time.Time
}

// Origin returns the first token of the exchanges that led to t, a token of ours: t itself if it was not exchanged. Revoking that token revokes
// t.
func (t *AccessToken) Origin() Origin {
	if !t.IsExchanged() {
		return Origin{t.Issuer, t.ID, t.ClientID, t.IssuedAt}
	}
	client := t.extra.one(OriginClient)
	if client == "" {
		client = t.ClientID
	}
	seconds, _ := strconv.ParseInt(t.extra.one(OriginIssuedAt), 10, 64) // 0 on an error: then every revocation applies
	return Origin{t.extra.one(OriginIssuer), t.extra.one(OriginID), client, time.Unix(seconds, 0)}
}
