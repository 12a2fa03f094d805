package upstream

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// ErrGone means that the provider does not accept a refresh token any more: the account was removed or disabled, or has withdrawn the consent.
var ErrGone = oauth.NewError(oauth.InvalidGrant, "provider_account_gone")

// Recheck redeems a refresh token (OpenID Connect Core §12) and returns the account as it is now. It implements signin.Source. The error is
// ErrGone if the provider refuses the token, signin.ErrNoToken without one, and ErrUnavailable or ErrMisconfigured for any other failure. A
// provider that answers with neither an ID token nor userinfo that has everything has said only that the account exists: the account is
// NamedOnly. A new refresh token is in the account also beside an error.
func (p *OpenID) Recheck(ctx context.Context, subject string, token oauth.Secret) (account signin.Account, err error) {
	if token.IsEmpty() {
		return signin.Account{}, signin.ErrNoToken
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout) // the answer to a redeemed token must not be lost
	defer cancel()
	leave, err := p.channel.enter()
	if err != nil {
		return signin.Account{}, err
	}
	defer leave()
	defer func() { noted(&p.health, p.now(), err) }()

	// 1. New tokens.
	m, err := p.metadata(ctx)
	if err != nil {
		return signin.Account{}, err
	}
	config, err := p.config(m, "")
	if err != nil {
		return signin.Account{}, err
	}
	tokens, err := p.channel.refresh(ctx, config, token)
	if err != nil {
		return signin.Account{}, err
	}
	// 2. What they say. An answer that cannot be trusted is no reason to end anything.
	account, err = p.accountOf(ctx, m, subject, tokens)
	if err != nil && !errors.Is(err, ErrUnavailable) {
		err = misconfigured("%w", err)
	}
	if subtle.ConstantTimeCompare([]byte(tokens.RefreshToken), []byte(token.Reveal())) == 0 {
		account.RefreshToken = oauth.NewSecret(tokens.RefreshToken)
	}
	return account, err
}

// accountOf returns the account of a subject by the tokens of a refresh.
func (p *OpenID) accountOf(ctx context.Context, m *metadata, subject string, tokens *oauth2.Token) (signin.Account, error) {
	named := signin.Account{Provider: p.settings.Name, Subject: subject, NamedOnly: true}
	claims, hasIDToken := &claimSet{registered: registered{Subject: subject}, members: make(map[string]any)}, false
	if text, _ := tokens.Extra("id_token").(string); text != "" {
		var err error
		if claims, err = p.verify(ctx, m, Flow{Refreshes: true}, tokens); err != nil {
			return named, err
		}
		if claims.Subject != subject {
			return named, errors.New("the ID token is about another sub")
		}
		hasIDToken = true
	}
	if m.UserinfoEndpoint == "" && !hasIDToken {
		return named, nil
	}
	if m.UserinfoEndpoint != "" && !p.settings.hasWanted(claims) {
		if err := p.addUserinfo(ctx, m, claims, oauth.NewSecret(tokens.AccessToken)); err != nil {
			return named, err
		}
	}
	if !hasIDToken && (!p.settings.hasWanted(claims) || claims.members["email_verified"] == nil) {
		return named, nil // the provider sends some claims in ID tokens alone
	}
	account, err := p.settings.account(claims)
	if err != nil {
		return named, err
	}
	return account, nil
}

// refresh redeems a refresh token (RFC 6749 §6). The result has the earlier one if there is no new one.
func (c *channel) refresh(ctx context.Context, config oauth2.Config, token oauth.Secret) (*oauth2.Token, error) {
	source := config.TokenSource(oidc.ClientContext(ctx, c.http), &oauth2.Token{RefreshToken: token.Reveal()})
	tokens, err := source.Token()
	if err == nil {
		return tokens, nil
	}
	secrets := []oauth.Secret{token, oauth.NewSecret(config.ClientSecret), basic(config)}
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.ErrorCode == "invalid_grant" {
		return nil, ErrGone.WithCause(withoutSecrets(fmt.Errorf("the refresh token is refused: %.400q", refused.ErrorDescription), secrets))
	}
	err = refusal(err, secrets...)
	if errors.Is(err, ErrExpired) {
		err = misconfigured("%w", err)
	}
	return nil, err
}
