package token

import (
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// AssertionLifetime is the lifetime of an assertion, which is for one request.
const AssertionLifetime = time.Minute

// AssertedRequest is the request that an assertion is about.
type AssertedRequest struct {
	// Audience is the upstream.
	Audience string
	// Method and Target are those that the upstream receives. Target is path and query as in the request line.
	Method, Target string
}

// Assert returns a JWT that tells an upstream who is calling. It is valid for AssertionLifetime, for that upstream and that request. The error
// is temporarily_unavailable while the master key is missing.
func (u *UpstreamTokens) Assert(t *AccessToken, r AssertedRequest) (oauth.Secret, error) {
	now := u.now()
	key, err := u.assertions.Current(now, u.credentials().Master)
	if err != nil {
		return oauth.Secret{}, err
	}
	now = now.Truncate(time.Second)
	told := &AccessToken{
		Issuer: u.url, Subject: t.Subject, Audience: []string{r.Audience}, ClientID: t.ClientID, Scopes: t.Scopes, ID: oauth.NewID(),
		IssuedAt: now, ExpiresAt: assertionEnd(t, now),
		SignIn: t.SignIn,
	}
	if t.Issuer == u.url { // other issuers' groups and classes are not ours, and may not fit
		told.WithGroups(t.Claim(ClaimGroups))
		told.WithProof(proofOf(t))
	}
	claims := NewUpstreamClaims(told)
	claims.List("org", t.Claim("org"))
	claims.List("role", t.Claim("role"))
	claims.Text("htm", r.Method)
	claims.Text("htp", targetHash(r.Target))
	claims.Text("token_iss", t.Issuer)
	claims.Text("token_jti", t.ID)
	claims.Actors(t.Actors)
	text, err := claims.JSON()
	if err != nil {
		return oauth.Secret{}, err
	}
	signed, err := key.Sign(text)
	if err != nil {
		return oauth.Secret{}, oauth.AsError(err)
	}
	return oauth.NewSecret(signed), nil
}

// assertionEnd returns AssertionLifetime from now, or the end of the token if that is earlier. A token within the leeway of its end gets
// store.Leeway, so that the request can be made.
func assertionEnd(t *AccessToken, now time.Time) time.Time {
	end := now.Add(AssertionLifetime)
	if own := t.ExpiresAt.Truncate(time.Second); !own.IsZero() && own.Before(end) {
		end = own
	}
	if least := now.Add(store.Leeway); end.Before(least) {
		return least
	}
	return end
}

// targetHash is the claim htp.
func targetHash(target string) string {
	digest := sha256.Sum256([]byte(target))
	return base64.RawURLEncoding.EncodeToString(digest[:])
}
