package endpoint

import (
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// identityGrantProfile names identity assertion grants (draft-ietf-oauth-identity-assertion-authz-grant §7.2).
const identityGrantProfile = "urn:ietf:params:oauth:grant-profile:id-jag"

// serverMetadata is the authorization server metadata (RFC 8414 §2).
type serverMetadata struct {
	Issuer                  string            `json:"issuer"`
	Authorization           string            `json:"authorization_endpoint"`
	Token                   string            `json:"token_endpoint"`
	DeviceAuthorization     string            `json:"device_authorization_endpoint"` // RFC 8628 §4
	JWKS                    string            `json:"jwks_uri"`
	Revocation              string            `json:"revocation_endpoint"`
	Introspection           string            `json:"introspection_endpoint"`
	Scopes                  []string          `json:"scopes_supported"`
	ResponseTypes           []string          `json:"response_types_supported"`
	ResponseModes           []string          `json:"response_modes_supported"`
	Grants                  []oauth.GrantType `json:"grant_types_supported"`
	TokenMethods            []string          `json:"token_endpoint_auth_methods_supported"`
	RevocationMethods       []string          `json:"revocation_endpoint_auth_methods_supported"`
	IntrospectionMethods    []string          `json:"introspection_endpoint_auth_methods_supported"`
	TokenAlgorithms         []oauth.Algorithm `json:"token_endpoint_auth_signing_alg_values_supported"`
	RevocationAlgorithms    []oauth.Algorithm `json:"revocation_endpoint_auth_signing_alg_values_supported"`
	IntrospectionAlgorithms []oauth.Algorithm `json:"introspection_endpoint_auth_signing_alg_values_supported"`
	GrantProfiles           []string          `json:"authorization_grant_profiles_supported,omitzero"`
	ChallengeMethods        []string          `json:"code_challenge_methods_supported"`
	IssInResponse           bool              `json:"authorization_response_iss_parameter_supported"`
	UILocales               []string          `json:"ui_locales_supported"`

	// ClientDocuments reports that a client id can be the URL of a metadata document (OAuth Client ID Metadata Document §5).
	ClientDocuments bool `json:"client_id_metadata_document_supported,omitzero"`

	// Registration is the client registration endpoint (RFC 7591). It is empty if clients cannot register.
	Registration string `json:"registration_endpoint,omitzero"`

	*openIDMetadata
}

// PublishMetadata updates the metadata. It must be called when the admitted clients have changed.
func (h *Handler) PublishMetadata() error { return h.documents.publish() }

func (d *documents) publish() error {
	document, err := d.issuerMetadata()
	if err == nil {
		d.metadata.Store(&document)
	}
	return err
}

// issuerMetadata returns the issuer's metadata, including that of an OpenID provider if it is one. Every URL comes from the configuration.
func (d *documents) issuerMetadata() ([]byte, error) {
	policy := d.policy
	base := strings.TrimSuffix(policy.URL, "/")
	proving := []string{"client_secret_basic", "client_secret_post", store.PrivateKeyJWT}
	m := serverMetadata{
		Issuer:               policy.URL,
		Authorization:        base + authorizePath,
		Token:                base + clients.TokenPath,
		DeviceAuthorization:  base + deviceAuthorizationPath,
		JWKS:                 base + "/oauth/jwks",
		Revocation:           base + "/oauth/revoke",
		Introspection:        base + "/oauth/introspect",
		Scopes:               policy.Scopes.Names(),
		ResponseTypes:        []string{"code"},
		ResponseModes:        []string{"query"},
		Grants:               d.grants.Served(),
		TokenMethods:         append(proving, "none"),
		RevocationMethods:    append(proving, "none"),
		IntrospectionMethods: proving,
		ChallengeMethods:     []string{"S256"},
		IssInResponse:        true,
		UILocales:            d.languages,
		ClientDocuments:      d.open.ReadsDocuments(),
		Registration:         d.register,
		TokenAlgorithms:      oauth.TrustedNames, RevocationAlgorithms: oauth.TrustedNames, IntrospectionAlgorithms: oauth.TrustedNames,
	}
	if d.grants.AcceptsPeople() {
		m.GrantProfiles = []string{identityGrantProfile}
	}
	if policy.OpenID {
		m.ResponseModes = append(m.ResponseModes, "form_post")
		m.openIDMetadata = openIDMetadataOf(base, d.authorizations)
	}
	return json.Marshal(m)
}
