package upstream

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	"golang.org/x/oauth2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// metadata has the members of a provider's metadata that are used here (OpenID Connect Discovery §3, RP-Initiated Logout §2.1, RFC 9207
// §3).
type metadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	UserinfoEndpoint      string   `json:"userinfo_endpoint"`
	EndSessionEndpoint    string   `json:"end_session_endpoint"`
	JWKSURI               string   `json:"jwks_uri"`
	Algorithms            []string `json:"id_token_signing_alg_values_supported"`
	Authentication        []string `json:"token_endpoint_auth_methods_supported"`
	Challenges            []string `json:"code_challenge_methods_supported"`
	Prompts               []string `json:"prompt_values_supported"`
	Claims                []string `json:"claims_supported"`
	ResponseIssuer        bool     `json:"authorization_response_iss_parameter_supported"`
}

// readMetadata parses and checks metadata. Its error says why the metadata is unusable.
func (p *OpenID) readMetadata(document []byte) (*metadata, error) {
	m := new(metadata)
	if err := strictjson.Object(document, m); err != nil {
		return nil, fmt.Errorf("the metadata is malformed: %w", err)
	}
	if len(m.usableAlgorithms()) == 0 {
		return nil, fmt.Errorf("the metadata offers %s for ID tokens: none of these is verified with a public key that we support", joined(m.Algorithms))
	}
	if _, err := m.authStyle(p.settings.Client); err != nil {
		return nil, err
	}
	return m, errors.Join(m.endpoints(p.channel.client.CheckURL)...)
}

// endpoints returns an error for each unusable endpoint.
func (m *metadata) endpoints(check func(string) error) (failed []error) {
	for _, e := range []struct {
		name, address string
		needed        bool
	}{
		{"authorization_endpoint", m.AuthorizationEndpoint, true},
		{"token_endpoint", m.TokenEndpoint, true},
		{"userinfo_endpoint", m.UserinfoEndpoint, false},
		{"end_session_endpoint", m.EndSessionEndpoint, false},
	} {
		u, err := url.Parse(e.address)
		switch {
		case e.address == "" && e.needed:
			err = errors.New("the metadata has none")
		case e.address == "":
			continue
		case err == nil && u.Fragment != "":
			err = fmt.Errorf("%s has a fragment", e.address)
		case err == nil:
			err = check(e.address)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", e.name, err))
		}
	}
	return failed
}

// usableAlgorithms returns the algorithms with which the provider may sign ID tokens, without none and symmetric ones. Every provider must
// support RS256 (OpenID Connect Discovery §3).
func (m *metadata) usableAlgorithms() (usable []string) {
	offered := m.Algorithms
	if len(offered) == 0 {
		offered = []string{string(oauth.RS256)}
	}
	for _, name := range offered {
		if slices.Contains(oauth.TrustedAlgorithms, oauth.Algorithm(name)) {
			usable = append(usable, name)
		}
	}
	return usable
}

// authStyle returns how we authenticate at the token endpoint. It prefers HTTP Basic, which is also the default of metadata without the
// member.
func (m *metadata) authStyle(c Client) (oauth2.AuthStyle, error) {
	switch methods := m.Authentication; {
	case c.Secret.IsEmpty():
		return oauth2.AuthStyleInParams, nil // only client_id
	case len(methods) == 0, slices.Contains(methods, "client_secret_basic"):
		return oauth2.AuthStyleInHeader, nil
	case slices.Contains(methods, "client_secret_post"):
		return oauth2.AuthStyleInParams, nil
	default:
		return 0, fmt.Errorf("the token endpoint takes %s: client_secret_basic or client_secret_post is needed", joined(methods))
	}
}
