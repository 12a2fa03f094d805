package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// Settings configure an OpenID provider.
type Settings struct {
	// Name is the provider's name in the configuration.
	Name string
	// Issuer is the provider's issuer identifier. iss must equal it byte for byte.
	Issuer string
	Client Client
	// Scopes are the requested scopes. Default: openid, email and profile. openid is always included.
	Scopes []string
	// GroupsClaim is the claim with the groups, or a path to it such as realm_access.roles. If it is empty, the provider sends no groups.
	GroupsClaim string
	// KeepsRefreshToken keeps the refresh token of a sign-in for Recheck.
	KeepsRefreshToken bool
	// AllowPrivateNetwork allows loopback, private and link-local addresses, and plain http on loopback.
	AllowPrivateNetwork bool
}

// finishTimeout bounds Finish: token endpoint, keys and userinfo together. Each has five seconds of its own. A shutdown waits for Finish
// and must end within ten seconds.
const finishTimeout = 8 * time.Second

// OpenID is an OpenID provider.
type OpenID struct {
	settings  Settings
	channel   *channel
	published *fetch.Keys
	now       func() time.Time
	health    signin.Health
	// signIns counts the sign-ins since the start, and withGroups those with the groups claim.
	signIns, withGroups atomic.Int64
}

// NewOpenID returns an OpenID. It makes no requests. It returns an error for invalid settings.
func NewOpenID(settings Settings, options fetch.Options) (*OpenID, error) {
	if err := checkIssuer(settings.Issuer); err != nil {
		return nil, err
	}
	if settings.Client.ID == "" {
		return nil, errors.New("the client's id at the provider is missing")
	}
	if len(settings.Scopes) == 0 {
		settings.Scopes = []string{oidc.ScopeOpenID, oidc.ScopeEmail, oidc.ScopeProfile}
	}
	if !slices.Contains(settings.Scopes, oidc.ScopeOpenID) {
		settings.Scopes = append([]string{oidc.ScopeOpenID}, settings.Scopes...)
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	p := &OpenID{settings: settings, channel: newChannel(settings.AllowPrivateNetwork), now: options.Now}
	var err error
	p.published, err = fetch.NewKeys(fetch.Source{
		Owner: "an identity provider", Issuer: settings.Issuer,
		OpenID: func(document []byte) error {
			_, err := p.readMetadata(document)
			return err
		},
	}, fetch.NewClient(fetch.Limits{Reach: fetch.ReachOf(settings.AllowPrivateNetwork), Redirects: fetch.Redirects}), options)
	return p, err
}

// UseSnapshots sets the storage for metadata and keys, or nil for none.
func (p *OpenID) UseSnapshots(s fetch.Snapshots) { p.published.UseSnapshots(s) }

// Run keeps metadata and keys fresh until ctx ends.
func (p *OpenID) Run(ctx context.Context) {
	p.published.Run(ctx)
	p.channel.client.CloseIdleConnections()
}

// Begin returns the URL of the provider's authorization endpoint. It waits only if the provider's metadata was never fetched, for at most
// five seconds.
func (p *OpenID) Begin(ctx context.Context, r Request) (location string, flow Flow, err error) {
	m, err := p.metadata(ctx)
	if err != nil {
		return "", Flow{}, err
	}
	flow = newFlow(r, p.now())
	config, err := p.config(m, r.RedirectURI)
	if err != nil {
		return "", Flow{}, err
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(flow.Verifier.Reveal()), oidc.Nonce(flow.Nonce)}
	for name, value := range map[string]string{"login_hint": r.LoginHint, "prompt": p.settings.prompt(m, r.Prompt), "access_type": p.settings.accessType()} {
		if value != "" {
			options = append(options, oauth2.SetAuthURLParam(name, value))
		}
	}
	if r.MaxAge > 0 || flow.Fresh { // with max_age, the ID token must have auth_time (OpenID Connect Core §2)
		options = append(options, oauth2.SetAuthURLParam("max_age", strconv.FormatInt(int64(r.MaxAge/time.Second), 10)))
	}
	return config.AuthCodeURL(r.State, options...), flow, nil
}

// Finish redeems the code and returns the account of the person.
func (p *OpenID) Finish(ctx context.Context, flow Flow, a Answer, redirectURI string) (account signin.Account, err error) {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	leave, err := p.channel.enter()
	if err != nil {
		return signin.Account{}, err
	}
	defer leave()

	// 1. The answer comes from this provider, as far as it can show (RFC 9207). This check precedes any use of its error or code.
	m, err := p.metadata(ctx)
	if err != nil {
		return signin.Account{}, err
	}
	if err := m.checkAnswer(a); err != nil {
		return signin.Account{}, err
	}
	// Everything so far came through the browser. The rest comes from the provider itself.
	defer func() { noted(&p.health, p.now(), err) }()

	// 2. The code, with the verifier of this sign-in.
	config, err := p.config(m, redirectURI)
	if err != nil {
		return signin.Account{}, err
	}
	tokens, err := p.channel.redeem(ctx, config, flow, a.Code)
	if err != nil {
		return signin.Account{}, err
	}
	// 3. The ID token.
	claims, err := p.verify(ctx, m, flow, tokens)
	if err != nil {
		return signin.Account{}, err
	}
	// 4. Missing claims, from the userinfo endpoint.
	if m.UserinfoEndpoint != "" && !p.settings.hasWanted(claims) {
		if err := p.addUserinfo(ctx, m, claims, oauth.NewSecret(tokens.AccessToken)); err != nil {
			return signin.Account{}, err
		}
	}
	if p.signIns.Add(1); claims.find(p.settings.GroupsClaim) != nil {
		p.withGroups.Add(1)
	}
	if account, err = p.settings.account(claims); err == nil && p.settings.KeepsRefreshToken {
		account.RefreshToken = oauth.NewSecret(tokens.RefreshToken)
	}
	return account, err
}

// metadata returns the provider's metadata, which was checked when it was fetched.
func (p *OpenID) metadata(ctx context.Context) (*metadata, error) {
	document, err := p.published.Metadata(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	m, err := p.readMetadata(document)
	if err != nil {
		return nil, misconfigured("%w", err)
	}
	return m, nil
}

func (p *OpenID) config(m *metadata, redirectURI string) (oauth2.Config, error) {
	style, err := m.authStyle(p.settings.Client)
	if err != nil {
		return oauth2.Config{}, misconfigured("%w", err)
	}
	return oauth2.Config{
		ClientID: p.settings.Client.ID, ClientSecret: p.settings.Client.Secret.Reveal(), RedirectURL: redirectURI, Scopes: p.settings.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: m.AuthorizationEndpoint, TokenURL: m.TokenEndpoint, AuthStyle: style},
	}, nil
}

// checkAnswer refuses an answer from another provider, and the provider's own error.
func (m *metadata) checkAnswer(a Answer) error {
	switch {
	case a.Issuer != "" && a.Issuer != m.Issuer:
		return untrusted("the answer is that of issuer %.200q, not of %q", a.Issuer, m.Issuer)
	case a.Issuer == "" && m.ResponseIssuer:
		return untrusted("the answer has no iss, which the provider's metadata promises")
	case a.Error != "":
		return said(a.Error)
	case a.Code.IsEmpty():
		return malformed("the answer has no code")
	}
	return nil
}

// SignOutURL returns the URL of the provider's RP-initiated logout (OpenID Connect RP-Initiated Logout §2). The provider asks the person
// for confirmation, because no ID token of the sign-in is kept here.
func (p *OpenID) SignOutURL(s SignOut) string {
	document := p.published.Known().Metadata()
	if document == nil {
		return ""
	}
	m, err := p.readMetadata(document)
	if err != nil || m.EndSessionEndpoint == "" {
		return ""
	}
	u, err := url.Parse(m.EndSessionEndpoint)
	if err != nil {
		return ""
	}
	query := u.Query()
	for name, value := range map[string]string{
		"client_id": p.settings.Client.ID, "post_logout_redirect_uri": s.RedirectURI, "state": s.State, "logout_hint": s.Hint,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// checkIssuer refuses an issuer that cannot occur in an ID token.
func checkIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil {
		return err
	}
	if u.RawQuery != "" || u.Fragment != "" || u.Host == "" {
		return fmt.Errorf("%q is no issuer: write the provider's URL, without query and fragment", issuer)
	}
	return checkTenant(u)
}
