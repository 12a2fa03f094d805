package hosts

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Explainer returns explain for the sessions of an issuer.
func Explainer(issuer *tokenissuer.Issuer) func(context.Context, string) (token.Explanation, string, error) {
	return func(ctx context.Context, text string) (token.Explanation, string, error) {
		return explain(ctx, issuer, text)
	}
}

// explain returns how Sessions.Token decides about a text, by the store's state of this moment, and the origin of the host whose cookie it
// is; empty: it is the cookie of no host. The error is temporarily_unavailable.
func explain(ctx context.Context, issuer *tokenissuer.Issuer, text string) (x token.Explanation, origin string, err error) {
	s := &Sessions{issuer: issuer, allowed: issuer.HostScopes()}
	if issuer.Master == nil { // the store has not been opened
		return x, "", nil
	}
	for _, host := range issuer.Hosts.All() {
		if _, genuine := issuer.Master.ReadHostSession(text, host.Origin()); !genuine {
			continue
		}
		living := token.Finding{
			Check: "session", Promise: "the session goes on: it has not ended or expired, and its user is active", Outcome: token.CheckPassed,
		}
		if x.Claims, err = s.load(ctx, text, host); err != nil {
			return x, "", err
		}
		if x.Accepted = x.Claims != nil; !x.Accepted {
			living.Outcome, living.Reason = token.CheckFailed, oauth.AsError(errNone).Reason
		}
		x.Findings = []token.Finding{
			{Check: "form", Promise: "it was made for a host of this configuration", Outcome: token.CheckPassed}, living,
		}
		return x, host.Origin(), nil
	}
	return x, "", nil
}
