package oauth

import (
	"fmt"
	"slices"
	"strings"
)

// GrantType is a way to obtain tokens (RFC 6749 §1.3).
type GrantType string

// The grant types a client can be registered for.
const (
	AuthorizationCode GrantType = "authorization_code"
	ClientCredentials GrantType = "client_credentials"
	RefreshTokenGrant GrantType = "refresh_token"
	PasswordGrant     GrantType = "password"
	// JWTBearer is for tokens of others (RFC 7523 §2.1).
	JWTBearer GrantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	// TokenExchange is for tokens of ours that become tokens for the next service (RFC 8693).
	TokenExchange GrantType = "urn:ietf:params:oauth:grant-type:token-exchange"
	// DeviceCode is for devices without a browser, whose user signs in on another device (RFC 8628).
	DeviceCode GrantType = "urn:ietf:params:oauth:grant-type:device_code"
)

// KnownGrants are the grant types a client can be registered for.
var KnownGrants = []GrantType{ClientCredentials, AuthorizationCode, RefreshTokenGrant, PasswordGrant, JWTBearer, TokenExchange, DeviceCode}

// Validate refuses grant types that no client can be registered for.
func (g GrantType) Validate() error {
	if !slices.Contains(KnownGrants, g) {
		return fmt.Errorf("unknown grant %q: use %s", g, joinGrants(KnownGrants))
	}
	return nil
}

func joinGrants(grants []GrantType) string {
	names := make([]string, len(grants))
	for i, g := range grants {
		names[i] = string(g)
	}
	return strings.Join(names, ", ")
}
