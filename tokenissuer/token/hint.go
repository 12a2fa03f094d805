package token

import (
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// Hint has the claims of an id_token_hint, an ID token that this issuer issued before (OpenID Connect Core §3.1.2.1, RP-Initiated
// Logout §2).
type Hint struct {
	Subject  string
	ClientID string
	// SessionID is the browser session in which the user had signed in; empty: the token names none.
	SessionID string
	AuthTime  time.Time
}

// Reasons why a hint is refused.
var (
	errHintTooLong   = oauth.NewError(oauth.InvalidRequest, "id_token_hint_too_long")
	errHintMalformed = oauth.NewError(oauth.InvalidRequest, "id_token_hint_malformed")
	errHintHeader    = oauth.NewError(oauth.InvalidRequest, "id_token_hint_key_unknown")
	errHintSignature = oauth.NewError(oauth.InvalidRequest, "id_token_hint_signature_wrong")
	errHintIssuer    = oauth.NewError(oauth.InvalidRequest, "id_token_hint_issuer_wrong")
)

// ReadHint reads an ID token that issuer signed with one of the keys. It accepts an expired one, because a hint grants nothing. The error is an
// *oauth.Error: invalid_request for any other text, or temporarily_unavailable while the keys are unknown. A token whose key was revoked, or
// dropped store.KeyRetention after it was superseded, cannot be told from a forged one; sign-out then asks the user.
func ReadHint(text, issuer string, set *keys.Set) (Hint, error) {
	if len(text) > MaxIDTokenBytes {
		return Hint{}, errHintTooLong
	}
	header, rest, _ := strings.Cut(text, ".")
	payload, encoded, found := strings.Cut(rest, ".")
	if !found || strings.Contains(encoded, ".") {
		return Hint{}, errHintMalformed
	}
	// The header has to be the very one that we write for ID tokens. So nothing in it is parsed, let alone obeyed: neither
	// alg (RFC 8725 §3.1), nor the typ of an access token, nor an embedded key.
	key, err := set.FindHeader(idTokenType, header)
	if err != nil {
		return Hint{}, err
	}
	if key == nil {
		return Hint{}, errHintHeader
	}
	claims, err1 := oauth.DecodeBase64URL(nil, payload)
	signature, err2 := oauth.DecodeBase64URL(nil, encoded)
	if err1 != nil || err2 != nil {
		return Hint{}, errHintMalformed
	}
	if err := key.VerifySignature(header+"."+payload, signature); err != nil {
		return Hint{}, errHintSignature.WithCause(err)
	}
	var read idClaims
	if err := strictjson.Object(claims, &read); err != nil || read.Subject == "" || read.Audience == "" {
		return Hint{}, errHintMalformed.WithCause(err)
	}
	if read.Issuer != issuer {
		return Hint{}, errHintIssuer
	}
	hint := Hint{Subject: read.Subject, ClientID: read.Audience, SessionID: read.SessionID}
	if read.AuthTime != 0 {
		hint.AuthTime = time.Unix(read.AuthTime, 0)
	}
	return hint, nil
}
