package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// GitHubSettings configure GitHub or a GitHub Enterprise Server.
type GitHubSettings struct {
	// Name is the provider's name in the configuration.
	Name   string
	Client Client
	// URL is the URL of a GitHub Enterprise Server. If it is empty, the provider is github.com.
	URL string
	// Groups is the source of a person's groups. If it is empty, there are none.
	Groups GitHubGroups
	// Organisations are the organisations that count, with their teams. Any GitHub user can create others, with any name.
	Organisations []string
	// AllowPrivateNetwork allows loopback, private and link-local addresses, and plain http on loopback.
	AllowPrivateNetwork bool
}

// GitHubGroups is the source of groups at GitHub.
type GitHubGroups string

const (
	// GitHubOrganisations are the logins of the person's organisations, such as "acme".
	GitHubOrganisations GitHubGroups = "organisations"
	// GitHubTeams are the organisations and their teams, such as "acme" and "acme/platform".
	GitHubTeams GitHubGroups = "teams"
)

// ParseGitHubGroups returns the GitHubGroups of that name.
func ParseGitHubGroups(name string) (GitHubGroups, error) {
	if g := GitHubGroups(name); g == GitHubOrganisations || g == GitHubTeams {
		return g, nil
	}
	return "", fmt.Errorf("unknown groups of GitHub %q: use organisations or teams", name)
}

// GitHub uses OAuth 2.0 without OpenID Connect: there are no ID tokens and no metadata, and its API identifies the person.
type GitHub struct {
	settings GitHubSettings
	channel  *channel
	// web and api are URLs without a slash at the end.
	web, api string
	now      func() time.Time
	health   signin.Health
}

// NewGitHub returns a GitHub. It makes no requests. It returns an error for invalid settings.
func NewGitHub(settings GitHubSettings, options fetch.Options) (*GitHub, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	g := &GitHub{
		settings: settings, channel: newChannel(settings.AllowPrivateNetwork), now: options.Now, web: "https://github.com", api: "https://api.github.com",
	}
	if settings.Client.ID == "" || settings.Client.Secret.IsEmpty() {
		return nil, errors.New("GitHub needs the client's id and secret")
	}
	if settings.URL != "" {
		g.web = strings.TrimSuffix(settings.URL, "/")
		g.api = g.web + "/api/v3"
	}
	return g, g.channel.client.CheckURL(g.web)
}

// UseSnapshots does nothing: GitHub publishes nothing to store.
func (g *GitHub) UseSnapshots(fetch.Snapshots) {}

// Run waits until ctx ends.
func (g *GitHub) Run(ctx context.Context) {
	<-ctx.Done()
	g.channel.client.CloseIdleConnections()
}

func (g *GitHub) config(redirectURI string) oauth2.Config {
	return oauth2.Config{
		ClientID: g.settings.Client.ID, ClientSecret: g.settings.Client.Secret.Reveal(), RedirectURL: redirectURI, Scopes: g.scopes(),
		Endpoint: oauth2.Endpoint{
			AuthURL: g.web + "/login/oauth/authorize", TokenURL: g.web + "/login/oauth/access_token", AuthStyle: oauth2.AuthStyleInParams,
		},
	}
}

// scopes returns the scopes that the API calls need.
func (g *GitHub) scopes() []string {
	if g.settings.Groups == "" {
		return []string{"read:user", "user:email"}
	}
	return []string{"read:user", "user:email", "read:org"}
}

// Begin returns the URL of GitHub's authorization endpoint. GitHub supports neither nonce nor max_age, and of the prompts only
// select_account. It does not return the time of the sign-in, so it cannot prove a fresh one.
func (g *GitHub) Begin(_ context.Context, r Request) (location string, flow Flow, err error) {
	if r.Prompt == "none" {
		return "", Flow{}, ErrInteraction.WithCause(errors.New("GitHub does not know prompt=none"))
	}
	if r.Prompt == promptLogin || r.MaxAge > 0 {
		return "", Flow{}, ErrInteraction.WithCause(errors.New("GitHub does not say when somebody signed in, so it cannot prove a fresh sign-in"))
	}
	flow = newFlow(r, g.now())
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(flow.Verifier.Reveal())}
	if r.LoginHint != "" && !strings.Contains(r.LoginHint, "@") {
		options = append(options, oauth2.SetAuthURLParam("login", r.LoginHint))
	}
	if r.Prompt == "select_account" {
		options = append(options, oauth2.SetAuthURLParam("prompt", r.Prompt))
	}
	config := g.config(r.RedirectURI)
	return config.AuthCodeURL(r.State, options...), flow, nil
}

// Finish redeems the code and fetches the person from the API.
func (g *GitHub) Finish(ctx context.Context, flow Flow, a Answer, redirectURI string) (account signin.Account, err error) {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	switch {
	case a.Issuer != "" && a.Issuer != g.web+"/login/oauth" && a.Issuer != g.web:
		return signin.Account{}, untrusted("the answer is that of issuer %.200q, not of GitHub", a.Issuer)
	case a.Error != "":
		return signin.Account{}, said(a.Error)
	case a.Code.IsEmpty():
		return signin.Account{}, malformed("the answer has no code")
	}
	leave, err := g.channel.enter()
	if err != nil {
		return signin.Account{}, err
	}
	defer leave()
	defer func() { noted(&g.health, g.now(), err) }()
	tokens, err := g.channel.redeem(ctx, g.config(redirectURI), flow, a.Code)
	if err != nil {
		return signin.Account{}, err
	}
	if err := g.checkScopes(tokens); err != nil {
		return signin.Account{}, err
	}
	return g.account(ctx, oauth.NewSecret(tokens.AccessToken))
}

// checkScopes refuses a token with fewer scopes than requested, because organisations would silently be missing. A GitHub App has
// permissions instead of scopes, and an empty list.
func (g *GitHub) checkScopes(tokens *oauth2.Token) error {
	granted, _ := tokens.Extra("scope").(string)
	names := strings.FieldsFunc(granted, func(r rune) bool { return r == ',' || r == ' ' })
	if g.settings.Groups != "" && len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ":org") }) {
		return ErrDenied.WithCause(fmt.Errorf("GitHub granted %q, without read:org", granted))
	}
	return nil
}

// SignOutURL returns "": GitHub offers no sign-out for clients.
func (g *GitHub) SignOutURL(SignOut) string { return "" }

// State returns the health of the provider.
func (g *GitHub) State() signin.State { return g.health.State() }

// endpoint returns a URL of the API.
func (g *GitHub) endpoint(path string, query url.Values) string {
	if len(query) == 0 {
		return g.api + path
	}
	return g.api + path + "?" + query.Encode()
}
