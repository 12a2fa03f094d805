package token

import (
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// AssertionLifetime is how long an assertion is good: for one request on its way to one upstream.
const AssertionLifetime = time.Minute

// AssertedRequest is the request that an assertion is good for.
type AssertedRequest struct {
	// Audience is the upstream.
	Audience string
	// Method and Target are the request's as the upstream gets it. Target is path and query as they stand in the request line.
	Method, Target string
}

// Assert tells an upstream, in a JWT that nobody else can make, who is calling. It is good for a minute, for that upstream
// and that request. It is temporarily_unavailable while the master key is not there.
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
	if t.Issuer == u.url { // those of others are no groups of ours, and may not fit
		told.WithGroups(t.Claim(ClaimGroups))
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

// assertionEnd is a minute from now, and no later than the end of the token that the assertion tells of. One that is in the
// leeway of its end has the moment that the request needs.
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
