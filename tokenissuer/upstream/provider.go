package upstream

import (
	"context"
	"time"

	"golang.org/x/oauth2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// Provider is an identity provider at which people sign in with a browser. It is safe for concurrent use. The errors of its methods are
// *oauth.Error with one of the reasons of outcome.go; Description is the sentence for the person.
type Provider interface {
	// Begin returns the URL to send the browser to, and the flow, which the caller keeps for Finish, sealed and bound to that browser.
	Begin(context.Context, Request) (location string, flow Flow, err error)
	// Finish redeems the code of an answer and returns the person's account. The caller must have checked the answer's state.
	Finish(context.Context, Flow, Answer, string) (signin.Account, error)
	// SignOutURL returns the URL at which a browser signs out of the provider. It is empty if the provider has none or it is not known yet.
	SignOutURL(SignOut) string
	// Test checks the provider now, step by step, for its operator. redirectURI is where the provider will send browsers.
	Test(ctx context.Context, redirectURI string) []signin.Step
	// State returns the health of the provider. It makes no requests.
	State() signin.State
	// UseSnapshots sets the storage for what the provider publishes, or nil for none.
	UseSnapshots(fetch.Snapshots)
	// Run keeps what the provider publishes fresh until ctx ends.
	Run(context.Context)
}

// Client is our registration at a provider.
type Client struct {
	ID string
	// Secret is empty for a public client, which PKCE alone protects.
	Secret oauth.Secret
}

// Request describes a sign-in.
type Request struct {
	// RedirectURI is where the provider sends the browser back, byte for byte as registered there.
	RedirectURI string
	// State is returned with the answer. The caller binds it to the browser.
	State string
	// LoginHint is the address or name that the person has already entered, or empty.
	LoginHint string
	// Prompt is none, login, consent or select_account (OpenID Connect Core §3.1.2.1). If it is empty, the provider decides. With login,
	// the provider must prove that the person has signed in since.
	Prompt string
	// MaxAge is the maximum age of the sign-in at the provider. Zero means any age.
	MaxAge time.Duration
}

// Flow is the state of a sign-in between Begin and Finish. The caller must keep it secret and unmodified.
type Flow struct {
	// Nonce must be in the ID token.
	Nonce string
	// Verifier is the PKCE verifier (RFC 7636).
	Verifier oauth.Secret
	// Began is when the browser was sent to the provider. Fresh requires that the person has signed in there since.
	Began time.Time
	Fresh bool
	// MaxAge is that of the request.
	MaxAge time.Duration
	// Refreshes reports that no person takes part: a refresh token was redeemed, and the ID token needs no nonce (OpenID Connect Core §12.2).
	Refreshes bool
}

// newFlow returns a flow with new secrets. The nonce has 130 bits, the verifier 256.
func newFlow(r Request, now time.Time) Flow {
	return Flow{
		Nonce: oauth.NewID(), Verifier: oauth.NewSecret(oauth2.GenerateVerifier()), Began: now, Fresh: r.Prompt == promptLogin, MaxAge: r.MaxAge,
	}
}

// SignOut describes a sign-out at the provider.
type SignOut struct {
	// RedirectURI is where the provider sends the browser afterwards. It is registered there. If it is empty, the browser stays.
	RedirectURI string
	// State is returned with the browser, or empty.
	State string
	// Hint is the person's address or name, or empty.
	Hint string
}

// clockSkew is the tolerated difference between our clock and the provider's.
const clockSkew = time.Minute
