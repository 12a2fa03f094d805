package signin

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// HostSessionExplainer returns the explain method for host sessions of an issuer. roles are those that users can have.
func HostSessionExplainer(sessions *Sessions, roles store.RoleCatalogue, at *oauth.Hosts) func(context.Context, string) (token.Explanation, string, error) {
	s := &HostSessions{sessions: sessions, roles: roles, allowed: sessions.Clients.BuiltIn().Scopes}
	return func(ctx context.Context, text string) (token.Explanation, string, error) {
		return s.explain(ctx, text, at)
	}
}

// explain returns how Token decides about a text, by the current state of the store, and the origin of the host whose cookie it is. origin
// is empty if the text is not the cookie of a host. The error is temporarily_unavailable.
func (s *HostSessions) explain(ctx context.Context, text string, at *oauth.Hosts) (x token.Explanation, origin string, err error) {
	if s.families().Master == nil { // the store is not open yet
		return x, "", nil
	}
	for _, host := range at.All() {
		if _, genuine := s.families().Master.ReadHostSession(text, host.Origin()); !genuine {
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
