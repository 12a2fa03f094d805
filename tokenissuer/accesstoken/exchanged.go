package accesstoken

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

// Delegate gives t, a new token of ours, what it takes over of the token for which it is exchanged. Actor acts from now on. The KeyID of t
// is set before.
func (t *AccessToken) Delegate(source *AccessToken, actor store.Actor) {
	t.Subject, t.FamilyID, t.Organisation, t.Role, t.AuthTime = source.Subject, source.FamilyID, source.Organisation, source.Role, source.AuthTime
	t.Actor, t.earlierActors = actor, source.ActorChain()
	t.WithGroups(source.Claim(ClaimGroups))
	origin := source.Origin()
	t.add(OriginIssuer, origin.Issuer)
	t.add(OriginID, origin.ID)
	t.add(OriginIssuedAt, strconv.FormatInt(origin.IssuedAt.Unix(), 10))
	if origin.ClientID != t.ClientID {
		t.add(OriginClient, origin.ClientID)
	}
	if source.IsExchanged() {
		t.add(OriginVia, append(slices.Clone(source.extra[OriginVia].texts), source.ID)...)
	}
	signers := append(slices.Clone(source.extra[OriginKeys].texts), source.KeyID)
	t.add(OriginKeys, slices.DeleteFunc(slices.Compact(signers), func(kid string) bool { return kid == t.KeyID || kid == "" })...)
}

// SetActors sets everybody who acts for the subject, the current actor first.
func (t *AccessToken) SetActors(chain []store.Actor) {
	t.Actor, t.earlierActors = store.Actor{}, nil
	if len(chain) > 0 {
		t.Actor, t.earlierActors = chain[0], chain[1:]
	}
}

// add sets a claim that payload has no field for, unless it is empty.
func (t *AccessToken) add(name string, texts ...string) {
	if len(texts) == 0 || texts[0] == "" {
		return
	}
	if t.extra == nil {
		t.extra = make(map[string]claimValue)
	}
	t.extra[name] = claimValue{texts: texts, numbers: name == OriginIssuedAt}
}

// SaysTheSame reports whether two tokens agree in everything that an exchanged token takes over.
func (t *AccessToken) SaysTheSame(other *AccessToken) bool {
	return t.Subject == other.Subject && t.ClientID == other.ClientID && t.ID == other.ID && t.FamilyID == other.FamilyID &&
		t.Organisation == other.Organisation && t.Role == other.Role && t.AuthTime.Equal(other.AuthTime) &&
		t.IssuedAt.Equal(other.IssuedAt) && t.ExpiresAt.Equal(other.ExpiresAt) && slices.Equal(t.Scopes, other.Scopes) &&
		slices.Equal(t.ActorChain(), other.ActorChain()) && slices.Equal(t.Claim(ClaimGroups), other.Claim(ClaimGroups))
}

// IsSwapped reports whether a gate made the token for one upstream in exchange for a client's.
func (t *AccessToken) IsSwapped() bool { return t.Actor == ExchangeActor }

// IsExchanged reports whether our issuer made the token in exchange for another (RFC 8693), at a gate or at the token endpoint.
func (t *AccessToken) IsExchanged() bool { return !t.Actor.IsZero() && t.origin(OriginIssuedAt) != "" }

// TokenOrigin identifies the token that was issued to somebody who asked for it, and from which an exchanged token came.
type TokenOrigin struct {
	Issuer, ID, ClientID string
	IssuedAt             time.Time
}

// Origin returns the token from which t, a token of ours, came: t itself, unless it was exchanged. Revoking the former revokes t.
func (t *AccessToken) Origin() TokenOrigin {
	if !t.IsExchanged() {
		return TokenOrigin{t.Issuer, t.ID, t.ClientID, t.IssuedAt}
	}
	client := t.origin(OriginClient)
	if client == "" {
		client = t.ClientID
	}
	seconds, _ := strconv.ParseInt(t.origin(OriginIssuedAt), 10, 64) // 0 on an error: then every revocation applies
	return TokenOrigin{t.origin(OriginIssuer), t.origin(OriginID), client, time.Unix(seconds, 0)}
}

// origin returns one of the claims about where an exchanged token came from.
func (t *AccessToken) origin(name string) string {
	if texts := t.extra[name].texts; len(texts) == 1 {
		return texts[0]
	}
	return ""
}
