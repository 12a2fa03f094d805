//go:build linux

package rig

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Tokens is the body of a successful answer of the token endpoint, and of the admin operation.
type Tokens struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int    `json:"expires_in"`
	RefreshToken string `json:"refresh_token"`
	Scope        string `json:"scope"`
	CreatedAt    int64  `json:"created_at"`
}

// ReadTokens decodes an answer that must contain tokens.
func ReadTokens(a Answer) (Tokens, error) {
	var tokens Tokens
	if a.Status != http.StatusOK && a.Status != http.StatusCreated {
		return Tokens{}, fmt.Errorf("no tokens: %s", a)
	}
	if err := json.Unmarshal([]byte(a.Body), &tokens); err != nil || tokens.AccessToken == "" {
		return Tokens{}, fmt.Errorf("no tokens in %s: %w", a, err)
	}
	return tokens, nil
}
