package token

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// maxClaimsRequest bounds the claims parameter, in bytes.
const maxClaimsRequest = 2 << 10

// ClaimsRequest is the claims parameter of an authorization request (OpenID Connect Core §5.5), without unknown claims. The zero value
// requests none.
type ClaimsRequest struct {
	// UserInfo and IDToken are the names of the requested claims, in the order of IDClaimNames.
	UserInfo, IDToken []string
	// Subjects are the users one of whom must sign in; empty: any user may.
	Subjects []string
	// ACR are the authentication context classes one of which is essential (§5.5.1.1); empty: any.
	ACR []string
}

// claimsParameter is the claims parameter on the wire.
type claimsParameter struct {
	UserInfo claimWishes `json:"userinfo,omitzero"`
	IDToken  claimWishes `json:"id_token,omitzero"`
}

// claimWishes are the requested claims by name; nil requests a claim in the default manner.
type claimWishes map[string]*claimWish

// UnmarshalJSON reads the claims that there are, and of the others only that they are JSON.
func (w *claimWishes) UnmarshalJSON(text []byte) error {
	var wishes map[string]jsontext.Value
	if err := strictjson.Unmarshal(text, &wishes); err != nil {
		return err
	}
	for name, value := range wishes {
		if name != "sub" && name != "acr" && scopeOf(name) == "" {
			continue
		}
		var wish *claimWish
		if err := strictjson.Unmarshal(value, &wish); err != nil {
			return err
		}
		w.add(name, wish)
	}
	return nil
}

type claimWish struct {
	Essential bool             `json:"essential,omitzero"`
	Value     jsontext.Value   `json:"value,omitzero"`
	Values    []jsontext.Value `json:"values,omitzero"`
}

var (
	errClaimsTooLong          = oauth.NewError(oauth.InvalidRequest, "claims_too_long").WithDescription("The claims parameter is too long.")
	errClaimsRequestMalformed = oauth.NewError(oauth.InvalidRequest, "claims_malformed").WithDescription("The claims parameter is malformed.")
)

// ParseClaimsRequest reads a claims parameter; the empty text asks for nothing. Unknown claims and members are ignored, and
// so are the values of claims other than sub and acr: a claim is given as it is. The error is invalid_request, for a text
// that is malformed or longer than 2 KiB.
func ParseClaimsRequest(text string) (ClaimsRequest, error) {
	if text == "" {
		return ClaimsRequest{}, nil
	}
	if len(text) > maxClaimsRequest {
		return ClaimsRequest{}, errClaimsTooLong
	}
	var p claimsParameter
	if err := strictjson.Object([]byte(text), &p); err != nil {
		return ClaimsRequest{}, errClaimsRequestMalformed.WithCause(err)
	}
	r := ClaimsRequest{UserInfo: p.UserInfo.names(), IDToken: p.IDToken.names()}
	for _, wishes := range []claimWishes{p.UserInfo, p.IDToken} {
		subjects, err := wishes.values("sub")
		if err != nil {
			return ClaimsRequest{}, err
		}
		switch {
		case subjects == nil:
		case r.Subjects == nil:
			r.Subjects = subjects
		default:
			r.Subjects = slices.DeleteFunc(r.Subjects, func(s string) bool { return !slices.Contains(subjects, s) })
			if len(r.Subjects) == 0 { // nobody would do
				return ClaimsRequest{}, errClaimsRequestMalformed
			}
		}
	}
	acr, err := p.IDToken.values("acr")
	if err != nil {
		return ClaimsRequest{}, err
	}
	if wish := p.IDToken["acr"]; wish != nil && wish.Essential {
		r.ACR = acr
	}
	if len(r.String()) > maxClaimsRequest { // it could not be read again, and whom it asks for would be forgotten
		return ClaimsRequest{}, errClaimsTooLong
	}
	return r, nil
}

// names returns those of the claims that a user can have.
func (w claimWishes) names() (names []string) {
	for _, claim := range idUserClaims {
		if _, asked := w[claim.name]; asked {
			names = append(names, claim.name)
		}
	}
	return names
}

// values returns the accepted values of the claim; nil: any.
func (w claimWishes) values(name string) (texts []string, err error) {
	wish := w[name]
	if wish == nil {
		return nil, nil
	}
	values := wish.Values
	if wish.Value != nil && wish.Value.Kind() != 'n' {
		values = append(values, wish.Value)
	}
	for _, value := range values {
		if value.Kind() != '"' {
			return nil, errClaimsRequestMalformed
		}
		var text string
		if err := strictjson.Unmarshal(value, &text); err != nil {
			return nil, errClaimsRequestMalformed.WithCause(err)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// String returns the request as a claims parameter in compact JSON, for ParseClaimsRequest; "" if it asks for nothing. Equal
// requests have equal texts.
func (r ClaimsRequest) String() string {
	var p claimsParameter
	for _, to := range []struct {
		names  []string
		wishes *claimWishes
	}{{r.UserInfo, &p.UserInfo}, {r.IDToken, &p.IDToken}} {
		for _, name := range to.names {
			to.wishes.add(name, nil)
		}
	}
	if len(r.Subjects) > 0 {
		p.IDToken.add("sub", &claimWish{Values: quoted(r.Subjects)})
	}
	if len(r.ACR) > 0 {
		p.IDToken.add("acr", &claimWish{Essential: true, Values: quoted(r.ACR)})
	}
	if p.UserInfo == nil && p.IDToken == nil {
		return ""
	}
	text, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		return "" // cannot happen: every text was read from JSON
	}
	return string(text)
}

func (w *claimWishes) add(name string, wish *claimWish) {
	if *w == nil {
		*w = make(claimWishes)
	}
	(*w)[name] = wish
}

func quoted(texts []string) (values []jsontext.Value) {
	for _, text := range texts {
		value, _ := jsontext.AppendQuote(nil, text) // fails for what is not UTF-8 alone
		values = append(values, value)
	}
	return values
}

// Allows reports whether the user may sign in. If not, the request fails as if no user were signed in (OpenID Connect Core §5.5.1).
func (r ClaimsRequest) Allows(userID string) bool {
	return len(r.Subjects) == 0 || slices.Contains(r.Subjects, userID)
}

// AllowsACR reports whether a sign-in of that class is accepted.
func (r ClaimsRequest) AllowsACR(acr string) bool {
	return len(r.ACR) == 0 || oauth.SatisfiesACR(acr, r.ACR)
}

// Within returns the request without the claims whose scope is not among the scopes. A client's allowed scopes so limit the claims parameter.
func (r ClaimsRequest) Within(scopes oauth.Scopes) ClaimsRequest {
	beyond := func(name string) bool { return !scopes.Has(scopeOf(name)) }
	r.UserInfo = slices.DeleteFunc(slices.Clone(r.UserInfo), beyond)
	r.IDToken = slices.DeleteFunc(slices.Clone(r.IDToken), beyond)
	return r
}

// Scopes returns the scopes to which the claims belong, so that the user can be asked about them.
func (r ClaimsRequest) Scopes() (scopes oauth.Scopes) {
	for _, name := range slices.Concat(r.UserInfo, r.IDToken) {
		if scope := scopeOf(name); !scopes.Has(scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}
