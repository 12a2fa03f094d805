package tokenissuer

import (
	"context"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/redirect"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/routes"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// HostClientID is the client of sign-ins at hosts.
const HostClientID = store.BuiltInClientID

// hostClient is the built-in client when a browser signs in at a host behind the gate.
func (se *Settings) hostClient() *store.Client {
	client := se.builtInClient()
	client.Grants, client.FirstParty, client.PKCE = []oauth.GrantType{oauth.AuthorizationCode}, true, oauth.PKCERequired
	return client
}

// HostScopes are the scopes of sessions at hosts.
func (se *Settings) HostScopes() oauth.Scopes { return se.builtInClient().Scopes }

// resolveHost is ResolveRedirect for the built-in client: the answer goes to the callback of one of the hosts.
func (is *Issuer) resolveHost(redirectURI string) (*store.Client, redirect.Target, error) {
	target, err := redirect.ToHost(&is.Hosts, redirectURI, is.URL)
	return is.hostClient(), target, err
}

// readHostSignIn reads what a sign-in at a host says beyond OAuth. Its session can do what any session can.
func readHostSignIn(r *AuthorizationRequest, client *store.Client, p AuthorizationParameters) error {
	switch {
	case p.Nonce == "":
		return oauth.MissingParameter("nonce")
	case len(p.Nonce) > maxNonce, len(p.Provider) > maxHint:
		return oauth.NewError(oauth.InvalidRequest, "parameter_too_long")
	case r.State == "":
		return oauth.MissingParameter("state")
	}
	r.Nonce, r.Provider, r.Scopes, r.Audience = p.Nonce, p.Provider, client.Scopes, nil
	return nil
}

// OpenHostSession signs a user in at a host who has signed in at an identity provider, without a sign-in at an issuer of ours. It is
// one durable step. AuthTime is zero where the provider does not say. Attempt names what the browser came back from: it opens one session.
func (is *Issuer) OpenHostSession(ctx context.Context, who SignedIn, host routes.Host, attempt string) (id string, err error) {
	now, authTime := is.Now(), who.AuthTime
	if authTime.After(now) {
		authTime = now
	}
	f := is.newSignIn(who.User, is.hostClient(), store.HostSession, authTime)
	f.Provider, f.Proof, f.Preconditions.Subject, f.Scopes, f.ExpiresAt = who.Provider, who.Proof, who.Subject, is.HostScopes(), now.Add(is.Sessions.max())
	f.Code = store.CodeBinding{RequestID: attempt, RedirectURI: host.Callback(), ExpiresAt: now, SpentAt: now}
	return f.ID, is.addFamily(ctx, f, who.User)
}

// EndHostSessionsOf ends the sessions that a user has at hosts by a provider, in every browser.
func (k *Records) EndHostSessionsOf(ctx context.Context, user *store.User, provider string) error {
	return k.endHostSessions(ctx, user, func(f *store.TokenFamily) bool { return f.SessionID == "" && f.Provider == provider })
}

// endHostSessions ends those of the sessions of a user at hosts that are meant.
func (k *Records) endHostSessions(ctx context.Context, user *store.User, meant func(*store.TokenFamily) bool) error {
	families, err := k.Store.FamiliesOf(ctx, user.ID, k.Now())
	if err != nil {
		return err
	}
	for _, f := range families {
		if f.Origin != store.HostSession || !meant(f) {
			continue
		}
		if err := k.EndFamilies(ctx, store.FamilyFilter{ID: f.ID}); err != nil {
			return err
		}
	}
	return nil
}

// bindHost makes a family that was approved for the built-in client the session of a host.
func (r *AuthorizationRequest) bindHost(f *store.TokenFamily) {
	f.Origin, f.SessionID, f.Code.Nonce, f.Code.Refreshable = store.HostSession, f.Preconditions.SessionID, r.Nonce, false
}
