package upstream

import (
	"context"
	"maps"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// hasWanted reports whether the claims include what the configuration needs.
func (s *Settings) hasWanted(c *claimSet) bool {
	if s.GroupsClaim != "" && c.find(s.GroupsClaim) == nil {
		return false
	}
	for scope, names := range map[string][]string{oidc.ScopeEmail: {"email"}, oidc.ScopeProfile: {"name", "preferred_username"}} {
		if slices.Contains(s.Scopes, scope) && !slices.ContainsFunc(names, func(name string) bool { return c.members[name] != nil }) {
			return false
		}
	}
	return true
}

// addUserinfo adds the claims of the userinfo endpoint (OpenID Connect Core §5.3) that the ID token lacks. Userinfo is not signed. Its sub
// must equal that of the ID token; otherwise the access token may have been substituted (§5.3.4).
func (p *OpenID) addUserinfo(ctx context.Context, m *metadata, claims *claimSet, accessToken oauth.Secret) error {
	body, err := p.channel.get(ctx, m.UserinfoEndpoint, accessToken)
	if err != nil {
		return err
	}
	more, err := readUserinfo(body)
	if err != nil {
		return misconfigured("the userinfo endpoint did not answer with a JSON object: %w", err)
	}
	if more.Subject != claims.Subject {
		return untrusted("userinfo is about another sub than the ID token")
	}
	// email_verified applies only to the address in the same document.
	if claims.members["email"] != nil && claims.text("email") != more.text("email") {
		delete(more.members, "email_verified")
	}
	delete(more.members, "amr") // userinfo does not describe a sign-in
	merged := maps.Clone(more.members)
	if claims.members["email"] == nil {
		delete(claims.members, "email_verified")
	}
	maps.Copy(merged, claims.members)
	claims.members = merged
	return nil
}

// readUserinfo decodes a userinfo response. Of the claims used to verify an ID token, it keeps only sub.
func readUserinfo(body []byte) (*claimSet, error) {
	more, err := strictjson.Members(body)
	if err != nil {
		return nil, err
	}
	subject, _ := more["sub"].(string)
	return &claimSet{registered: registered{Subject: subject}, members: more}, nil
}
