package tokenissuer

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// HostClientID is the client of sign-ins at hosts.
const HostClientID = store.BuiltInClientID

// Paths on each host behind the gate: HostCallbackPath is where a browser comes back to from the sign-in, and HostSignOutPath says
// that somebody has signed out, or asks.
const (
	HostCallbackPath = "/oauth/callback"
	HostSignOutPath  = "/oauth/sign_out"
)

// Host is a host at which browsers sign in: the scheme and the authority of its origin (RFC 6454).
type Host struct{ Scheme, Authority string }

// Origin returns the origin of the host as browsers send it.
func (h Host) Origin() string { return h.Scheme + "://" + h.Authority }

// Callback returns the redirect URI of the host.
func (h Host) Callback() string { return h.Origin() + HostCallbackPath }

// Hosts are those at which browsers can sign in. They are known once all routes are, and replaced as a whole. The zero value
// knows none.
type Hosts struct{ known atomic.Pointer[knownHosts] }

type knownHosts struct {
	exact map[string]Host // by authority
}

// Publish replaces the hosts by those of the origins. Of two origins with one authority that of https counts.
func (hs *Hosts) Publish(origins []string) {
	known := &knownHosts{exact: make(map[string]Host)}
	for _, origin := range origins {
		scheme, authority, _ := strings.Cut(origin, "://")
		if known.exact[authority].Scheme != "https" {
			known.exact[authority] = Host{scheme, authority}
		}
	}
	hs.known.Store(known)
}

// Find returns the host of the authority that a request is for, which is its Host header or :authority. It does not allocate for
// one that browsers write.
func (hs *Hosts) Find(authority string) (Host, bool) {
	known := hs.known.Load()
	if known == nil {
		return Host{}, false
	}
	if host, ok := known.exact[authority]; ok {
		return host, true
	}
	authority = strings.ToLower(authority)
	for _, scheme := range []string{"https", "http"} {
		portless := strings.TrimSuffix(authority, map[string]string{"https": ":443", "http": ":80"}[scheme])
		if host, ok := known.exact[portless]; ok && host.Scheme == scheme {
			return host, true
		}
	}
	return Host{}, false
}

// Has reports whether an origin is one of the hosts', written as browsers do.
func (hs *Hosts) Has(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	host, ok := hs.Find(u.Host)
	return ok && host.Origin() == origin
}

// hostClient is the built-in client when a browser signs in at a host behind the gate.
func (se *Settings) hostClient() *store.Client {
	client := se.builtInClient()
	client.Grants, client.FirstParty, client.PKCERequired = []oauth.GrantType{oauth.AuthorizationCode}, true, true
	return client
}

// HostScopes are the scopes of sessions at hosts.
func (se *Settings) HostScopes() oauth.Scopes { return se.builtInClient().Scopes }

// PasswordProof returns what is said of a sign-in with a password: the authentication context class and methods.
func PasswordProof() (acr string, amr []string) { return passwordACR, passwordAMR }

// resolveHost is ResolveRedirect for the built-in client: the answer goes to the callback of one of the hosts.
func (is *Issuer) resolveHost(redirectURI string) (*store.Client, RedirectTarget, error) {
	client := is.hostClient()
	origin, isCallback := strings.CutSuffix(redirectURI, HostCallbackPath)
	if !isCallback || !is.Hosts.Has(origin) {
		return client, RedirectTarget{}, redirectUnregistered
	}
	return client, RedirectTarget{uri: redirectURI, issuer: is.URL}, nil
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
func (is *Issuer) OpenHostSession(ctx context.Context, who SignedIn, host Host, attempt string) (id string, err error) {
	now, authTime := is.Now(), who.AuthTime
	if authTime.After(now) {
		authTime = now
	}
	f := is.newSignIn(who.User, is.hostClient(), store.HostSession, authTime)
	f.Provider, f.Preconditions.Subject, f.Scopes, f.ExpiresAt = who.Provider, who.Subject, is.HostScopes(), now.Add(sessionLifetime)
	f.Code = store.CodeBinding{RequestID: attempt, RedirectURI: host.Callback(), ExpiresAt: now, SpentAt: now}
	return f.ID, is.addFamily(ctx, f, who.User)
}

// EndHostSessionsOf ends the sessions that a user has at hosts by a provider, in every browser.
func (k *Records) EndHostSessionsOf(ctx context.Context, user *store.User, provider string) error {
	families, err := k.Store.FamiliesOf(ctx, user.ID, k.Now())
	if err != nil {
		return oauth.Unavailable("store_unavailable", err)
	}
	for _, f := range families {
		if f.Origin != store.HostSession || f.SessionID != "" || f.Provider != provider {
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
