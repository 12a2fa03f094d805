package tokenissuer

import "github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"

// InspectCredential says which of our own credentials a text is, and of which token family; empty when it is none. Whether it is
// still good it does not say.
func (c *Credentials) InspectCredential(text oauth.Secret) (what, familyID string) {
	if c.Master == nil {
		return "", ""
	}
	if id, _, genuine := c.Master.ReadRefreshToken(text); genuine {
		return "a refresh token of this issuer, which the gate never takes", id
	}
	if id, genuine := c.Master.ReadCode(text); genuine {
		return "an authorization code of this issuer, which the token endpoint takes once", id
	}
	if id, genuine := c.Master.ReadSession(text); genuine {
		return "the cookie of a session of this issuer", id
	}
	return "", ""
}
