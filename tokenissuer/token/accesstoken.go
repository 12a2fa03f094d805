package token

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// AccessToken is a verified access token (RFC 9068 §2.2). It is immutable, so requests can share it.
type AccessToken struct {
	Issuer   string
	Subject  string
	Audience []string
	ClientID string
	Scopes   oauth.Scopes
	ID       string // jti
	// IssuedAt is zero, and ExpiresAt the time of the next introspection, if an introspection response omitted them.
	IssuedAt  time.Time
	ExpiresAt time.Time
	// KeyID is the kid of the signing key; empty: the token has no kid, as another issuer's may.
	KeyID string

	SignIn
	// Actors are those who act for the subject (act, RFC 8693 §4.1), the current one first: the admin who obtained the token for the
	// user, or the clients and gates that exchanged another token for it.
	Actors []store.Actor
	extra  extraClaims
}

// SignIn describes the sign-in of the user on whose behalf a token acts. It is zero for other tokens. If another issuer names several
// organisations or roles, the field is empty and Claim returns them.
type SignIn struct {
	FamilyID     string // sid
	Organisation string // org
	Role         string
	AuthTime     time.Time
}

// Actor returns the current actor, or the zero Actor.
func (t *AccessToken) Actor() store.Actor {
	if len(t.Actors) == 0 {
		return store.Actor{}
	}
	return t.Actors[0]
}

// IsServerToken reports whether the token acts for a client alone. User ids and client ids are disjoint, so equality
// decides; for an exchanged token, equality with the client to which the first token was issued.
func (t *AccessToken) IsServerToken() bool {
	return t.Subject == t.ClientID || t.extra.values != nil && t.Subject == t.Origin().ClientID
}

// HasAudience reports whether the token is meant for one of the audiences.
func (t *AccessToken) HasAudience(audiences []string) bool {
	for _, own := range t.Audience {
		for _, wanted := range audiences {
			if own == wanted {
				return true
			}
		}
	}
	return false
}

// Claim returns the texts of a claim by its name on the wire: one for a string, number or boolean, and one for each
// element of an array. The scope claim has one text for each scope, the act claim
// the subject of the actor. A name that no claim has is a path into objects, separated by dots, as in realm_access.roles.
// Numbers are exact, and equal ones have the same text. Claim returns nil if the claim is absent, empty or an object.
func (t *AccessToken) Claim(name string) []string { return t.claim(name).texts }

// HasClaim reports whether a claim, or an element of it, is one of the values. A number is compared by its value, a string byte for byte.
func (t *AccessToken) HasClaim(name string, values []string) bool {
	if one, ok := t.Text(name); ok && slices.Contains(values, one) { // needs no allocation
		return one != ""
	}
	return t.claim(name).isOne(values)
}

func (t *AccessToken) claim(name string) claimValue {
	if one, ok := t.Text(name); ok {
		return claimValue{texts: text(one), numbers: isTime(name)}
	}
	switch name {
	case "aud":
		return claimValue{texts: t.Audience}
	case "scope":
		return claimValue{texts: t.Scopes}
	}
	return t.extra.find(name)
}

// Text is Claim for claims that have at most one text; empty means absent. It returns false for a claim that may have
// several. It rarely allocates.
func (t *AccessToken) Text(name string) (one string, ok bool) {
	switch name {
	case "iss":
		return t.Issuer, true
	case "sub":
		return t.Subject, true
	case "client_id":
		return t.ClientID, true
	case "jti":
		return t.ID, true
	case "iat":
		return secondsText(t.IssuedAt), true
	case "exp":
		return strconv.FormatInt(t.ExpiresAt.Unix(), 10), true
	case "sid":
		return t.FamilyID, true
	case "org":
		return t.Organisation, t.Organisation != "" // another issuer may name several
	case "role":
		return t.Role, t.Role != ""
	case "auth_time":
		return secondsText(t.AuthTime), true
	case "act":
		return t.Actor().Subject, true
	}
	return "", false
}

// isTime reports whether a claim that we write ourselves is a number.
func isTime(name string) bool {
	return name == "iat" || name == "exp" || name == "auth_time" || name == claimUpdatedAt
}

// secondsText formats a time as a claim; zero becomes "".
func secondsText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return strconv.FormatInt(at.Unix(), 10)
}

func text(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// payload is the claims set on the wire (RFC 9068 §2.2). Pointers distinguish absent from zero.
type payload struct {
	Issuer       string           `json:"iss,omitzero"`
	Subject      string           `json:"sub,omitzero"`
	Audience     strictjson.Texts `json:"aud,omitzero"`
	ClientID     string           `json:"client_id,omitzero"`
	Scope        scope            `json:"scope,omitzero"`
	IssuedAt     *int64           `json:"iat,omitzero"`
	ExpiresAt    *int64           `json:"exp,omitzero"`
	NotBefore    *int64           `json:"nbf,omitzero"`
	ID           string           `json:"jti,omitzero"`
	FamilyID     string           `json:"sid,omitzero"`
	Organisation oneOrMany        `json:"org,omitzero"`
	Role         oneOrMany        `json:"role,omitzero"`
	AuthTime     *int64           `json:"auth_time,omitzero"`
	Actor        *actorClaim      `json:"act,omitzero"`

	Extra jsontext.Value `json:",embed"`
}

// actorClaim is act on the wire (RFC 8693 §4.1).
type actorClaim struct {
	Subject  string `json:"sub"`
	ClientID string `json:"client_id"`
	// Before is the previous actor.
	Before *actorClaim `json:"act,omitzero"`
}

// chain lists the actors, the current one first. It returns nil if that one is unnamed.
func (a *actorClaim) chain() (actors []store.Actor) {
	if a == nil || a.Subject == "" && a.ClientID == "" {
		return nil
	}
	for ; a != nil; a = a.Before {
		actors = append(actors, store.Actor{Subject: a.Subject, ClientID: a.ClientID})
	}
	return actors
}

// oneOrMany is a string in our tokens, and a string or an array of strings in those of others.
type oneOrMany struct {
	values strictjson.Texts
	array  bool
}

func (o *oneOrMany) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	o.array = d.PeekKind() == '['
	return json.UnmarshalDecode(d, &o.values)
}

// scope is a string on the wire (RFC 9068 §2.2.3). Any other type grants nothing.
type scope string

// UnmarshalJSONFrom reads a string and skips every other value.
func (s *scope) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '"' {
		return d.SkipValue()
	}
	return json.UnmarshalDecode(d, (*string)(s))
}

// AppendClaims appends the claims set of a token that we issue to b. It is written by hand because it runs for every
// token issued. It fails for texts that are not UTF-8.
func AppendClaims(b []byte, t *AccessToken) ([]byte, error) {
	var failed error
	member := func(name, value string) {
		if value != "" && failed == nil {
			b = append(append(append(b, `,"`...), name...), `":`...)
			b, failed = jsontext.AppendQuote(b, value)
		}
	}
	seconds := func(name string, at time.Time) {
		b = append(append(append(b, `,"`...), name...), `":`...)
		b = strconv.AppendInt(b, at.Unix(), 10)
	}
	list := func(name string) {
		texts := t.extra.texts(name)
		for i, text := range texts {
			if i == 0 {
				b = append(append(append(b, `,"`...), name...), `":`...)
			}
			b = append(b, "[,"[min(i, 1)])
			if failed == nil {
				b, failed = jsontext.AppendQuote(b, text)
			}
		}
		if len(texts) > 0 {
			b = append(b, ']')
		}
	}
	start := len(b)
	member("jti", t.ID) // claimsOpening
	member("iss", t.Issuer)
	member("sub", t.Subject)
	if len(t.Audience) == 1 { // one audience may be a string (RFC 7519 §4.1.3)
		member("aud", t.Audience[0])
	} else if len(t.Audience) > 0 && failed == nil {
		b = append(b, `,"aud":[`...)
		for i, aud := range t.Audience {
			if i > 0 {
				b = append(b, ',')
			}
			if b, failed = jsontext.AppendQuote(b, aud); failed != nil {
				break
			}
		}
		b = append(b, ']')
	}
	member("client_id", t.ClientID)
	member("scope", t.Scopes.String())
	seconds("iat", t.IssuedAt)
	seconds("exp", t.ExpiresAt)
	member("sid", t.FamilyID)
	member("org", t.Organisation)
	member("role", t.Role)
	list(ClaimGroups)
	if !t.AuthTime.IsZero() {
		seconds("auth_time", t.AuthTime)
	}
	member(claimACR, t.extra.one(claimACR))
	list(claimAMR)
	if t.IsExchanged() {
		member(OriginIssuer, t.extra.one(OriginIssuer))
		member(OriginID, t.extra.one(OriginID))
		seconds(OriginIssuedAt, t.Origin().IssuedAt)
		member(OriginClient, t.extra.one(OriginClient))
		list(OriginVia)
		list(OriginKeys)
	}
	if failed == nil {
		b, failed = appendActors(b, t.Actors)
	}
	if failed != nil {
		return nil, fmt.Errorf("writing claims: %w", failed)
	}
	b[start] = '{' // replaces the first comma
	return append(b, '}'), nil
}

// registeredClaims are the claims that payload has fields for.
var registeredClaims = []string{
	"iss", "sub", "aud", "client_id", "scope", "iat", "exp", "nbf", "jti", "sid", "org", "role", "auth_time", "act",
}

// ClaimGroups is the claim with the user's groups, always an array.
const ClaimGroups = "groups"

// WithGroups sets the groups of a token that we issue.
func (t *AccessToken) WithGroups(groups []string) {
	delete(t.extra.values, ClaimGroups)
	t.extra.add(ClaimGroups, groups...)
}

// The claims of a sign-in beside auth_time (OpenID Connect Core §2, RFC 9470 §6).
const (
	claimACR = "acr"
	claimAMR = "amr"
)

// WithProof sets how the user of a token that we issue has signed in.
func (t *AccessToken) WithProof(proof store.Proof) {
	t.extra.add(claimACR, proof.ACR)
	t.extra.add(claimAMR, proof.AMR...)
}

// proofOf returns how the user of a token has signed in, as far as the token says.
func proofOf(t *AccessToken) store.Proof {
	return store.Proof{ACR: t.ACR(), AMR: t.Claim(claimAMR)}
}

// ACR returns the authentication context class of the user's sign-in, or "".
func (t *AccessToken) ACR() string {
	if acr := t.Claim(claimACR); len(acr) == 1 {
		return acr[0]
	}
	return ""
}
