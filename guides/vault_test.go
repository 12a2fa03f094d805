package guides

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	vaultjwt "github.com/hashicorp/vault-plugin-auth-jwt"
	"github.com/hashicorp/vault/sdk/logical"
)

// TestVault signs in by Vault's own auth method, which OpenBao has too, with the guide's configuration and role. The role's policies and the
// aliases of the groups are what Vault makes a token of.
func TestVault(t *testing.T) {
	g := startGatehouse(t)
	p := g.open("vault")
	p.ran("vault-plugin-auth-jwt", inGo(t, ".", "github.com/hashicorp/vault-plugin-auth-jwt"))
	pem, err := os.ReadFile(g.authority)
	check(t, err)
	storage := &logical.InmemStorage{}
	backend, err := vaultjwt.Factory(t.Context(), &logical.BackendConfig{
		Logger: hclog.NewNullLogger(), StorageView: storage, BackendUUID: "gatehouse", System: &logical.StaticSystemView{},
	})
	check(t, err)
	t.Cleanup(func() { backend.Cleanup(context.Background()) })
	ask := func(operation logical.Operation, path string, data map[string]any) *logical.Response {
		t.Helper()
		answer, err := backend.HandleRequest(t.Context(), &logical.Request{Operation: operation, Path: path, Data: data, Storage: storage})
		if err != nil || answer.IsError() {
			t.Fatalf("%s: %v %v", path, err, answer)
		}
		return answer
	}
	ask(logical.UpdateOperation, "config", written(t, p.text, "auth/oidc/config", map[string]any{"oidc_discovery_ca_pem": string(pem)}))
	ask(logical.CreateOperation, "role/people", written(t, p.text, "auth/oidc/role/people", map[string]any{}))
	const callback = "https://vault.example.com/ui/vault/auth/oidc/oidc/callback"
	begun := ask(logical.UpdateOperation, "oidc/auth_url", map[string]any{"role": "people", "redirect_uri": callback})
	address, _ := begun.Data["auth_url"].(string)
	if !strings.Contains(address, "code_challenge_method=S256") {
		t.Fatalf("Vault begins with %q", address)
	}
	at := newBrowser(t).sentTo(address, to(callback+"?"))
	done := ask(logical.ReadOperation, "oidc/callback", map[string]any{"state": at.Query().Get("state"), "code": at.Query().Get("code")})
	var groups []string
	for _, alias := range done.Auth.GroupAliases {
		groups = append(groups, alias.Name)
	}
	if done.Auth.Alias.Name != g.subject || !slices.Equal(groups, []string{"engineering"}) || !slices.Equal(done.Auth.Policies, []string{"default"}) {
		told, _ := json.Marshal(done.Auth)
		t.Errorf("Vault makes a token of %s", told)
	}
}

// written returns what a `vault write` of the page writes to a path. A name that is there twice is a list.
func written(t *testing.T, page, path string, data map[string]any) map[string]any {
	t.Helper()
	_, command, found := strings.Cut(page, "$ vault write "+path+" ")
	if !found {
		t.Fatalf("the guide does not write %s", path)
	}
	command, _, _ = strings.Cut(command, "\n$ ")
	command, _, _ = strings.Cut(command, "\n```")
	for word := range strings.FieldsSeq(strings.ReplaceAll(command, "\\\n", " ")) {
		name, value, _ := strings.Cut(word, "=")
		if before, is := data[name].(string); is {
			value = before + "," + value
		}
		data[name] = value
	}
	return data
}
