package endpoint

import (
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// openIDMetadata has the members of OpenID provider metadata beyond RFC 8414 (OpenID Connect Discovery §3, RP-Initiated Logout §2.1,
// Back-Channel Logout §2.1).
type openIDMetadata struct {
	UserInfo          string            `json:"userinfo_endpoint"`
	EndSession        string            `json:"end_session_endpoint"`
	SubjectTypes      []string          `json:"subject_types_supported"`
	IDTokenAlgorithms []oauth.Algorithm `json:"id_token_signing_alg_values_supported"`
	Claims            []string          `json:"claims_supported"`
	ClaimTypes        []string          `json:"claim_types_supported"`
	ACRValues         []string          `json:"acr_values_supported"`
	PromptValues      []string          `json:"prompt_values_supported"`
	DisplayValues     []string          `json:"display_values_supported"`
	// ClaimsParameter and the four after it are always written, because some of their defaults differ.
	ClaimsParameter     bool `json:"claims_parameter_supported"`
	RequestParameter    bool `json:"request_parameter_supported"`
	RequestURIParameter bool `json:"request_uri_parameter_supported"`
	BackchannelLogout   bool `json:"backchannel_logout_supported"`
	BackchannelSession  bool `json:"backchannel_logout_session_supported"`
}

// tokenClaims are the claims of ID tokens that do not describe the user.
var tokenClaims = []string{"iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "at_hash", "sid", "acr", "amr"}

func openIDMetadataOf(base string, az *issuer.Authorizations) *openIDMetadata {
	return &openIDMetadata{
		UserInfo:          base + userInfoPath,
		EndSession:        base + logoutPath,
		SubjectTypes:      []string{"public"},
		IDTokenAlgorithms: oauth.OwnAlgorithms,
		Claims:            slices.Concat(tokenClaims, token.IDClaimNames()),
		ClaimTypes:        []string{"normal"},
		ACRValues:         az.ACRs(),
		PromptValues:      az.PromptValues(),
		DisplayValues:     []string{"page"},
		ClaimsParameter:   true,
		BackchannelLogout: true, BackchannelSession: true,
	}
}

// Metadata returns the issuer's metadata as clients receive it.
func (h *Handler) Metadata() []byte { return *h.documents.metadata.Load() }

// DiscoveryURL returns the URL of an issuer's metadata: an OpenID provider's (OpenID Connect Discovery §4), or an authorization server's.
func DiscoveryURL(issuer string, openID bool) string {
	if openID {
		return strings.TrimSuffix(issuer, "/") + wellKnownOpenID
	}
	return strings.TrimSuffix(issuer, "/") + wellKnownServer
}
