package caddymodule

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// The answers of the admin API, as docs/operations.md describes them.
type (
	clientView struct {
		Provider       map[string]string `json:"provider"`
		ID             string            `json:"id"`
		Name           string            `json:"name"`
		Type           store.ClientType  `json:"type"`
		Grants         []oauth.GrantType `json:"grants"`
		Scopes         []string          `json:"scopes"`
		RedirectURIs   []string          `json:"redirect_uris"`
		CORSOrigins    []string          `json:"cors_origins"`
		FirstParty     bool              `json:"first_party"`
		PKCE           string            `json:"pkce"`
		RevokePrevious bool              `json:"revoke_previous_access_token"`
		Tokens         map[string]string `json:"tokens"`
		store.ClientOpenID
		Disabled  bool      `json:"disabled"`
		Source    string    `json:"source"`
		CreatedAt time.Time `json:"created_at"`
		Secret    string    `json:"client_secret"`
		Secrets   []struct {
			CreatedAt time.Time `json:"created_at"`
			ExpiresAt time.Time `json:"expires_at"`
		} `json:"secrets"`
	}
	clientSecret struct {
		ID     string `json:"id"`
		Secret string `json:"client_secret"`
	}
	userView struct {
		ID             string           `json:"id"`
		Email          string           `json:"email"`
		Name           string           `json:"name"`
		Organisation   string           `json:"organisation"`
		Role           store.Role       `json:"role"`
		RoleUndeclared bool             `json:"role_undeclared"`
		Groups         []string         `json:"groups"`
		Status         store.UserStatus `json:"status"`
		HasPassword    bool             `json:"has_password"`
		External       bool             `json:"external"`
		Identities     []struct {
			Provider   string    `json:"provider"`
			Subject    string    `json:"subject"`
			LinkedAt   time.Time `json:"linked_at"`
			LastUsedAt time.Time `json:"last_used_at"`
		} `json:"identities"`
		EmailVerified   bool     `json:"email_verified"`
		EmailVerifiedBy string   `json:"email_verified_by"`
		ProviderGroups  []string `json:"provider_groups"`
		GroupsBy        string   `json:"groups_by"`
		store.Profile
		Source    string    `json:"source"`
		CreatedAt time.Time `json:"created_at"`
	}
	organisationView struct {
		ID        string    `json:"id"`
		Name      string    `json:"name"`
		Source    string    `json:"source"`
		CreatedAt time.Time `json:"created_at"`
	}
	keyView struct {
		ID         string          `json:"kid"`
		Algorithm  oauth.Algorithm `json:"algorithm"`
		State      keys.State      `json:"state"`
		CreatedAt  time.Time       `json:"created_at"`
		ActiveFrom time.Time       `json:"active_from"`
		DueAt      time.Time       `json:"due_at"`
		RevokedAt  time.Time       `json:"revoked_at"`
		SealedWith string          `json:"sealed_with"`
	}
	mintedToken struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int64  `json:"expires_in"`
		Scope       string `json:"scope"`
		ID          string `json:"jti"`
	}
	explanation struct {
		token.Explanation `json:",inline"`

		What       string `json:"what"`
		Unverified *struct {
			Header jsontext.Value `json:"header"`
			Claims jsontext.Value `json:"claims"`
		} `json:"unverified"`
		Resource  string    `json:"resource"`
		Trust     []string  `json:"trust"`
		Subject   string    `json:"subject"`
		ClientID  string    `json:"client_id"`
		Scope     string    `json:"scope"`
		Audience  []string  `json:"aud"`
		ID        string    `json:"jti"`
		Family    string    `json:"family"`
		Actor     string    `json:"actor"`
		KeyID     string    `json:"kid"`
		IssuedAt  time.Time `json:"issued_at"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	readiness struct {
		Ready   bool     `json:"ready"`
		Reasons []string `json:"reasons"`
	}
	nodeStatus struct {
		Ready     bool                        `json:"ready"`
		Version   string                      `json:"version"`
		Reasons   []string                    `json:"reasons"`
		Streams   int                         `json:"open_streams"`
		Own       *issuerStatus               `json:",embed"`
		Trust     map[string]string           `json:"trust"`
		TrustKeys map[string]fetch.KeysReport `json:"trust_keys"`
	}
	issuerStatus struct {
		Issuer       string                     `json:"issuer"`
		Store        string                     `json:"store"`
		Revocations  int                        `json:"revocations"`
		Staleness    *float64                   `json:"revocation_staleness_seconds"`
		Keys         map[string]int             `json:"keys"`
		Signing      map[oauth.Algorithm]string `json:"signing_keys"`
		ClockSkew    float64                    `json:"clock_skew_seconds"`
		Verified     int                        `json:"verified_tokens"`
		Housekeeper  bool                       `json:"housekeeper"`
		Stored       map[string]int64           `json:"stored_rows"`
		AuditDropped int64                      `json:"audit_events_dropped"`
		Mail         *admin.MailStatus          `json:"mail"`
	}
)
